"""The folder of a table in Parquet files. Each of its versions is a folder that never changes:

    users/00000000000000000012/0-03-5e0c....parquet    partition 0, bucket 3
                               _drumlin.json           positions, and the files of each bucket
    users/00000000000000000013/...
    users/_aside/...                                   unfinished versions
    users/_lock

A version is prepared in `_aside`, and then renamed. Files that it shares with the previous version
are hard links to the same data. A process that makes a version holds the lock from reading the
previous version until the new one is renamed; the system releases the lock of a process that died.

Knows nothing of rows.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from drumlin.serving.target import TargetRefused

#: Readers ignore names that begin with an underscore.
_STATE: Final = "_drumlin.json"
_LOCK: Final = "_lock"
_ASIDE: Final = "_aside"
_DIGITS: Final = 20


class ParquetFolder:
    """A table's folder, used by one thread."""

    def __init__(self, path: Path, keep_s: float) -> None:
        """`keep_s`: how long a version stays readable after a newer one was made."""
        self.path = path
        self._keep_s = keep_s
        #: This process's folder for unfinished files.
        self.aside = path / _ASIDE / uuid.uuid4().hex
        self._aside_lock: int | None = None

    def prepare(self) -> None:
        """Create the folder unless it exists.

        Raises:
            TargetRefused: it has files of other programs.
            OSError: it cannot be created.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        for each in self.path.iterdir():
            if not each.name.isdecimal() and each.name not in (_LOCK, _ASIDE):
                raise TargetRefused(f"{self.path} has files of another program: {each.name!r}")

    def newest(self) -> tuple[Path, dict[str, Any]] | None:
        """The newest version: its folder and its state."""
        while True:
            found = max(self._versions(), default=None)
            if found is None:
                return None
            try:
                return found, json.loads((found / _STATE).read_bytes())
            except FileNotFoundError:
                if found.exists():
                    raise TargetRefused(f"{found} has no {_STATE}") from None
                # Another process has removed the version meanwhile, as it was too old.

    def commit(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """Make the next version. If `change` raises an exception, nothing changes.

        Args:
            change: returns the next state for the newest one (empty: there is none). Its `files`
                are names of files in the newest version or in `aside`.

        Returns:
            The state of the next version.
        """
        self._enter_aside()
        with _locked(self.path / _LOCK):
            newest = self.newest()
            before, state = (None, {}) if newest is None else newest
            state = change(state)
            number = 0 if before is None else int(before.name) + 1
            made = self.aside / f"{number:0{_DIGITS}}"
            made.mkdir()
            try:
                for name in state["files"]:
                    self._link(name, before, made)
                with (made / _STATE).open("wb") as file:
                    file.write(json.dumps(state).encode())
                    file.flush()
                    os.fsync(file.fileno())
                _sync_folder(made)
                made.rename(self.path / made.name)
            except BaseException:
                shutil.rmtree(made, ignore_errors=True)
                raise
            _sync_folder(self.path)
            old = self._take_old_away()
        for each in old:
            shutil.rmtree(each, ignore_errors=True)
        return state

    def has(self, names: Collection[str]) -> bool:
        """Whether the newest version has these files."""
        newest = self.newest() if names else None
        return not names or (
            newest is not None and all((newest[0] / each).exists() for each in names)
        )

    def new_file(self, name: str) -> Path:
        """The path of a new file in `aside`, which a commit may name."""
        self._enter_aside()
        return self.aside / f"{name}-{uuid.uuid4().hex}.parquet"

    def close(self) -> None:
        """Remove unfinished files."""
        shutil.rmtree(self.aside, ignore_errors=True)
        if self._aside_lock is not None:
            os.close(self._aside_lock)
            self._aside_lock = None

    def _versions(self) -> list[Path]:
        return [each for each in self.path.iterdir() if each.name.isdecimal()]

    def _link(self, name: str, before: Path | None, made: Path) -> None:
        aside = self.aside / name
        if aside.exists() or before is None:
            (made / name).hardlink_to(aside)
        else:
            (made / name).hardlink_to(before / name)

    def _enter_aside(self) -> None:
        """Create this process's folder, and remove those of processes that have died."""
        if self._aside_lock is not None and self.aside.exists():
            return
        self.close()
        self.aside.mkdir(parents=True)
        self._aside_lock = os.open(self.aside / _LOCK, os.O_CREAT | os.O_RDWR)
        fcntl.flock(self._aside_lock, fcntl.LOCK_EX)
        for each in self.aside.parent.iterdir():
            if each == self.aside:
                continue
            with contextlib.suppress(OSError), _locked(each / _LOCK, waits=False):
                shutil.rmtree(each, ignore_errors=True)

    def _take_old_away(self) -> list[Path]:
        """Move versions aside that are no longer kept for readers."""
        versions = sorted(self._versions())
        before_s = time.time() - self._keep_s
        old = []
        for each, next_one in pairwise(versions):
            if next_one.stat().st_mtime < before_s:
                old.append(each.rename(self.aside / f"old-{each.name}"))
        return old


@contextlib.contextmanager
def _locked(path: Path, *, waits: bool = True) -> Iterator[None]:
    """Hold the lock of a file that exists or is created.

    Raises:
        BlockingIOError: another process holds it, and `waits` is False.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
