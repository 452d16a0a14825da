"""The current leader of a partition, for a client that has asked another broker (KIP-951).

With this hint in the response, the client turns to the leader at once, without a Metadata request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from drumlin.broker.parts.parts import BrokerData
from drumlin.metadata.image import NO_LEADER, TopicState
from drumlin.wire.by_hand.leader_hints import CurrentLeader, NodeEndpoint
from drumlin.wire.error_codes import ErrorCode

#: Errors of a client that knows only an older leader or leader epoch.
MISLED: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})

_UNKNOWN: Final = CurrentLeader(NO_LEADER, -1)


def current_leader(
    broker: BrokerData, topic: bytes, index: int, *, by_id: bool, is_hosted: bool = False
) -> CurrentLeader | None:
    """The leader, as known to this broker, of a partition that a request names.

    This broker itself is returned only for a client with an old epoch, if the partition `is_hosted`
    already.
    """
    image = broker.metadata.image
    found: TopicState | None
    if by_id:
        found = image.topics_by_id.get(UUID(bytes=topic))
    else:
        found = image.topics.get(topic.decode(errors="replace"))
    state = None if found is None else found.partition(index)
    if state is None or (state.leader == broker.node_id and not is_hosted):
        return None  # unknown, or this broker is about to lead it
    return CurrentLeader(state.leader, state.leader_epoch)


def endpoints_of(
    broker: BrokerData, leaders: Iterable[CurrentLeader], listener: str
) -> list[NodeEndpoint]:
    """The addresses of these leaders on the listener, without repetition."""
    found = []
    for node_id in sorted({each.leader_id for each in leaders}):
        known = broker.metadata.image.brokers.get(node_id)
        endpoint = None if known is None else known.endpoint(listener)
        if known is not None and endpoint is not None:
            found.append(NodeEndpoint(node_id, endpoint.host, endpoint.port, known.rack))
    return found


class LeaderHints:
    """The hints in one response of an API that adds a hint to every error in `MISLED`."""

    def __init__(self, broker: BrokerData, listener: str) -> None:
        self._broker = broker
        self._listener = listener
        self._leaders: set[CurrentLeader] = set()

    def hint(self, code: ErrorCode, topic_id: UUID | None, index: int) -> CurrentLeader | None:
        """The leader of the partition, if the code is one of `MISLED`."""
        if code not in MISLED:
            return None
        image = self._broker.metadata.image
        topic = None if topic_id is None else image.topics_by_id.get(topic_id)
        state = None if topic is None else topic.partition(index)
        if state is None:
            return _UNKNOWN
        leader = CurrentLeader(state.leader, state.leader_epoch)
        self._leaders.add(leader)
        return leader

    def addresses(self) -> list[NodeEndpoint]:
        """The addresses of the leaders in the hints, if they are alive and have this listener."""
        return endpoints_of(self._broker, self._leaders, self._listener)
