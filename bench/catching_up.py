"""When the logs of a broker begin to grow: it is up, and catches up."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Self

_LOOK_S = 0.01


class Growth:
    """Looks at a topic's logs in a data dir from the start of the block until its end."""

    def __init__(self, data: Path, topic: str) -> None:
        self._logs = sorted(data.glob(f"{topic}-*"))
        self._before = self._size()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        #: When they had grown for the first time; the start of the block until then.
        self.began_at = time.monotonic()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            looked_at = time.monotonic()
            if self._size() > self._before:
                self.began_at = looked_at
                return

    def _size(self) -> int:
        return sum(
            path.stat().st_size
            for log in self._logs
            for path in log.iterdir()
            if path.suffix == ".log"
        )
