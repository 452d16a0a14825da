"""Options before the command: `drumlin --profile prod topics list`.

A profile is a user's file with properties of Kafka's clients: the address of a cluster, and the
login. As it may have a password, nobody else may read it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import click

from drumlin.cli.terminal.output import Failure

#: The key in click's context for the file that was named before the command.
NAMED_BEFORE: Final = "drumlin.config"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SUFFIX: Final = ".properties"


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
            ["--profile"],
            metavar="NAME",
            expose_value=False,
            callback=_take_profile,
            help=f"The same, from ~/.config/drumlin/NAME{_SUFFIX}.",
        ),
    ]


def profiles_folder() -> Path:
    """The folder of the user's profiles."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "drumlin"


def _take_file(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None and not context.resilient_parsing:
        _take(context, path)


def _take_profile(context: click.Context, _: click.Parameter, name: str | None) -> None:
    if name is not None and not context.resilient_parsing:
        _take(context, _profile(name))


def _take(context: click.Context, path: Path) -> None:
    if NAMED_BEFORE in context.meta:
        raise click.UsageError("say --config or --profile, not both")
    context.meta[NAMED_BEFORE] = path


def _profile(name: str) -> Path:
    """The file of a profile.

    Raises:
        Failure: there is no such file, or others may read or change it.
    """
    from drumlin.securing.private_files import is_seen_by_others

    if not _NAME.fullmatch(name):
        raise click.BadParameter(f"{name!r} is no profile's name")
    folder = profiles_folder()
    path = folder / f"{name}{_SUFFIX}"
    try:
        is_seen = is_seen_by_others(path)
    except OSError as error:
        known = sorted(each.stem for each in folder.glob(f"*{_SUFFIX}"))
        there = f"there are {', '.join(known)}" if known else "there is none yet"
        raise Failure(f"profile {name}: {path}: {error.strerror} ({there})") from None
    if is_seen:
        raise Failure(f"profile {name}: others may read or change it: chmod 600 {path}")
    return path
