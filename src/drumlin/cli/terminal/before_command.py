"""Options before the command: `drumlin --profile prod topics list`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from drumlin.cli.terminal import contexts
from drumlin.cli.terminal.output import Failure

#: The key in click's context for the file that was named before the command.
NAMED_BEFORE: Final = "drumlin.config"


def options_before_command() -> list[click.Option]:
    """The options before a command."""
    return [
        click.Option(
            ["--config"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            expose_value=False,
            callback=_take_file,
            help="Properties of Kafka's clients, for the command: addresses, TLS, login.",
        ),
        click.Option(
            ["--profile", "--context"],
            metavar="NAME",
            expose_value=False,
            callback=_take_context,
            shell_complete=_complete,
            help=f"The same, from ~/.config/drumlin/NAME{contexts.SUFFIX}: see `drumlin context`.",
        ),
    ]


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(each) for each in contexts.names() if each.startswith(incomplete)]


def _take_file(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        _take(context, path)


def _take_context(context: click.Context, _: click.Parameter, name: str | None) -> None:
    if name is None:
        return
    try:
        path = contexts.existing(name)
    except (Failure, click.BadParameter):
        if not context.resilient_parsing:
            raise
        path = Path(os.devnull, name)  # while a line is completed: no cluster, so no names
    _take(context, path)


def _take(context: click.Context, path: Path) -> None:
    if NAMED_BEFORE in context.meta and not context.resilient_parsing:
        raise click.UsageError("say --config or --profile, not both")
    context.meta[NAMED_BEFORE] = path
