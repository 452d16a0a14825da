"""Contexts: the clusters that a user has named, and the current one among them.

Each is a file with properties of Kafka's clients: the address of a cluster, and the login. As it
may have a password, nobody else may read it. The current context is used by commands for which
neither the command line nor the environment names a cluster.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import click

from drumlin.cli.terminal.names import suggestion
from drumlin.cli.terminal.output import Failure

SUFFIX: Final = ".properties"
BOOTSTRAP: Final = "bootstrap.servers"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_CURRENT: Final = "current-context"


def folder() -> Path:
    """The folder of the user's contexts.

    Raises:
        Failure: the user has no home directory, as some of containers.
    """
    try:
        return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "drumlin"
    except RuntimeError:
        raise Failure("no home directory for contexts: set HOME or XDG_CONFIG_HOME") from None


def names() -> list[str]:
    """The names of all contexts; a file with another name is none."""
    stems = (each.stem for each in folder().glob(f"*{SUFFIX}"))
    return sorted(each for each in stems if _NAME.fullmatch(each))


def path_of(name: str) -> Path:
    """The place of a context's file, which need not exist.

    Raises:
        click.BadParameter: a context cannot have this name.
    """
    if not _NAME.fullmatch(name):
        raise click.BadParameter(f"{name!r} is not a name of a context")
    return folder() / f"{name}{SUFFIX}"


def existing(name: str) -> Path:
    """The file of a context.

    Raises:
        Failure: there is no such file, or others may read or change it.
    """
    from drumlin.securing.private_files import is_seen_by_others

    path = path_of(name)
    try:
        is_seen = is_seen_by_others(path)
    except OSError as error:
        there = f"there are {', '.join(names())}" if names() else "there is none yet"
        near = suggestion(name, names())
        raise Failure(f"context {name}: {path}: {error.strerror}{near} ({there})") from None
    if is_seen:
        raise Failure(f"context {name}: others may read or change it: chmod 600 {path}")
    return path


def properties_of(name: str) -> dict[str, str]:
    """The properties of a context.

    Raises:
        Failure: there is no such file, it is invalid, or others may read or change it.
    """
    from drumlin.config.properties import decode_properties

    path = existing(name)
    try:
        return decode_properties(path.read_bytes())
    except OSError as error:
        raise Failure(f"context {name}: {path}: {error.strerror}") from None
    except ValueError as error:
        raise Failure(f"context {name}: {path}: {error}") from None


def bootstrap_of(name: str) -> str:
    """The addresses of a context.

    Raises:
        Failure: as from `properties_of`, or it names no addresses.
    """
    found = properties_of(name).get(BOOTSTRAP)
    if not found:
        raise Failure(f"context {name}: {path_of(name)} has no {BOOTSTRAP}")
    return found


def current() -> str | None:
    """The name of the current context, if one was chosen.

    Raises:
        Failure: it cannot be read. Without it, a command would work on another cluster.
    """
    try:
        path = folder() / _CURRENT
    except Failure:
        return None
    try:
        name = path.read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failure(f"the current context: {path}: {error.strerror}") from None
    return name or None


def choose(name: str | None) -> None:
    """Make a context the current one; None: no context is."""
    from drumlin.securing.private_files import write_private

    if name is None:
        (folder() / _CURRENT).unlink(missing_ok=True)
    else:
        write_private(folder() / _CURRENT, f"{name}\n")
