"""What a group asks the coordinator to do, in the order given. Plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drumlin.coordination.groups.classic.messages import Answer, Store
from drumlin.coordination.groups.record_type import GroupRecord


@dataclass(frozen=True, slots=True)
class Write:
    """To do: write the records and take them over; if it fails, all stays as it is.

    `answers` are given once the records are confirmed. Whoever waits for one hears of a failure
    by `KafkaError`.
    """

    records: Sequence[GroupRecord]
    answers: tuple[Answer, ...] = ()


Effect = Answer | Store | Write
