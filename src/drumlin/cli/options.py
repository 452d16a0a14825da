"""Options that many commands have, so that they read and behave the same everywhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated, Final

import typer

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
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(question: str, yes: bool) -> None:
    """Ask a person; a script has made up its mind."""
    if not yes and sys.stdin.isatty():
        typer.confirm(question, abort=True, err=True)


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
