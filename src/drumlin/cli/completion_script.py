"""`drumlin completion`: a script that makes a shell complete commands, topics and groups."""

from __future__ import annotations

import enum
from typing import Annotated, Final

import click
from click.shell_completion import get_completion_class

from drumlin.cli.terminal.commands import Argument, command
from drumlin.cli.terminal.options import examples


class Shell(enum.StrEnum):
    """The supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, Argument(help="The shell that gets completion.")]) -> None:
    """Print the script that a shell runs at its start, to complete words after `drumlin`."""
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
