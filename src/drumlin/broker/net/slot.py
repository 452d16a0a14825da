"""The place of one answer in the order of a connection's answers."""

from __future__ import annotations

from drumlin.broker.loop.later import LaterParts, Parts
from drumlin.broker.traffic.timing import Timed


class Slot:
    """A started request that is not answered on the wire yet."""

    __slots__ = (
        "answer_bytes",
        "done",
        "later",
        "lets_pass",
        "parts",
        "request_bytes",
        "timed",
    )

    def __init__(self, later: LaterParts | None, request_bytes: int, timed: Timed) -> None:
        self.later = later
        self.timed = timed
        self.lets_pass = later is not None and later.lets_pass
        self.request_bytes = request_bytes
        self.done = False
        self.parts: Parts | None = None
        self.answer_bytes = 0  # without slices of files
