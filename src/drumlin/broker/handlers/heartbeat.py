"""Heartbeat (key 12), versions 0-4: a member shows that it is alive, and learns of rebalances.

From version 3 static members give their instance id (KIP-345).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumlin.broker.context import RequestContext
from drumlin.wire.by_hand.heartbeat_response import heartbeat_response
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import EncodedBody, Shape

if TYPE_CHECKING:
    from kio.schema.heartbeat.v4.request import HeartbeatRequest


async def handle(context: RequestContext, request: HeartbeatRequest, shape: Shape) -> EncodedBody:
    code = ErrorCode.none
    try:
        context.broker.groups.heartbeat(
            request.group_id,
            request.member_id,
            getattr(request, "group_instance_id", None),
            request.generation_id,
        )
    except KafkaError as error:
        code = error.code
    return heartbeat_response(shape.version, code)
