"""Heartbeat (key 12), versions 0-4: a member shows that it is alive, and learns of rebalances.

From version 3 static members give their instance id (KIP-345).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.wire.by_hand.heartbeat_response import heartbeat_response
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import EncodedBody

if TYPE_CHECKING:
    from drumlin.wire.protocol.heartbeat import HeartbeatRequest


async def handle(context: RequestContext, request: HeartbeatRequest) -> EncodedBody:
    code = ErrorCode.none
    try:
        context.require(Operation.READ, Kind.GROUP, request.group_id)
        context.broker.groups.heartbeat(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id,
        )
    except KafkaError as error:
        code = error.code
    return heartbeat_response(context.version, code)
