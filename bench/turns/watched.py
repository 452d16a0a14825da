"""`drumlin server` that writes down how much processor time its longer turns take, and where.

    python -m bench.turns.watched FILE server --data DIR ...

Processor time, as on a busy machine a turn lasts long because others have the processor. A thread
looks every millisecond where the running turn is, and appends a line of JSON to FILE for each that
took more than two: its milliseconds, those in the look for garbage, and its places.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any, Final, TextIO
from unittest.mock import patch

from drumlin.broker.loop.loop_watch import LoopWatch, place_of
from drumlin.broker.start import process
from drumlin.cli.main import main

_TOLD_S: Final = 0.002
_LOOK_INTERVAL_S: Final = 0.001
_PLACES: Final = 2


class TimedWatch(LoopWatch):
    """Its loop's turns are told in `file`."""

    file: TextIO

    def new_loop(self) -> asyncio.AbstractEventLoop:
        loop: Any = super().new_loop()
        turns = _Turns(threading.get_ident())
        loop._run_once = turns.timed(loop._run_once)
        gc.callbacks.insert(0, turns.collecting)  # the broker hears of it last, as without us
        threading.Thread(target=turns.tell, args=(self.file,), daemon=True).start()
        return loop  # type: ignore[no-any-return]


class _Turns:
    def __init__(self, loop_thread: int) -> None:
        self._loop_thread = loop_thread
        self._clock = time.pthread_getcpuclockid(loop_thread)
        self._number = 0
        self._began_s: float | None = None
        self._collecting_since_s = 0.0
        self._collected_s = 0.0
        self._done: deque[tuple[int, float, float]] = deque()

    def timed(self, run_once: Any) -> Any:
        def turn() -> None:
            self._number += 1
            self._collected_s = 0.0
            self._began_s = began_s = time.thread_time()
            try:
                run_once()
            finally:
                took_s = time.thread_time() - began_s
                self._began_s = None
                if took_s > _TOLD_S:
                    self._done.append((self._number, took_s, self._collected_s))

        return turn

    def collecting(self, phase: str, _: dict[str, Any]) -> None:
        if threading.get_ident() != self._loop_thread:
            return
        if phase == "start":
            self._collecting_since_s = time.thread_time()
        else:
            self._collected_s += time.thread_time() - self._collecting_since_s

    def tell(self, file: TextIO) -> None:
        places: Counter[str] = Counter()
        looked_at = -1
        while True:
            time.sleep(_LOOK_INTERVAL_S)
            while self._done:
                number, took_s, collected_s = self._done.popleft()
                line = {"ms": round(1e3 * took_s, 2), "garbage_ms": round(1e3 * collected_s, 2)}
                shown = places.most_common(_PLACES) if number == looked_at else []
                file.write(json.dumps({**line, "places": [place for place, _ in shown]}) + "\n")
                file.flush()
            number, began_s = self._number, self._began_s
            if began_s is None or time.clock_gettime(self._clock) - began_s < _TOLD_S:
                continue
            frame = sys._current_frames().get(self._loop_thread)
            if frame is not None and number == self._number and not self._done:
                if number != looked_at:
                    places.clear()
                    looked_at = number
                places[place_of(frame)] += 1


def _main() -> None:
    with (
        Path(sys.argv.pop(1)).open("a") as TimedWatch.file,
        patch.object(process, "LoopWatch", TimedWatch),
    ):
        main()


if __name__ == "__main__":
    _main()
