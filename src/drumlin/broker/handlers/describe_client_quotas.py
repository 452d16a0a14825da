"""DescribeClientQuotas (key 48), versions 0-1: the quotas that a filter matches (KIP-546).

There are none: see `quotas.py`.
"""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Operation
from drumlin.broker.rights.quotas import check_filter
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


async def handle(
    context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    error: KafkaError | None = None
    try:
        context.require_cluster(Operation.DESCRIBE_CONFIGS)
        await check_filter(request.components)
    except KafkaError as mistake:
        error = mistake
    return DescribeClientQuotasResponse(
        throttle_time=ZERO,
        error_code=error.code if error else ErrorCode.none,
        error_message=error.message if error else "",
        entries=None if error else (),
    )
