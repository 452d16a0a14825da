"""DescribeCluster (key 60), versions 0-2: the brokers and the controller.

Version notes: 1 adds the type of endpoint (always a broker's, whatever the request wants); 2
adds fenced brokers, which do not exist here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drumlin.broker.context import RequestContext
from drumlin.broker.parts.cluster_view import (
    CLUSTER_OPERATIONS,
    OPERATIONS_NOT_ASKED,
    visible_brokers,
)
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO, Shape

if TYPE_CHECKING:
    from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
    from kio.schema.describe_cluster.v2.response import DescribeClusterResponse

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


async def handle(
    context: RequestContext, request: DescribeClusterRequest, shape: Shape
) -> DescribeClusterResponse:
    wanted = getattr(request, "endpoint_type", _BROKERS)
    if wanted == _CONTROLLERS:
        message = "this endpoint is a broker's, and a controller's is asked for"
        return _refuse(shape, ErrorCode.mismatched_endpoint_type, message)
    if wanted != _BROKERS:
        message = f"no endpoints have type {wanted}"
        return _refuse(shape, ErrorCode.unsupported_endpoint_type, message)
    image = context.broker.metadata.image
    return shape(
        "DescribeClusterResponse",
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=_BROKERS,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=tuple(
            shape(
                "DescribeClusterBroker",
                broker_id=broker.node_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=False,
            )
            for broker, endpoint in visible_brokers(context.broker, context.listener)
        ),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS
            if request.include_cluster_authorized_operations
            else OPERATIONS_NOT_ASKED
        ),
    )


def _refuse(shape: Shape, code: ErrorCode, message: str) -> DescribeClusterResponse:
    return shape(
        "DescribeClusterResponse",
        throttle_time=ZERO,
        error_code=code,
        error_message=message,
        endpoint_type=_BROKERS,
        cluster_id="",
        controller_id=-1,
        brokers=(),
        cluster_authorized_operations=OPERATIONS_NOT_ASKED,
    )
