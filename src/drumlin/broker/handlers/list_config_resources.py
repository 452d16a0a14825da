"""ListConfigResources (key 74), versions 0-1: the resources that have a configuration.

Version 0 lists subscriptions to metrics of clients only. From version 1 the request names types; an
empty list means all: every topic and broker, and the groups and subscriptions that have a
configuration (KIP-1142).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drumlin.broker.configs.config_changes import BROKER_LOGGER
from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Operation
from drumlin.metadata.image import CONFIGURABLE, ClusterImage, ResourceType
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_TYPES: Final = (*CONFIGURABLE, BROKER_LOGGER)


async def handle(
    context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    context.require_cluster(Operation.DESCRIBE_CONFIGS)
    wanted = request.resource_types
    types = {int(ResourceType.CLIENT_METRICS)} if wanted is None else set(wanted) or set(_TYPES)
    code, resources = ErrorCode.none, []
    if types <= set(_TYPES):
        for resource_type in sorted(types):
            for name in list(_names(context.broker.metadata.image, resource_type)):
                resources.append(ConfigResource(resource_name=name, resource_type=resource_type))
                await give_way()
    else:
        code = ErrorCode.unsupported_version
    return ListConfigResourcesResponse(
        throttle_time=ZERO,
        error_code=code,
        config_resources=tuple(resources),
    )


def _names(image: ClusterImage, resource_type: int) -> Iterable[str]:
    match resource_type:
        case ResourceType.TOPIC:
            return image.topics
        case ResourceType.GROUP | ResourceType.CLIENT_METRICS:
            return image.configured(ResourceType(resource_type))
        case _:
            return map(str, image.brokers)
