"""`drumlin completion`: the script by which a shell completes commands, topics and groups."""

from __future__ import annotations

import enum
from typing import Annotated, Final

import click
from click.shell_completion import get_completion_class

from drumlin.cli.terminal.commands import Argument, command
from drumlin.cli.terminal.options import examples


class Shell(enum.StrEnum):
    """Shells that can be taught."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, Argument(help="The shell to teach.")]) -> None:
    """Print what a shell has to run, once at its start, to complete words after `drumlin`."""
    known = get_completion_class(shell)
    assert known is not None
    root = click.get_current_context().find_root().command
    print(known(root, {}, "drumlin", "_DRUMLIN_COMPLETE").source())


completion_command: Final = command(
    completion,
    epilog=examples(
        'eval "$(drumlin completion bash)"',
        "drumlin completion zsh > ~/.zfunc/_drumlin",
        "drumlin completion fish > ~/.config/fish/completions/drumlin.fish",
    ),
)
