"""Who leads a partition that a client has asked for in vain (KIP-951).

With it in the answer, the client goes there at once, without asking for metadata before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from drumlin.metadata.image import NO_LEADER
from drumlin.wire.errors import ErrorCode

if TYPE_CHECKING:
    from drumlin.broker.parts import BrokerData

_MOVED: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})


class LeaderHint(NamedTuple):
    """The leader, and the leader epoch in which it leads; both are -1 if neither is known."""

    leader_id: int
    leader_epoch: int


_UNKNOWN: Final = LeaderHint(NO_LEADER, -1)


class NodeAddress(NamedTuple):
    """Where the clients of a listener find a broker."""

    node_id: int
    host: str
    port: int
    rack: str | None


class LeaderHints:
    """The hints of one answer."""

    def __init__(self, broker: BrokerData, listener: str) -> None:
        self._broker = broker
        self._listener = listener
        self._leaders: dict[int, None] = {}

    def hint(self, code: ErrorCode, topic_id: UUID | None, index: int) -> LeaderHint | None:
        """The leader of the partition, if this code says that the client has gone astray."""
        if code not in _MOVED:
            return None
        image = self._broker.metadata.image
        topic = None if topic_id is None else image.topics_by_id.get(topic_id)
        state = None if topic is None else topic.partition(index)
        if state is None:
            return _UNKNOWN
        self._leaders[state.leader] = None
        return LeaderHint(state.leader, state.leader_epoch)

    def addresses(self) -> list[NodeAddress]:
        """Of the leaders that were named, where they are alive and have this listener."""
        found = []
        for node_id in self._leaders:
            broker = self._broker.metadata.image.brokers.get(node_id)
            endpoint = None if broker is None else broker.endpoint(self._listener)
            if broker is not None and endpoint is not None:
                found.append(NodeAddress(node_id, endpoint.host, endpoint.port, broker.rack))
        return found
