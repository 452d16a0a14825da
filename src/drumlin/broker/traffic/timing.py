"""The times of a connection's requests.

A request's time has the parts of Apache Kafka's: it waits in a queue until it is started, its
handler works, perhaps others are waited for (replicas, new records, the disk), and its answer is
sent. This runs for every request, so it must cost next to nothing.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import Final, TypeAlias

from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.broker.traffic.request_counts import STEPS_S, ApiCounts

#: Answers of one connection on their way to a peer that takes them slowly, whose times are kept.
_UNSENT_MAX: Final = 512
#: A started request whose answer comes later, or has to wait for such a one: its counts, when it
#: arrived, and when its last part began.
Timed: TypeAlias = tuple[ApiCounts, float, float]
_NO_API: Final = -1


class Timing:
    """The times of one connection's requests.

    Requests that are answered at once come in runs: those of one API that were received together.
    They are counted together as well, once their answers have left, which costs each of them three
    additions.
    """

    __slots__ = (
        "_api_key",
        "_began_s",
        "_count",
        "_counts",
        "_ready_s",
        "_unsent",
        "arrived_s",
    )

    def __init__(self, counts: ListenerCounts, now_s: float) -> None:
        self._counts = counts
        #: When the requests arrived that are not started yet: they are received together.
        self.arrived_s = now_s
        self._api_key = _NO_API  # of the run
        self._count = 0
        self._began_s = self._ready_s = 0.0  # sums over the run
        #: Other requests whose answers have not all left.
        self._unsent: list[Timed] = []

    def arrived(self, now_s: float) -> None:
        """Note that requests have been received; no earlier one is left to be started."""
        if self._count:
            self._end_run()
        self.arrived_s = now_s

    def answered_at_once(self, frame: memoryview, began_s: float, now_s: float) -> None:
        """Count a request that was started at `began_s`, and whose answer is sent next."""
        api_key = frame[1] if len(frame) > 1 else _NO_API
        if api_key != self._api_key:
            if self._count:
                self._end_run()
            self._api_key = api_key if api_key < 0 or not frame[0] else _NO_API
        self._count += 1
        self._began_s += began_s
        self._ready_s += now_s

    def begun(self, frame: memoryview, began_s: float, now_s: float) -> Timed:
        """Count a request that was started at `began_s`, and whose answer comes later."""
        counts, arrived_s = self._counts.of_frame(frame), self.arrived_s
        counts.requests += 1
        counts.queue_s += began_s - arrived_s
        counts.local_s += now_s - began_s
        return counts, arrived_s, now_s

    def answered(self, timed: Timed) -> Timed:
        """Count the time for which others were waited for; the answer is there now."""
        counts, arrived_s, since_s = timed
        now_s = time.monotonic()
        counts.remote_s += now_s - since_s
        return counts, arrived_s, now_s

    def ready(self, timed: Timed) -> None:
        """Note an answer that is sent next."""
        self._unsent.append(timed)

    def sent(self, is_drained: bool) -> None:
        """Count the answers that have been sent: all of them if there is nothing left to send."""
        if self._count and is_drained:
            self._end_run()
        unsent = self._unsent
        if not unsent or not (is_drained or len(unsent) > _UNSENT_MAX):
            return
        now_s = time.monotonic()
        for counts, arrived_s, since_s in unsent:
            total_s = now_s - arrived_s
            counts.send_s += now_s - since_s
            counts.total_s += total_s
            counts.steps[bisect_left(STEPS_S, total_s)] += 1
        unsent.clear()

    def _end_run(self) -> None:
        """Count the run: its answers have left, or count as if they had."""
        now_s, count, arrived_s = time.monotonic(), self._count, self.arrived_s
        counts = self._counts.of_key(self._api_key)
        total_s = now_s - arrived_s
        counts.requests += count
        counts.queue_s += self._began_s - count * arrived_s
        counts.local_s += self._ready_s - self._began_s
        counts.send_s += count * now_s - self._ready_s
        counts.total_s += count * total_s
        counts.steps[bisect_left(STEPS_S, total_s)] += count
        self._count = 0
        self._began_s = self._ready_s = 0.0
