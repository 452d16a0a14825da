"""IncrementalAlterConfigs (key 44), versions 0-1: set, delete, append to, subtract from keys of
topics, brokers, groups, and set levels of this broker's loggers (KIP-339, KIP-412).

Each resource succeeds or fails as a whole. A broker without a name stands for all brokers. What
may change at run time has its effect at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from drumlin.broker import loggers
from drumlin.broker.config_changes import (
    BROKER_LOGGER,
    KeyChange,
    Operation,
    check_changes,
    check_resource,
    increment,
    parse_node_id,
)
from drumlin.broker.context import RequestContext
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape


async def handle(context: RequestContext, request: Any, shape: Shape) -> Any:
    named = Counter((each.resource_type, each.resource_name) for each in request.resources)
    responses = await asyncio.gather(
        *(_answer(context, request, shape, each, named) for each in request.resources)
    )
    return shape("IncrementalAlterConfigsResponse", throttle_time=ZERO, responses=tuple(responses))


async def _answer(
    context: RequestContext,
    request: Any,
    shape: Shape,
    wanted: Any,
    named: Counter[tuple[int, str]],
) -> Any:
    error: KafkaError | None = None
    try:
        if named[wanted.resource_type, wanted.resource_name] > 1:
            message = "Each resource must appear at most once."
            raise KafkaError(ErrorCode.invalid_request, message)
        changes = [_change(each) for each in wanted.configs]
        check_changes(changes)
        if wanted.resource_type == BROKER_LOGGER:
            _alter_loggers(context, wanted.resource_name, changes, request.validate_only)
        else:
            await _alter(context, wanted, changes, request.validate_only)
    except KafkaError as refusal:
        error = refusal
    return shape(
        "AlterConfigsResourceResponse",
        error_code=error.code if error else ErrorCode.none,
        error_message=error.message if error else None,
        resource_type=wanted.resource_type,
        resource_name=wanted.resource_name,
    )


def _change(config: Any) -> KeyChange:
    try:
        operation = Operation(config.config_operation)
    except ValueError:
        raise KafkaError(ErrorCode.unknown_server_error) from None
    return KeyChange(operation, config.name, config.value)


async def _alter(
    context: RequestContext, wanted: Any, changes: Sequence[KeyChange], validate_only: bool
) -> None:
    broker = context.broker
    resource = check_resource(broker, wanted.resource_type, wanted.resource_name)
    alteration = increment(broker, resource, changes)
    if validate_only:
        alteration(broker.metadata.image.configs(resource))
    else:
        await broker.metadata.alter_configs(resource, alteration)


def _alter_loggers(
    context: RequestContext, name: str, changes: Sequence[KeyChange], validate_only: bool
) -> None:
    node_id = parse_node_id(name, "Node id")
    if node_id != context.broker.node_id:
        message = f"Unexpected node id. Expected {context.broker.node_id}, but received {node_id}"
        raise KafkaError(ErrorCode.invalid_request, message)
    for change in changes:
        if change.operation in (Operation.APPEND, Operation.SUBTRACT):
            what = change.operation.name
            message = f"{what} operation is not allowed for the BROKER_LOGGER resource"
            raise KafkaError(ErrorCode.invalid_request, message)
        loggers.check(change.key, None if change.operation is Operation.DELETE else change.value)
    if not validate_only:
        for change in changes:
            is_set = change.operation is Operation.SET
            loggers.set_level(change.key, change.value if is_set else None)
