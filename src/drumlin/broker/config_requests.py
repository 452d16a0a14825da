"""What AlterConfigs and IncrementalAlterConfigs have in common: resources one by one, and answers.

Each resource succeeds or fails by itself. One that is named twice is refused.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

if TYPE_CHECKING:
    from drumlin.broker.broker import Broker
    from drumlin.metadata.image import Resource
    from drumlin.metadata.store import Alteration


async def answer_each(
    request: Any, shape: Shape, response: str, alter: Callable[[Any], Awaitable[None]]
) -> Any:
    """The answer called `response`, after `alter` was done for each resource of the request.

    What `alter` raises as a `KafkaError` is told of its resource.
    """
    named = Counter((each.resource_type, each.resource_name) for each in request.resources)

    async def answer(wanted: Any) -> Any:
        error: KafkaError | None = None
        try:
            if named[wanted.resource_type, wanted.resource_name] > 1:
                message = "named more than once in one request"
                raise KafkaError(ErrorCode.invalid_request, message)
            await alter(wanted)
        except KafkaError as refusal:
            error = refusal
        return shape(
            "AlterConfigsResourceResponse",
            error_code=error.code if error else ErrorCode.none,
            error_message=error.message if error else None,
            resource_type=wanted.resource_type,
            resource_name=wanted.resource_name,
        )

    responses = await asyncio.gather(*map(answer, request.resources))
    return shape(response, throttle_time=ZERO, responses=tuple(responses))


async def alter_or_check(
    broker: Broker, resource: Resource, alteration: Alteration, validate_only: bool
) -> None:
    """Alter what is stored, or only see whether that would be accepted.

    Raises:
        KafkaError: it is not.
    """
    if validate_only:
        alteration(broker.metadata.image.configs(resource))
    else:
        await broker.metadata.alter_configs(resource, alteration)
