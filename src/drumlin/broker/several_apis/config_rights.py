"""The rights on configurations, by the type of the resource."""

from __future__ import annotations

from drumlin.broker.configs.config_changes import BROKER_LOGGER
from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.metadata.image import ResourceType

_OF_CLUSTER = frozenset({ResourceType.BROKER, BROKER_LOGGER, ResourceType.CLIENT_METRICS})


def require_config_right(
    context: RequestContext, operation: Operation, resource_type: int, name: str
) -> None:
    """Check the right to a resource's configuration.

    A type that does not exist needs no right: it is refused later.

    Raises:
        KafkaError: the request's principal may not do this.
    """
    if resource_type == ResourceType.TOPIC:
        context.require(operation, Kind.TOPIC, name)
    elif resource_type == ResourceType.GROUP:
        context.require(operation, Kind.GROUP, name)
    elif resource_type in _OF_CLUSTER:
        context.require_cluster(operation)
