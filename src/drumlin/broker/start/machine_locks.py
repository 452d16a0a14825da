"""The locks of the log dirs of all brokers of a machine, held from before their start until their
end.

Brokers inherit the locks: a log dir is locked until the last process that may write into it has
ended.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, Self

from drumlin.broker.start.startup import StartFailed
from drumlin.storage.directory.directory_lock import DirectoryLock

_log = logging.getLogger(__name__)

#: The time to wait for a lock: brokers of a killed server end by themselves, but not at once.
_PATIENCE_S: Final = 3.0
_LOOK_S: Final = 0.05


class Locks:
    """The locks, held within a `with`. Log dirs that cannot be locked now are left to their
    brokers.
    """

    def __init__(self, log_dirs: Mapping[int, Collection[str]]) -> None:
        self._log_dirs = log_dirs
        self._held: dict[str, DirectoryLock] = {}

    def __enter__(self) -> Self:
        """
        Raises:
            StartFailed: a log dir is in use.
        """
        deadline = time.monotonic() + _PATIENCE_S
        try:
            for paths in self._log_dirs.values():
                for path in paths:
                    self._lock(path, deadline)
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def of(self, node_id: int) -> dict[str, int]:
        """The descriptors that lock the log dirs of one broker."""
        held = {path: self._held[path] for path in self._log_dirs[node_id] if path in self._held}
        return {path: lock.descriptor for path, lock in held.items() if lock.descriptor is not None}

    def _lock(self, path: str, deadline: float) -> None:
        lock = DirectoryLock(path)
        with contextlib.suppress(OSError):  # its broker will log the reason
            Path(path).mkdir(parents=True, exist_ok=True)
            while not lock.acquire():
                if time.monotonic() > deadline:
                    raise StartFailed(f"log dir {path} is in use by another server")
                time.sleep(_LOOK_S)
            self._held[path] = lock

    def _release(self) -> None:
        for lock in self._held.values():
            lock.release()
        self._held.clear()
