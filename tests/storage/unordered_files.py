"""A door to a device that stops at a given operation, and keeps what was not synced as it likes.

More than any file system would do: of the names that were made, changed or removed since their
folder was synced, any may have got there or not, whatever came first; and of each file what is
behind its size at its last sync.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from drumlin.storage.files.files import Files

_Names = dict[str, int]  # name -> inode


class Killed(BaseException):
    """The process, or the machine, is no more."""


class _Change(NamedTuple):
    """What was done to a folder: an inode got a name, lost one, or both."""

    inode: int
    source: str | None
    target: str | None

    def apply(self, names: _Names) -> None:
        """As far as it makes sense: what it builds on may be lost."""
        if self.source is not None:
            if names.get(self.source) != self.inode:
                return
            del names[self.source]
        if self.target is not None:
            names[self.target] = self.inode


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


class UnorderedFiles(Files):
    """`begin` watches folders from a moment on at which all in them is on the device."""

    def __init__(self, vault: Path) -> None:
        super().__init__()
        self.done = 0  # operations that change something
        self.stop_after: int | None = None
        self._vault = vault  # a name for every inode, so that none is lost
        self._synced_sizes: dict[int, int] = {}
        self._durable: dict[str, _Names] = {}
        self._changes: dict[str, list[_Change]] = {}

    def begin(self, *folders: Path) -> None:
        self._vault.mkdir()
        for folder in folders:
            names = {path.name: self._keep(path) for path in folder.iterdir() if path.is_file()}
            self._durable[str(folder)] = names
            self._changes[str(folder)] = []
            for path in folder.iterdir():
                self._synced_sizes[path.stat().st_ino] = path.stat().st_size

    def _keep(self, path: Path | str) -> int:
        inode = Path(path).stat().st_ino
        kept = self._vault / str(inode)
        if not kept.exists():
            os.link(path, kept)
        return inode

    def _note(self, path: str, inode: int, source: str | None, target: str | None) -> None:
        folder = _split(path)[0]
        if folder in self._changes:
            self._changes[folder].append(_Change(inode, source, target))

    def _count(self) -> None:
        if self._durable:
            if self.stop_after is not None and self.done >= self.stop_after:
                raise Killed
            self.done += 1

    # -- what is done ------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> int:
        if not create or Path(path).exists():
            return super().open(path)
        self._count()
        descriptor = super().open(path, create=True)
        self._note_created(path)
        return descriptor

    def create(self, path: str) -> None:
        self._count()
        is_new = not Path(path).exists()
        super().create(path)
        if is_new:
            self._note_created(path)
        self._synced_sizes[Path(path).stat().st_ino] = 0

    def _note_created(self, path: str) -> None:
        if _split(path)[0] in self._changes:
            self._note(path, self._keep(path), None, _split(path)[1])

    def write_at(self, descriptor: int, data: Any, position: int) -> None:
        self._count()
        super().write_at(descriptor, data, position)

    def truncate(self, descriptor: int, size: int) -> None:
        self._count()
        inode = os.fstat(descriptor).st_ino
        self._synced_sizes[inode] = min(self._synced_sizes.get(inode, 0), size)
        super().truncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        self._count()
        self._synced_sizes[os.fstat(descriptor).st_ino] = self.size(descriptor)

    def sync_directory(self, path: str) -> None:
        self._count()
        if path in self._durable:
            for change in self._changes[path]:
                change.apply(self._durable[path])
            self._changes[path] = []

    def rename(self, source: str, target: str) -> None:
        self._count()
        super().rename(source, target)
        self._note(target, Path(target).stat().st_ino, _split(source)[1], _split(target)[1])

    def remove(self, path: str) -> None:
        self._count()
        if Path(path).exists():
            self._note(path, Path(path).stat().st_ino, _split(path)[1], None)
        super().remove(path)

    # -- what is left ------------------------------------------------------------------

    @property
    def changes(self) -> int:
        """How many changes of names are not synced."""
        return sum(map(len, self._changes.values()))

    def leave_to(
        self, root: Path, target: Path, lost: Container[int] = (), cut: Callable[[], bool] = bool
    ) -> None:
        """Make `target` what `root` is after the failure.

        Args:
            lost: which of the changes never got there, by number.
            cut: asked for each file whether what was not synced of it is lost.
        """
        number = 0
        for folder, durable in self._durable.items():
            names = dict(durable)
            for change in self._changes[folder]:
                if number not in lost:
                    change.apply(names)
                number += 1
            place = target / Path(folder).relative_to(root)
            place.mkdir(parents=True, exist_ok=True)
            for name, inode in names.items():
                content = (self._vault / str(inode)).read_bytes()
                size = self._synced_sizes.get(inode, 0) if cut() else len(content)
                (place / name).write_bytes(content[:size])


def losses(changes: int, chance: random.Random) -> Iterator[set[int]]:
    """Nothing, all, some single ones, and some at random."""
    every = range(changes)
    yield set()
    if changes:
        yield set(every)
        for number in chance.sample(every, min(changes, 6)):
            yield {number}
        for share in (0.3, 0.7):
            yield {number for number in every if chance.random() < share}
