"""The arguments and results of assignors."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from drumlin.coordination.groups.consumer.member import Partitions


@dataclass(frozen=True, slots=True)
class Assignee:
    """One member. Members with equal subscriptions should share one `topics` object."""

    member_id: str
    group_instance_id: str | None
    topics: frozenset[UUID]
    """The existing topics to which the member subscribes."""
    current: Partitions
    """The target assignment so far; its topics may be deleted, or no longer subscribed to."""


#: Members and partition counts of topics -> the target assignment by member id. An assignor yields
#: to the event loop; the caller must not change the arguments meanwhile.
Assignor = Callable[
    [Sequence[Assignee], Mapping[UUID, int]], Coroutine[Any, Any, dict[str, Partitions]]
]
