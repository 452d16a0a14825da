"""The handler of a process's lines: of a fault that repeats it writes the first lines, then counts.

A fault of a disk, a peer or a client may concern thousands of partitions, every second. So of the
warnings and errors from one place in the code, at most a few are written in a period. Those left
out are counted, and their number is written with the last of them when the period is over.

Lines that are no faults are all written. So are those of the audit log, which has rules of its own,
and of logs that are loaded: each tells once what became of one log, and what it has lost.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, TextIO

from drumlin.broker.log_lines.forms import LEFT_OUT, message_of

PERIOD_S: Final = 60.0
#: Lines from one place in a period.
LINES_MAX: Final = 20
#: The loggers of logs that are loaded.
_LOADING: Final = ("drumlin.storage.recovery.", "drumlin.storage.directory.")


class _Place:
    """The faults of one place in the code, in one period."""

    __slots__ = ("began_s", "last", "left_out", "lines")

    def __init__(self, now_s: float) -> None:
        self.began_s = now_s
        self.lines = 0
        self.left_out = 0
        #: The last line that was left out, without what it was about.
        self.last: logging.LogRecord | None = None


class CountingHandler(logging.StreamHandler[TextIO]):
    """Writes lines to a stream, and counts what it leaves out."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        #: By file, line and kind of exception: as many as there are places in the code.
        self._places: dict[tuple[str, int, type | None], _Place] = {}
        #: The lines since the start, written or not, by level.
        self.lines: Counter[str] = Counter()
        self.left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        # The logging library calls this with the handler's lock.
        self.lines[record.levelname] += 1
        if record.levelno < logging.WARNING or record.name.startswith(_LOADING):
            super().emit(record)
            return
        now_s = self._clock()
        self._tell_overdue(now_s)
        kind = record.exc_info[0] if record.exc_info else None
        place = self._places.setdefault((record.pathname, record.lineno, kind), _Place(now_s))
        if place.lines < LINES_MAX:
            place.lines += 1
            super().emit(record)
        else:
            place.left_out += 1
            place.last = _without_objects(record)
            self.left_out += 1

    def tell_left_out(self) -> None:
        """Write what was left out in periods that are over. Called regularly."""
        if not self._places:
            return
        self.acquire()
        try:
            self._tell_overdue(self._clock())
        finally:
            self.release()

    def _tell_overdue(self, now_s: float) -> None:
        over = [at for at, each in self._places.items() if now_s - each.began_s >= PERIOD_S]
        for at in over:
            self._tell(self._places.pop(at))

    def _tell(self, place: _Place) -> None:
        if place.last is not None:
            place.last.msg += f" (the last of {place.left_out} like it that were left out)"
            setattr(place.last, LEFT_OUT, place.left_out)
            super().emit(place.last)

    def close(self) -> None:
        """Write all that was left out: no line follows."""
        for place in self._places.values():
            self._tell(place)
        self._places.clear()
        super().close()


#: The handler of this process's lines.
LINES: Final = CountingHandler(sys.stderr)


def _without_objects(record: logging.LogRecord) -> logging.LogRecord:
    """The line as a text: its arguments and traceback may hold on to much memory."""
    text = message_of(record)
    told = logging.LogRecord(
        record.name, record.levelno, record.pathname, record.lineno, "", (), None
    )
    told.created, told.msecs, told.threadName = record.created, record.msecs, record.threadName
    told.msg = text
    return told
