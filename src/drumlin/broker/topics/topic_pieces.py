"""Topics as Metadata returns them, each encoded once for all clients.

Owns the encoded bytes, for each version of the API; `cluster_view` decides on their content. They
are valid while the metadata has the same `TopicState` object, and the same brokers and log dirs are
available, so nothing has to invalidate them. A request for a topic that is being encoded continues
the encoding that another request began. The bytes do not depend on the client: what it may do with
a topic is put into a copy.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from drumlin.broker.parts.cluster_view import OPERATIONS_NOT_ASKED, Reachable, leadership, reachable
from drumlin.broker.parts.parts import BrokerData
from drumlin.metadata.image import PartitionState, TopicState
from drumlin.metadata.store.changes import Change, TopicDeleted
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import encoded
from drumlin.wire.protocol.metadata import MetadataResponsePartition, MetadataResponseTopic
from drumlin.wire.schema.declaration import Message
from drumlin.wire.schema.parts import EncodedItems

#: Clients of one kind use one or two variants.
_VARIANTS_MAX: Final = 6
_FLEXIBLE_FROM: Final = 9
_OPERATIONS: Final = struct.Struct(">i")
#: Partitions that are encoded before yielding to the event loop.
_PARTITIONS_PER_STEP: Final = 16


@dataclass(slots=True, eq=False)
class _Building:
    """A topic that is being encoded."""

    topic: TopicState
    partitions: list[bytes] = field(default_factory=list)
    piece: bytes | None = None
    is_outdated: bool = False  # something has changed since it began


class TopicVariant:
    """The topics in one version; see `TopicPieces`."""

    def __init__(self, broker: BrokerData, version: int, current: Reachable) -> None:
        self._broker = broker
        self._version = version
        self._reachable = current
        self._ready: dict[str, tuple[TopicState, bytes]] = {}
        self._building: dict[str, _Building] = {}

    def ready(self, topic: TopicState) -> bytes | None:
        """The topic's bytes, if they are encoded already."""
        kept = self._ready.get(topic.name)
        return kept[1] if kept is not None and kept[0] is topic else None

    async def encode(self, topic: TopicState) -> bytes:
        """Encode the topic; the bytes are kept for the next requests."""
        building = self._building.get(topic.name)
        if building is None or building.topic is not topic:
            building = self._building[topic.name] = _Building(topic)
        while building.piece is None:
            self._go_on(building)
            await give_way()
        return building.piece

    def forget(self, name: str) -> None:
        """Forget a deleted topic."""
        self._ready.pop(name, None)
        self._building.pop(name, None)

    def _go_on(self, building: _Building) -> None:
        topic, done = building.topic, building.partitions
        for state in topic.partitions[len(done) : len(done) + _PARTITIONS_PER_STEP]:
            done.append(self._encoded(self._partition(topic, state)))
        building.is_outdated |= reachable(self._broker) != self._reachable
        if len(done) < len(topic.partitions):
            return
        building.piece = self._encoded(self._topic(topic, EncodedItems(done)))
        if self._building.get(topic.name) is building:
            del self._building[topic.name]
        is_current = self._broker.metadata.image.topics.get(topic.name) is topic
        if is_current and not building.is_outdated:
            self._ready[topic.name] = topic, building.piece

    def _encoded(self, message: Message) -> bytes:
        return encoded("metadata", self._version, message)

    def _topic(self, topic: TopicState, partitions: EncodedItems) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            error_code=ErrorCode.none,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=partitions,
            topic_authorized_operations=OPERATIONS_NOT_ASKED,
        )

    def _partition(self, topic: TopicState, state: PartitionState) -> MetadataResponsePartition:
        led = leadership(self._broker, topic.name, state)
        error, replicas = led.error, state.replicas
        if self._version == 0 and led.offline_replicas:
            # This version has no field for offline replicas: clients assume that all replicas are
            # alive.
            replicas = tuple(each for each in replicas if each not in led.offline_replicas)
            error = error if error.value else ErrorCode.replica_not_available
        return MetadataResponsePartition(
            error_code=error,
            partition_index=state.index,
            leader_id=led.leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=led.isr,
            offline_replicas=led.offline_replicas,
        )


def with_operations(version: int, piece: bytes, operations: int) -> bytes:
    """A copy of a topic's bytes with the authorized operations (8+), the topic's last field."""
    no_tags = b"\0" if version >= _FLEXIBLE_FROM else b""
    end = len(piece) - len(no_tags) - _OPERATIONS.size
    return b"".join((memoryview(piece)[:end], _OPERATIONS.pack(operations), no_tags))


class TopicPieces:
    """All topics, in the most recently requested variants."""

    def __init__(self, broker: BrokerData) -> None:
        self._broker = broker
        self._reachable: Reachable | None = None
        self._variants: dict[int, TopicVariant] = {}  # least recently used first

    def variant(self, version: int) -> TopicVariant:
        """The topics in one version of the API."""
        current = reachable(self._broker)
        if current != self._reachable:
            self._reachable = current
            self._variants.clear()
        variant = self._variants.pop(version, None)
        if variant is None:
            variant = TopicVariant(self._broker, version, current)
        self._variants[version] = variant
        if len(self._variants) > _VARIANTS_MAX:
            del self._variants[next(iter(self._variants))]
        return variant

    def on_change(self, change: Change) -> None:
        """Apply one change of the metadata: free the memory of deleted topics."""
        if isinstance(change, TopicDeleted):
            for variant in self._variants.values():
                variant.forget(change.topic.name)
