"""IncrementalAlterConfigs (key 44), versions 0-1: set, delete, append to, subtract from keys of
topics, brokers, groups and subscriptions to metrics of clients, and set levels of this broker's
loggers (KIP-339, KIP-412).

Each resource succeeds or fails as a whole. A broker without a name stands for all brokers. Keys
that may change at run time take effect at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from drumlin.broker.configs.config_changes import (
    BROKER_LOGGER,
    KeyChange,
    Operation,
    check_changes,
    check_resource,
    increment,
    parse_node_id,
)
from drumlin.broker.configs.config_requests import alter_or_check, answer_each
from drumlin.broker.context import RequestContext
from drumlin.broker.loop import loggers
from drumlin.broker.rights import acls
from drumlin.broker.rights.denials import DENIED
from drumlin.broker.several_apis.config_rights import require_config_right
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    broker = context.broker

    async def alter(wanted: AlterConfigsResource) -> None:
        changes = [_change(each) for each in wanted.configs]
        check_changes(changes)
        kind, name = wanted.resource_type, wanted.resource_name
        if kind == BROKER_LOGGER:
            if not context.may_cluster(acls.Operation.ALTER_CONFIGS):
                raise KafkaError(DENIED[acls.Kind.CLUSTER])  # no message, as in Apache Kafka
            _alter_loggers(broker.node_id, name, changes, request.validate_only)
            return
        require_config_right(context, acls.Operation.ALTER_CONFIGS, kind, name)
        resource = check_resource(broker, kind, name)
        alteration = increment(broker, resource, changes)
        keys = [each.key for each in changes if each.operation is not Operation.DELETE]
        await alter_or_check(broker, resource, alteration, keys, request.validate_only)

    responses = await answer_each(request.resources, AlterConfigsResourceResponse, alter)
    return IncrementalAlterConfigsResponse(throttle_time=ZERO, responses=responses)


def _change(config: AlterableConfig) -> KeyChange:
    try:
        operation = Operation(config.config_operation)
    except ValueError:
        raise KafkaError(ErrorCode.unknown_server_error) from None
    return KeyChange(operation, config.name, config.value)


def _alter_loggers(
    own_id: int, name: str, changes: Sequence[KeyChange], validate_only: bool
) -> None:
    if parse_node_id(name) != own_id:
        raise KafkaError(ErrorCode.invalid_request, f"this is broker {own_id}, not {name}")
    for change in changes:
        if change.operation in (Operation.APPEND, Operation.SUBTRACT):
            what = change.operation.name.lower()
            message = f"the level of a logger is not a list, so {what} means nothing for it"
            raise KafkaError(ErrorCode.invalid_request, message)
        loggers.check(change.key, None if change.operation is Operation.DELETE else change.value)
    if not validate_only:
        for change in changes:
            is_set = change.operation is Operation.SET
            loggers.set_level(change.key, change.value if is_set else None)
