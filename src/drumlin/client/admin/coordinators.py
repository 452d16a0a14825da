"""Lookups of the coordinator of a group or transactional id, and the errors after a move.

`find_...` sends a request. `known_...` uses cached results if there are any. Call it only within
`BrokerConnections.retrying`, which clears that cache when an attempt fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.connection import BrokerConnection
from drumlin.peer.peer_error import only
from drumlin.peer.rights import refusal
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.find_coordinator import FindCoordinatorRequest

_GROUP: Final = 0
_TRANSACTION: Final = 1
_MANY_KEYS_FROM_VERSION: Final = 4
_KNOWN_MAX: Final = 10_000
#: The coordinator has moved, or is not ready.
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
        KafkaError: the group has no coordinator at the moment.
        PeerError: no answer.
    """
    return await _find(connections, group_id, _GROUP, f"coordinator of group {group_id!r}")


async def known_coordinator(connections: BrokerConnections, group_id: str) -> int:
    """Like `find_coordinator`, but cached."""
    known = connections.view.coordinators.get((_GROUP, group_id))
    return await find_coordinator(connections, group_id) if known is None else known


async def coordinator_connection(connections: BrokerConnections, node_id: int) -> BrokerConnection:
    """A connection to the coordinator that a lookup has found.

    Raises:
        KafkaError: COORDINATOR_NOT_AVAILABLE, which is retriable, if the broker is not in the
            cluster: it is down, and no other broker has taken over yet.
        PeerError: the broker cannot be reached.
    """
    try:
        return await connections.broker(node_id)
    except KafkaError as error:
        if error.code is not ErrorCode.broker_not_available:
            raise
        raise KafkaError(ErrorCode.coordinator_not_available, error.message) from error


async def find_transaction_coordinator(
    connections: BrokerConnections, transactional_id: str
) -> int:
    """The id of the broker that coordinates a transactional id. Raises as `find_coordinator`."""
    what = f"coordinator of transactional id {transactional_id!r}"
    return await _find(connections, transactional_id, _TRANSACTION, what)


async def known_transaction_coordinator(
    connections: BrokerConnections, transactional_id: str
) -> int:
    """Like `find_transaction_coordinator`, but cached."""
    known = connections.view.coordinators.get((_TRANSACTION, transactional_id))
    if known is not None:
        return known
    return await find_transaction_coordinator(connections, transactional_id)


async def known_transaction_coordinators(
    connections: BrokerConnections, transactional_ids: Collection[str]
) -> dict[str, int]:
    """Like `find_transaction_coordinators`, using cached results where there are any."""
    known = connections.view.coordinators
    found = {
        each: known[_TRANSACTION, each]
        for each in transactional_ids
        if (_TRANSACTION, each) in known
    }
    missing = [each for each in transactional_ids if each not in found]
    return found | await find_transaction_coordinators(connections, missing)


async def find_transaction_coordinators(
    connections: BrokerConnections, transactional_ids: Collection[str]
) -> dict[str, int]:
    """The coordinators of many ids, in one request if the broker allows that (KIP-699, Kafka 3.0).

    Ids without a coordinator at the moment are left out.

    Raises:
        KafkaError, PeerError: a permanent error, or no answer.
    """
    if not transactional_ids:
        return {}
    request = FindCoordinatorRequest(
        key_type=_TRANSACTION,
        coordinator_keys=tuple(transactional_ids),
    )
    connection = await connections.any()
    if connection.version_of("find_coordinator") < _MANY_KEYS_FROM_VERSION:
        finding = (find_transaction_coordinator(connections, each) for each in transactional_ids)
        return dict(zip(transactional_ids, await asyncio.gather(*finding), strict=True))
    response = await connection.request("find_coordinator", request)
    found: dict[str, int] = {}
    for each in response.coordinators:
        if each.error_code is ErrorCode.none:
            found[each.key] = each.node_id
            _remember(connections, _TRANSACTION, each.key, each.node_id)
        elif not each.error_code.retriable:
            what = f"coordinator of transactional id {each.key!r}"
            raise refusal("find_coordinator", each.error_code, what)
    return found


async def _find(connections: BrokerConnections, key: str, key_type: int, what: str) -> int:
    request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=(key,))
    connection = await connections.any()
    response = await connection.request("find_coordinator", request)
    is_one = response.coordinators is None  # older versions return a single coordinator
    found = only((response,) if is_one else response.coordinators, what)
    if found.error_code is not ErrorCode.none:
        raise refusal("find_coordinator", found.error_code, what)
    node_id: int = found.node_id
    _remember(connections, key_type, key, node_id)
    return node_id


def _remember(connections: BrokerConnections, key_type: int, key: str, node_id: int) -> None:
    known = connections.view.coordinators
    if len(known) >= _KNOWN_MAX:
        known.clear()
    known[key_type, key] = node_id
