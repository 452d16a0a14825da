"""Options that many commands have, so that they read and behave the same everywhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated, Final

import typer

from drumlin.cli import output

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="DRUMLIN_BOOTSTRAP",
        metavar="HOST:PORT[,…]",
        help="Brokers to find the cluster by.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Do not ask; without a terminal nothing is done otherwise."),
]
_EXIT_USAGE: Final = 2


def confirm(question: str, yes: bool) -> None:
    """Ask before doing what cannot be undone.

    Raises:
        output.Failure: nobody is there to be asked: a script has to say `--yes`.
        typer.Abort: the answer is no.
    """
    if yes:
        return
    if not can_ask():
        refusal = f"{question} There is no terminal to ask on: say --yes to have it done"
        raise output.Failure(refusal, _EXIT_USAGE)
    typer.confirm(question, abort=True, err=True)


def can_ask() -> bool:
    """Whether a person reads and answers."""
    return sys.stdin is not None and sys.stdin.isatty()


def examples(*commands: str) -> str:
    """The end of a command's help."""
    lines = "\n".join(f"  {command}" for command in commands)
    return f"[bold]Examples[/bold]\n\n{lines}"


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Configuration from `key=value` arguments.

    Raises:
        typer.BadParameter: one is written otherwise.
    """
    parsed = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{assignment!r} is not KEY=VALUE")
        parsed[key.strip()] = value.strip()
    return parsed
