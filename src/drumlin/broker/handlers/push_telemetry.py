"""PushTelemetry (key 72), version 0: takes the metrics of a client (KIP-714).

A push that comes before its time is THROTTLING_QUOTA_EXCEEDED, one by another subscription than the
present one UNKNOWN_SUBSCRIPTION_ID, one after the last one INVALID_REQUEST; a payload that cannot
be read is INVALID_RECORD, one that is too large, perhaps only when decompressed,
TELEMETRY_TOO_LARGE. It needs no right, as in Apache Kafka.
"""

from __future__ import annotations

from uuid import UUID

from drumlin.broker.context import RequestContext
from drumlin.broker.telemetry.subscriptions import client_of
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


async def handle(context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    telemetry, connection = context.broker.telemetry, context.connection
    instance_id = request.client_instance_id
    peer = connection.peer_host, connection.peer_port
    client = client_of(instance_id or UUID(int=0), context.client_id, connection.software, peer)
    code = ErrorCode.none
    try:
        await telemetry.push(
            instance_id,
            client,
            request.subscription_id,
            request.compression_type,
            memoryview(request.metrics),
            is_last=request.terminating,
        )
    except KafkaError as error:
        code = error.code
    return PushTelemetryResponse(throttle_time=ZERO, error_code=code)
