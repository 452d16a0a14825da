"""FindCoordinator (key 10), versions 0-6: the coordinator of a group or a transactional id.

    key type 0  group            the leader of the group's partition of __consumer_offsets,
                                 which is created by the first request
             1  transaction (1+) the same for a transactional id and __transaction_state
             2  share (6+)       the leader of the partition of __share_group_state that keeps
                                 the state of a "group:topic id:partition"

Up to version 3 a request has one key, from version 4 several (KIP-699).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED, denied
from drumlin.coordination.share.state.state import is_coordinator_key
from drumlin.metadata.names import GROUP_METADATA, SHARE_GROUP_STATE, TRANSACTION_STATE
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
#: The topics of the coordinators, by type of key.
_TOPICS: Final = {
    _GROUP: GROUP_METADATA,
    _TRANSACTION: TRANSACTION_STATE,
    _SHARE: SHARE_GROUP_STATE,
}
#: The kinds of the resources that keys name.
_KINDS: Final = {_GROUP: Kind.GROUP, _TRANSACTION: Kind.TRANSACTIONAL_ID}
_FIRST_WITH_SHARE: Final = 6
_NO_NODE: Final = -1
_SUCCESS_MESSAGE: Final = "NONE"  # in the response for a single key; for several keys it is empty


class _Found(NamedTuple):
    code: ErrorCode
    node_id: int = _NO_NODE
    host: str = ""
    port: int = -1
    message: str = ""


async def handle(
    context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    key_type = request.key_type
    if request.coordinator_keys is None:
        found = await _find(context, key_type, request.key)
        succeeded = found.code is ErrorCode.none
        return FindCoordinatorResponse(
            throttle_time=ZERO,
            error_code=found.code,
            error_message=_SUCCESS_MESSAGE if succeeded else found.message or found.code.name,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    coordinators = []
    for key in request.coordinator_keys:
        await give_way()
        found = await _find(context, key_type, key)
        coordinators.append(
            Coordinator(
                key=key,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
                error_code=found.code,
                error_message=_message(key_type, found),
            )
        )
    return FindCoordinatorResponse(throttle_time=ZERO, coordinators=tuple(coordinators))


def _message(key_type: int, found: _Found) -> str:
    """The message for one key of several. It is empty unless Apache Kafka would refuse the whole
    request.
    """
    if key_type not in _TOPICS:
        return found.code.name
    return found.message if found.code is DENIED[Kind.CLUSTER] else ""


def _denied(kind: Kind) -> _Found:
    error = denied(kind)
    return _Found(error.code, message=error.message or "")


async def _find(context: RequestContext, key_type: int, key: str) -> _Found:
    topic_name, kind = _TOPICS.get(key_type), _KINDS.get(key_type)
    if kind is not None and not context.may(Operation.DESCRIBE, kind, key):
        return _denied(kind)
    if topic_name is None or (key_type == _SHARE and context.version < _FIRST_WITH_SHARE):
        return _Found(ErrorCode.invalid_request)
    if key_type == _SHARE and not context.may_cluster(Operation.CLUSTER_ACTION):
        return _denied(Kind.CLUSTER)
    if key_type == _SHARE and not is_coordinator_key(key):
        return _Found(ErrorCode.invalid_request)
    try:
        partition = await context.broker.coordinators[topic_name].find_partition(key)
    except KafkaError:
        return _Found(ErrorCode.coordinator_not_available)
    return _leader(context, topic_name, partition)


def _leader(context: RequestContext, topic_name: str, partition: int) -> _Found:
    topic = context.broker.metadata.image.topics.get(topic_name)
    state = None if topic is None else topic.partition(partition)
    if state is None:
        return _Found(ErrorCode.coordinator_not_available)
    return _node(context, state.leader)


def _node(context: RequestContext, node_id: int) -> _Found:
    broker = context.broker.metadata.image.brokers.get(node_id)
    endpoint = None if broker is None else broker.endpoint(context.listener)
    if endpoint is None:
        return _Found(ErrorCode.coordinator_not_available)
    return _Found(ErrorCode.none, node_id, endpoint.host, endpoint.port)
