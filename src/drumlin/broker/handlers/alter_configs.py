"""AlterConfigs (key 33), versions 0-2: replace the whole configuration of topics, brokers, groups.

Old clients use it; IncrementalAlterConfigs took its place (KIP-339). Each resource succeeds or
fails by itself. One that is named twice is refused; Apache Kafka never answers such a request.
"""

from __future__ import annotations

from drumlin.broker.configs.config_changes import (
    KeyChange,
    Operation,
    check_changes,
    check_resource,
    replacement,
)
from drumlin.broker.configs.config_requests import alter_or_check, answer_each
from drumlin.broker.context import RequestContext
from drumlin.broker.rights import acls
from drumlin.broker.several_apis.config_rights import require_config_right
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    broker = context.broker

    async def alter(wanted: AlterConfigsResource) -> None:
        check_changes([KeyChange(Operation.SET, each.name, each.value) for each in wanted.configs])
        kind, name = wanted.resource_type, wanted.resource_name
        require_config_right(context, acls.Operation.ALTER_CONFIGS, kind, name)
        resource = check_resource(broker, kind, name)
        # The check above has refused null values.
        configs = {each.name: each.value or "" for each in wanted.configs}
        alteration = replacement(broker, resource, configs)
        await alter_or_check(broker, resource, alteration, configs, request.validate_only)

    responses = await answer_each(request.resources, AlterConfigsResourceResponse, alter)
    return AlterConfigsResponse(throttle_time=ZERO, responses=responses)
