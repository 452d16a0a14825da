"""What comes of a request, or of a deadline, before anything has happened. Plain values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from drumlin.coordination.groups.consumer.assignment import NextTarget
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.every_kind.any_group import AnyGroup, Effect
from drumlin.coordination.groups.every_kind.group_record import GroupRecord


class Outcome(NamedTuple):
    """To do: write the records and take them over, then answer.

    regexes: to be resolved afterwards; the result goes to `member_change.resolved`.
    then: what else is to be done with the group as it is afterwards; it may be of another kind.
    assigning: a target assignment that takes longer, to be continued in later turns.
    follow: what the same request leads to once that assignment is complete, given its first answer.
    """

    records: Sequence[GroupRecord]
    answer: Any = None
    regexes: frozenset[str] = frozenset()
    then: Callable[[AnyGroup], Sequence[Effect]] | None = None
    assigning: Awaitable[NextTarget] | None = None
    follow: Callable[[ConsumerGroup, Any], Outcome] | None = None
