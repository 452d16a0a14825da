"""How long open transactions hold up readers of committed records in the partitions led here.

The coordinators' own measures know nothing of a transaction that no coordinator knows (KIP-664). So
this is seen from the logs: the time for which a log's first undecided offset has stood still, from
the scrape that saw it first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from drumlin.broker.loop.measures import Kind, Measure, Sample
from drumlin.broker.parts.parts import BrokerData


class _Seen(NamedTuple):
    offset: int
    since_s: float


class Undecided:
    """The source of this measure, which is called by one thread at a time."""

    def __init__(self, broker: BrokerData) -> None:
        self._broker = broker
        self._seen: dict[tuple[str, int], _Seen] = {}

    def measure(self) -> Iterator[Measure]:
        now_s, seen = time.monotonic(), dict[tuple[str, int], _Seen]()
        for partition in self._broker.partitions:
            offset = partition.first_undecided_offset
            if offset is not None:
                at = partition.topic, partition.index
                before = self._seen.get(at)
                is_new = before is None or before.offset != offset
                seen[at] = _Seen(offset, now_s) if before is None or is_new else before
        self._seen = seen
        longest_s = max((now_s - each.since_s for each in seen.values()), default=0.0)
        yield Measure(
            "drumlin_transactions_oldest_undecided_seconds",
            Kind.GAUGE,
            "How long readers of committed records have waited at the same offset, at most.",
            (),
            (Sample((), longest_s),),
        )
