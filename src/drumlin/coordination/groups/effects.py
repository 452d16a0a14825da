"""Effects: what a group has the coordinator do, in this order. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drumlin.coordination.groups.classic.messages import Answer, Answers, Store
from drumlin.coordination.groups.kind import AnyGroup
from drumlin.coordination.groups.record_type import GroupRecord


@dataclass(frozen=True, slots=True)
class Write:
    """To do: write the records and take them over; if it fails, all stays as it is.

    `answers` are given once the records are confirmed; after a failure they are `KafkaError`.
    `then` says what else is to be done with the group as it is by then: it may be of another
    kind.
    """

    records: Sequence[GroupRecord]
    answers: tuple[Answer, ...] = ()
    then: Callable[[AnyGroup], Sequence[Effect]] | None = None


@dataclass(frozen=True, slots=True)
class Downgrade:
    """To do: make a classic group of a large consumer group that has only classic members."""


Effect = Answer | Answers | Store | Write | Downgrade
