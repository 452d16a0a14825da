"""AlterConfigs (key 33), versions 0-2: replace the whole configuration of topics, brokers, groups.

Old clients use it; IncrementalAlterConfigs took its place (KIP-339). Each resource succeeds or
fails by itself. One that is named twice is refused; Apache Kafka never answers such a request.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from drumlin.broker.config_changes import (
    KeyChange,
    Operation,
    check_changes,
    check_resource,
    replacement,
)
from drumlin.broker.context import RequestContext
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    named = Counter((each.resource_type, each.resource_name) for each in request.resources)
    responses = await asyncio.gather(
        *(_alter(context, request, shape, each, named) for each in request.resources)
    )
    return shape("AlterConfigsResponse", throttle_time=ZERO, responses=tuple(responses))


async def _alter(
    context: RequestContext,
    request: Any,
    shape: Shape,
    wanted: Any,
    named: Counter[tuple[int, str]],
) -> Any:
    broker = context.broker
    error: KafkaError | None = None
    try:
        if named[wanted.resource_type, wanted.resource_name] > 1:
            message = "Each resource must appear at most once."
            raise KafkaError(ErrorCode.invalid_request, message)
        check_changes([KeyChange(Operation.SET, each.name, each.value) for each in wanted.configs])
        resource = check_resource(broker, wanted.resource_type, wanted.resource_name)
        alteration = replacement(
            broker, resource, {each.name: each.value for each in wanted.configs}
        )
        if request.validate_only:
            alteration(broker.metadata.image.configs(resource))
        else:
            await broker.metadata.alter_configs(resource, alteration)
    except KafkaError as refusal:
        error = refusal
    return shape(
        "AlterConfigsResourceResponse",
        error_code=error.code if error else ErrorCode.none,
        error_message=error.message if error else None,
        resource_type=wanted.resource_type,
        resource_name=wanted.resource_name,
    )
