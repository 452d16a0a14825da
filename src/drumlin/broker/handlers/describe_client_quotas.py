"""DescribeClientQuotas (key 48), versions 0-1: the quotas that a filter matches (KIP-546)."""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.quotas.entities import quotas_in
from drumlin.broker.quotas.requests import Filter, checked_filter
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import DENIED
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


async def handle(
    context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    error: KafkaError | None = None
    entries: tuple[EntryData, ...] | None = None
    try:
        if not context.may_cluster(Operation.DESCRIBE_CONFIGS):
            raise KafkaError(DENIED[Kind.CLUSTER])  # without a message, as in Apache Kafka
        wanted = await checked_filter(request.components, is_strict=request.strict)
        entries = await _found(context, wanted)
    except KafkaError as mistake:
        error = mistake
    return DescribeClientQuotasResponse(
        throttle_time=ZERO,
        error_code=error.code if error else ErrorCode.none,
        error_message=error.message if error else "",
        entries=entries,
    )


async def _found(context: RequestContext, wanted: Filter) -> tuple[EntryData, ...]:
    found = []
    for entity, quotas in quotas_in(context.broker.metadata.image):
        await give_way()
        if wanted.matches(entity):
            names = (EntityData(entity_type=each, entity_name=entity[each]) for each in entity)
            values = (ValueData(key=key, value=value) for key, value in quotas.items())
            found.append(EntryData(entity=tuple(names), values=tuple(values)))
    return tuple(found)
