"""DescribeCluster (key 60), versions 0-2: the brokers and the controller.

Version notes: 1 adds the type of endpoint (always a broker's, whatever the request asks for); 2
adds fenced brokers, which do not exist here.
"""

from __future__ import annotations

from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.parts.cluster_view import OPERATIONS_NOT_ASKED, visible_brokers
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


async def handle(
    context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS:
        message = "this endpoint is a broker's, and a controller's is asked for"
        return _refuse(ErrorCode.mismatched_endpoint_type, message)
    if request.endpoint_type != _BROKERS:
        message = f"no endpoints have type {request.endpoint_type}"
        return _refuse(ErrorCode.unsupported_endpoint_type, message)
    image = context.broker.metadata.image
    return DescribeClusterResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=_BROKERS,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=broker.node_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=False,
            )
            for broker, endpoint in visible_brokers(context.broker, context.listener)
        ),
        cluster_authorized_operations=(
            context.cluster_operations()
            if request.include_cluster_authorized_operations
            else OPERATIONS_NOT_ASKED
        ),
    )


def _refuse(code: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        throttle_time=ZERO,
        error_code=code,
        error_message=message,
        endpoint_type=_BROKERS,
        cluster_id="",
        controller_id=-1,
        brokers=(),
        cluster_authorized_operations=OPERATIONS_NOT_ASKED,
    )
