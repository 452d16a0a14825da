"""Counts of the requests of one API at one listener, and the times of a connection's requests.

A request's time has the parts of Apache Kafka's: it waits in a queue until it is started, its
handler works, perhaps others are waited for (replicas, new records, the disk), and its answer is
sent. This runs for every request: one addition each.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from typing import Final, TypeAlias

#: The upper bounds of the histogram of a request's whole time, in seconds.
STEPS_S: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0)
#: Answers of one connection on their way to a peer that takes them slowly, whose times are kept.
_UNSENT_MAX: Final = 512


class ApiCounts:
    """The requests of one API at one listener since the broker's start."""

    __slots__ = (
        "errors",
        "local_s",
        "queue_s",
        "remote_s",
        "requests",
        "send_s",
        "steps",
        "throttled_s",
        "total_s",
    )

    def __init__(self) -> None:
        self.requests = 0
        self.queue_s = 0.0
        self.local_s = 0.0
        self.remote_s = 0.0
        self.send_s = 0.0
        self.throttled_s = 0.0
        self.total_s = 0.0
        #: Answered requests, by the first of `STEPS_S` that their time does not exceed.
        self.steps = [0] * (len(STEPS_S) + 1)
        #: Errors in answers by their code; an answer may have several.
        self.errors: Counter[int] = Counter()


#: A started request: its counts, and when it arrived and when its last part began.
Timed: TypeAlias = tuple[ApiCounts, float, float]


class Timing:
    """The times of one connection's requests."""

    __slots__ = ("_unsent", "arrived_s")

    def __init__(self, now_s: float) -> None:
        #: When the requests arrived that are not started yet: they are received together.
        self.arrived_s = now_s
        #: Requests whose answers have not all left.
        self._unsent: list[Timed] = []

    def begun(self, counts: ApiCounts, began_s: float) -> Timed:
        """Count a request that was started at `began_s`; its handler has returned now."""
        now_s = time.monotonic()
        arrived_s = self.arrived_s
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
