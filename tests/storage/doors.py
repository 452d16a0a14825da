"""Doors to the file system that do what devices do at their worst.

`FailingFiles` answers with an error when told to. `ForgetfulFiles` remembers what was synced,
and after a power failure only that is there: files are cut back to their size at the last sync,
and names that were made, changed or removed since their folder was synced are as before.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drumlin.storage.files.files import Files

CHANGING = ("create", "write_at", "truncate", "sync", "sync_directory", "rename", "set_aside")
#: Everything that needs room, as a full device sees it.
NEEDING_ROOM = ("write_at", "set_aside", "create")


class FailingFiles(Files):
    """Fails with `code` in the operations named, from the `countdown`-th call on."""

    def __init__(self) -> None:
        super().__init__()
        self.code = errno.EIO
        self.operations: tuple[str, ...] = ()
        self.countdown = 0
        self.only_once = False
        self.failures = 0
        self.failed_last = ""

    def fail(
        self, *operations: str, code: int = errno.EIO, after: int = 0, only_once: bool = False
    ) -> None:
        self.operations, self.code, self.countdown = operations, code, after
        self.only_once, self.failures = only_once, 0

    def heal(self) -> None:
        self.operations = ()

    def _check(self, operation: str) -> None:
        if operation not in self.operations:
            return
        if self.countdown > 0:
            self.countdown -= 1
            return
        self.failures += 1
        self.failed_last = operation
        if self.only_once:
            self.heal()
        raise OSError(self.code, os.strerror(self.code))

    def write_at(self, descriptor: int, data: Any, position: int) -> None:
        try:
            self._check("write_at")
        except OSError:
            # The nasty way: half of it is there.
            super().write_at(descriptor, memoryview(data)[: len(data) // 2], position)
            raise
        super().write_at(descriptor, data, position)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _checked(call: str, name: str) -> Callable[..., Any]:
    original = getattr(Files, call)

    def operation(self: FailingFiles, *arguments: Any) -> Any:
        self._check(name)
        return original(self, *arguments)

    return operation


for _name in ("create", "truncate", "sync", "sync_directory", "rename", "set_aside", "read_at"):
    # A device that fails to sync fails in the system call.
    _call = {"sync": "fdatasync", "sync_directory": "fsync"}.get(_name, _name)
    setattr(FailingFiles, _call, _checked(_call, _name))


class ForgetfulFiles(Files):
    """Knows what would survive a power failure."""

    def __init__(self) -> None:
        super().__init__()
        self._paths: dict[int, str] = {}  # by descriptor
        self._synced_sizes: dict[str, int] = {}
        self._undo: list[tuple[str, Callable[[], None]]] = []  # by folder, oldest first

    # -- following what is done --------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> int:
        if create and not Path(path).exists():
            self._note_created(path)
        descriptor = super().open(path, create=create)
        self._paths[descriptor] = path
        return descriptor

    def close(self, descriptor: int) -> None:
        del self._paths[descriptor]
        super().close(descriptor)

    def create(self, path: str) -> None:
        if not Path(path).exists():
            self._note_created(path)
        self._synced_sizes[path] = 0
        super().create(path)

    def truncate(self, descriptor: int, size: int) -> None:
        path = self._paths[descriptor]
        self._synced_sizes[path] = min(self._synced_sizes.get(path, size), size)
        super().truncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        # The device itself need not be asked: what it keeps is decided here.
        self._synced_sizes[self._paths[descriptor]] = self.size(descriptor)

    def sync_directory(self, path: str) -> None:
        self._undo = [entry for entry in self._undo if entry[0] != path]

    def rename(self, source: str, target: str) -> None:
        overwritten = Path(target).read_bytes() if Path(target).is_file() else None
        size = self._synced_sizes.pop(target, 0)
        super().rename(source, target)
        self._synced_sizes[target] = self._synced_sizes.pop(source, 0)
        for descriptor, path in self._paths.items():
            if path == source:
                self._paths[descriptor] = target

        def undo() -> None:
            Path(target).rename(source)
            self._synced_sizes[source] = self._synced_sizes.pop(target, 0)
            if overwritten is not None:
                Path(target).write_bytes(overwritten)
                self._synced_sizes[target] = size

        self._undo.append((_folder(target), undo))

    def remove(self, path: str) -> None:
        if Path(path).exists():
            content, size = Path(path).read_bytes(), self._synced_sizes.pop(path, 0)

            def undo() -> None:
                Path(path).write_bytes(content)
                self._synced_sizes[path] = size

            self._undo.append((_folder(path), undo))
        super().remove(path)

    def _note_created(self, path: str) -> None:
        def undo() -> None:
            Path(path).unlink(missing_ok=True)
            self._synced_sizes.pop(path, None)

        self._synced_sizes[path] = 0
        self._undo.append((_folder(path), undo))

    # -- the power failure -------------------------------------------------------------

    def lose_unsynced(self) -> None:
        """Everything that was not synced is as it was; call it with all files closed."""
        for _, undo in reversed(self._undo):
            with contextlib.suppress(FileNotFoundError):
                undo()
        self._undo.clear()
        for path, size in self._synced_sizes.items():
            if Path(path).is_file() and Path(path).stat().st_size > size:
                os.truncate(path, size)
