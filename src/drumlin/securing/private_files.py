"""Files that only their owner can read."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from drumlin.config.config_error import ConfigError

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def write_private(path: Path, content: str) -> None:
    """Replace a file durably and atomically; nobody else can ever read it.

    Raises:
        OSError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()  # left by a crash; its mode is unknown
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    put_in_place(temporary, path)


def put_in_place(temporary: Path, path: Path) -> None:
    """Have a file take the place of another one of the same folder, durably.

    Raises:
        OSError: it cannot.
    """
    temporary.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_private_folder(path: Path, *, key: str) -> None:
    """Make a folder that only its owner can read; check the owner of an existing one.

    Raises:
        ConfigError: it belongs to another user, or others may write into it. `key` is the
            configuration key that names it.
        OSError: it cannot be made.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if found.st_uid not in (os.geteuid(), 0):
        raise ConfigError(key, str(path), "belongs to another user, who could read what is secret")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        allowed = f"can be written by others, who could change what is secret: chmod go-w {path}"
        raise ConfigError(key, str(path), allowed)


def hide(path: Path) -> None:
    """Make a file unreadable for others, if it exists.

    Raises:
        OSError: it belongs to another user.
    """
    with contextlib.suppress(FileNotFoundError):
        path.chmod(0o600)


def is_seen_by_others(path: Path) -> bool:
    """Whether other users may read or write a file.

    Raises:
        OSError: the file does not exist.
    """
    return bool(path.stat().st_mode & _OTHERS)
