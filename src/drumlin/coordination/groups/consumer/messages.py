"""Requests of members of the consumer protocol, and their answers. Plain values."""

from __future__ import annotations

from typing import NamedTuple

from drumlin.coordination.groups.consumer.member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    Partitions,
)
from drumlin.coordination.groups.every_kind.messages import Sees


class HeartbeatRequest(NamedTuple):
    """ConsumerGroupHeartbeat. A field that is None has not changed since the last heartbeat."""

    member_id: str
    epoch: int
    client_id: str
    client_host: str
    group_instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    sees: Sees = None
    must_have_member_id: bool = True
    """In the first version, the coordinator may choose the member id."""

    @property
    def is_joining(self) -> bool:
        return self.epoch == JOINING

    @property
    def is_leaving(self) -> bool:
        return self.epoch in (LEAVING, LEAVING_FOR_A_WHILE)

    @property
    def is_complete(self) -> bool:
        """Whether all fields are set. In this case the answer has the whole assignment."""
        has_subscription = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms is not None and has_subscription and self.owned is not None


class HeartbeatAnswer(NamedTuple):
    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None
    """None if unchanged."""
