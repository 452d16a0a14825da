"""Counts of the requests of one API at one listener."""

from __future__ import annotations

from collections import Counter
from typing import Final

#: The upper bounds of the histogram of a request's whole time, in seconds.
STEPS_S: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0)


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
