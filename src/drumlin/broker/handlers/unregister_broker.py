"""UnregisterBroker (key 64), version 0: remove a broker that will not come back.

A live one is refused: it would register again at once. Its replicas are not moved, see
AlterPartitionReassignments; its configuration stays, as in Apache Kafka.
"""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Operation
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


async def handle(
    context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    code, message = ErrorCode.none, None
    try:
        context.require_cluster(Operation.ALTER)
        await context.broker.metadata.unregister_broker(request.broker_id)
    except KafkaError as error:
        code, message = error.code, error.message
    return UnregisterBrokerResponse(throttle_time=ZERO, error_code=code, error_message=message)
