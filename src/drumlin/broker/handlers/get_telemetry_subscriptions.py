"""GetTelemetrySubscriptions (key 71), version 0: which metrics a client is to push, how often, and
how (KIP-714).

A client without an instance id gets a new one. It needs no right, as in Apache Kafka.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from drumlin.broker.context import RequestContext
from drumlin.broker.telemetry.client_telemetry import ACCEPTED_CODECS
from drumlin.broker.telemetry.subscriptions import client_of
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

_ABSENT: Final = UUID(int=0)


async def handle(
    context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    telemetry, connection = context.broker.telemetry, context.connection
    given = request.client_instance_id
    instance_id = uuid4() if given in (None, _ABSENT) else given
    assert instance_id is not None
    peer = connection.peer_host, connection.peer_port
    client = client_of(instance_id, context.client_id, connection.software, peer)
    try:
        instance = await telemetry.asked(instance_id, client)
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(
            throttle_time=ZERO,
            error_code=error.code,
            client_instance_id=None,
            subscription_id=0,
            accepted_compression_types=(),
            push_interval=ZERO,
            telemetry_max_bytes=0,
            delta_temporality=False,
            requested_metrics=(),
        )
    return GetTelemetrySubscriptionsResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=ACCEPTED_CODECS,
        push_interval=timedelta(milliseconds=instance.wanted.interval_ms),
        telemetry_max_bytes=telemetry.payload_bytes_max,
        delta_temporality=True,
        requested_metrics=instance.wanted.metrics,
    )
