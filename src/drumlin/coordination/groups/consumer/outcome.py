"""What comes of a request, or of a deadline, before anything has happened. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from drumlin.coordination.groups.effects import Effect
from drumlin.coordination.groups.kind import AnyGroup
from drumlin.coordination.groups.record_type import GroupRecord


@dataclass(frozen=True, slots=True)
class Outcome:
    """To do: write the records and take them over, then answer.

    regexes: to be resolved once that is done; the result goes to `ConsumerGroup.resolve`.
    then: what else is to be done with the group as it is afterwards, which may be another.
    """

    records: Sequence[GroupRecord]
    answer: Any = None
    regexes: frozenset[str] = frozenset()
    then: Callable[[AnyGroup], Sequence[Effect]] | None = None
