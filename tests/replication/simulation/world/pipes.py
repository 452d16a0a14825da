"""The connection between a process and the one that has started it: whole, in order, at times slow.

What was written before a process ended still arrives, and then the end of the stream does.
"""

from __future__ import annotations

import asyncio
from typing import Any

from replication.simulation.world.loops import Loop
from replication.simulation.world.schedule import Schedule


class End:
    """One of two ends: a reader, and what a `StreamWriter` is asked for."""

    def __init__(self, schedule: Schedule, loop: Loop) -> None:
        streams_loop: Any = loop
        self.reader = asyncio.StreamReader(loop=streams_loop)
        self.transport = self
        #: Until then all that is written takes longer.
        self.slow_until_ms = 0
        self._schedule = schedule
        self._other: End
        self._last_ms = 0
        self._waiting = 0
        self._is_closed = False

    def channel_streams(self) -> tuple[asyncio.StreamReader, Any]:
        return self.reader, self

    def write(self, frame: bytes) -> None:
        if self._is_closed:
            return
        self._waiting += len(frame)

        def arrive() -> None:
            self._waiting -= len(frame)
            self._other.reader.feed_data(frame)

        self._schedule.at(self._arrival_ms(), arrive)

    def hold(self, delay_ms: int) -> None:
        """What is written from now on arrives late, all of it."""
        self._last_ms = max(self._last_ms, self._schedule.now_ms + delay_ms)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._schedule.at(self._arrival_ms(), self._other.reader.feed_eof)

    def abort(self) -> None:
        self.close()

    async def wait_closed(self) -> None:
        """The system does it."""

    def get_write_buffer_size(self) -> int:
        return self._waiting

    def _arrival_ms(self) -> int:
        now_ms = self._schedule.now_ms
        delay_ms = self._schedule.delay_ms(3, 80)
        if now_ms < self.slow_until_ms:
            delay_ms += self._schedule.random.randrange(600)
        self._last_ms = max(self._last_ms, now_ms + delay_ms)
        return self._last_ms


def connect(schedule: Schedule, ours: Loop, theirs: Loop) -> tuple[End, End]:
    first, second = End(schedule, ours), End(schedule, theirs)
    first._other, second._other = second, first
    return first, second
