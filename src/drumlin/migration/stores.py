"""The interface of a store of committed offsets, and the store of a Kafka cluster.

A store lists its groups, their committed offsets, and the live consumers of a group; it writes
offsets and reports refusals. It never decides what to write.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Final, Protocol, TypeVar

from drumlin.client.admin import group_admin
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections

T = TypeVar("T")

Positions = Mapping[TopicPartition, OffsetAndMetadata]
#: The partitions that were not written, with the reasons in words.
Refusals = dict[TopicPartition, str]

_WITH_OFFSETS: Final = (None, "", "classic", "consumer")


class OffsetStore(Protocol):
    """A store in which groups keep their offsets."""

    name: str
    notes: list[str]
    """Unusual findings in the store, in words, for the caller to report."""

    def groups(self) -> list[str]: ...

    def read(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]: ...

    def write(self, group: str, positions: Positions) -> Refusals: ...

    def live_consumers(self, group: str) -> str | None:
        """A description of the group's live consumers; None if there are none."""


class ConnectedCluster(Protocol):
    """The connections to a cluster, and a way to run a coroutine on them."""

    @property
    def connections(self) -> BrokerConnections: ...

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T: ...


class BrokerStore:
    """The offsets that a cluster keeps in `__consumer_offsets`."""

    def __init__(self, cluster: ConnectedCluster, name: str) -> None:
        self.name = name
        self.notes: list[str] = []
        self._cluster = cluster
        self._connections = cluster.connections

    def groups(self) -> list[str]:
        listed = self._cluster.run(group_admin.list_groups(self._connections))
        kinds = {each.group: (each.type or "").lower() for each in listed}
        return [group for group, kind in kinds.items() if kind in _WITH_OFFSETS]

    def read(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._cluster.run(group_admin.fetch_committed(self._connections, group))

    def write(self, group: str, positions: Positions) -> Refusals:
        # Leader epochs are valid in one cluster only; in another they would mislead consumers.
        known = {place: each._replace(leader_epoch=-1) for place, each in positions.items()}
        refused = self._cluster.run(group_admin.commit(self._connections, group, known))
        return {place: code.name.replace("_", " ") for place, code in refused.items()}

    def live_consumers(self, group: str) -> str | None:
        found = self._cluster.run(group_admin.describe_group(self._connections, group))
        if found.is_at_rest:
            return None
        count = len(found.members)
        return f"{count} member{'s' if count != 1 else ''} ({found.state})"
