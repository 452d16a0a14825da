"""Who coordinates a group, and how one hears that somebody else does."""

from __future__ import annotations

from typing import Final

from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.errors import only
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import Shape

_GROUP: Final = 0
#: The coordinator is another one, or this one is not ready.
LOST_COORDINATOR: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.request_timed_out,
    }
)


async def find_coordinator(connections: BrokerConnections, group_id: str) -> int:
    """The id of the broker that coordinates a group.

    Raises:
        KafkaError: there is none at the moment.
        PeerError: no answer.
    """

    def build(shape: Shape) -> object:
        return shape(
            "FindCoordinatorRequest", key=group_id, key_type=_GROUP, coordinator_keys=(group_id,)
        )

    connection = await connections.any()
    response = await connection.request("find_coordinator", build)
    what = f"coordinator of group {group_id!r}"
    found = only(getattr(response, "coordinators", (response,)), what)
    if found.error_code is not ErrorCode.none:
        raise KafkaError(found.error_code, what)
    node_id: int = found.node_id
    return node_id
