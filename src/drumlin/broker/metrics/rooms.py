"""The room on the file systems of log dirs.

A network file system that is gone answers never. So each log dir is asked in a thread of its own,
for which nobody waits for long, and is not asked again until that one has answered.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from concurrent.futures import Future, wait
from typing import Final, NamedTuple

#: How long a scrape waits for all log dirs.
_PATIENCE_S: Final = 1.0


class Room(NamedTuple):
    """What a file system has left for us, and its size."""

    free_bytes: int
    total_bytes: int


class Rooms:
    """Asks log dirs, one caller at a time."""

    def __init__(self) -> None:
        #: Log dirs that have not answered yet.
        self._asked: dict[str, Future[Room | None]] = {}

    def of(self, paths: Iterable[str]) -> dict[str, Room]:
        """The rooms of those that answer at once. Blocks, for a second at most."""
        begun = {path: self._ask(path) for path in paths if self._is_free(path)}
        answered, silent = wait(begun.values(), _PATIENCE_S)
        self._asked.update({path: each for path, each in begun.items() if each in silent})
        found = {path: each.result() for path, each in begun.items() if each in answered}
        return {path: room for path, room in found.items() if room is not None}

    def _is_free(self, path: str) -> bool:
        if path in self._asked and self._asked[path].done():
            del self._asked[path]
        return path not in self._asked

    def _ask(self, path: str) -> Future[Room | None]:
        answer: Future[Room | None] = Future()

        def ask() -> None:
            room = None
            with contextlib.suppress(OSError):  # it has just failed, or was removed
                room = _room(path)
            answer.set_result(room)

        # A daemon: the end of the process does not wait for it.
        threading.Thread(target=ask, name="room", daemon=True).start()
        return answer


def _room(path: str) -> Room | None:
    found = os.statvfs(path)
    if not found.f_blocks:  # the file system does not tell
        return None
    return Room(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)
