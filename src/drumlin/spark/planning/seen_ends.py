"""Recent start and end offsets of logs, so that a plan does not request them again.

For estimates only: the offsets that a plan reads must be requested for this plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Literal, TypeAlias

from drumlin.spark.options.offsets import TopicPartition

Side: TypeAlias = Literal["earliest", "latest"]
Ask: TypeAlias = Callable[[Iterable[TopicPartition], Side], Mapping[TopicPartition, int]]

SIDES: Final[tuple[Side, ...]] = ("earliest", "latest")
#: Long enough for one plan; a stream must not use an earlier batch's answers for long.
_LIFE_S: Final = 30.0


class SeenEnds:
    """The last answers of one cluster."""

    def __init__(self) -> None:
        self._seen: dict[tuple[TopicPartition, Side], tuple[int, float]] = {}

    def note(self, side: Side, offsets: Mapping[TopicPartition, int]) -> None:
        """Keep an answer that has just arrived."""
        now = time.monotonic()
        self._seen |= {(key, side): (offset, now) for key, offset in offsets.items()}

    def find(
        self, partitions: Collection[TopicPartition], side: Side, ask: Ask
    ) -> dict[TopicPartition, int]:
        """The offsets on this side; `ask` is called for partitions that were not seen lately."""
        since = time.monotonic() - _LIFE_S
        found = {
            key: seen[0]
            for key in partitions
            if (seen := self._seen.get((key, side))) is not None and seen[1] >= since
        }
        missing = [key for key in partitions if key not in found]
        return found | dict(ask(missing, side)) if missing else found
