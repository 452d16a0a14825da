"""Options that many commands have, so that they read and behave the same everywhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import click
from click.core import ParameterSource

from drumlin.cli.terminal import contexts, output
from drumlin.cli.terminal.commands import Option

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"

#: The key in click's context for the addresses in the configuration file, and whether the command
#: line named that file, rather than the environment.
FOUND_BOOTSTRAP: Final = "drumlin.bootstrap"


def choose_bootstrap(context: click.Context, value: str | None) -> str | None:
    """The addresses: the command line's come first, its file's next; last the current context's.

    With the current context's addresses come its other properties. They are never combined with
    other addresses: a login is for one cluster.
    """
    found, is_asked_for = context.meta.get(FOUND_BOOTSTRAP, (None, False))
    source = context.get_parameter_source("bootstrap")
    if source is ParameterSource.DEFAULT and context.params.get("command_config") is None:
        name = contexts.current()
        if name is not None:
            context.params["command_config"] = contexts.existing(name)
            return contexts.bootstrap_of(name)
    if found is None or source is ParameterSource.COMMANDLINE:
        return value
    return value if source is ParameterSource.ENVIRONMENT and not is_asked_for else found


Bootstrap = Annotated[
    str,
    Option(
        "--bootstrap",
        "-b",
        envvar="DRUMLIN_BOOTSTRAP",
        metavar="HOST:PORT[,…]",
        help="Brokers to connect to first.",
        choose=choose_bootstrap,
    ),
]
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Yes = Annotated[
    bool,
    Option("--yes", "-y", help="Do not ask. Required where there is no terminal."),
]
_EXIT_USAGE: Final = 2


def confirm(question: str, yes: bool) -> None:
    """Ask before an action that cannot be undone.

    Raises:
        output.Failure: there is no terminal to ask on: a script has to pass `--yes`.
        click.Abort: the answer is no.
    """
    if yes:
        return
    if not can_ask():
        refusal = f"{question} There is no terminal to ask on: say --yes to have it done"
        raise output.Failure(refusal, _EXIT_USAGE)
    click.confirm(output.visible(question), abort=True, err=True)


def can_ask() -> bool:
    """Whether there is a terminal to ask and answer on."""
    return sys.stdin is not None and sys.stdin.isatty()


def examples(*commands: str) -> str:
    """The end of a command's help; click leaves lines after a backspace as they are."""
    return "\n".join(("\b", "Examples:", *(f"  {each}" for each in commands)))


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Configuration from `key=value` arguments.

    Raises:
        click.BadParameter: an argument has another form.
    """
    parsed = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{assignment!r} is not KEY=VALUE")
        parsed[key.strip()] = value.strip()
    return parsed


def read_properties(path: Path) -> dict[str, str]:
    """Configuration from a file of Java's properties.

    Raises:
        output.Failure: the file does not exist, or has another form.
    """
    from drumlin.config.config_error import ConfigError
    from drumlin.config.sources import read_properties_file

    try:
        return read_properties_file(path)
    except ConfigError as error:
        raise output.Failure(str(error)) from None
