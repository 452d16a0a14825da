"""DescribeConfigs (key 32), versions 1-4: configurations of topics, this broker, its loggers,
groups, and subscriptions to metrics of clients.

A broker without a name stands for the cluster-wide default. A resource of an unknown type makes
every resource of the request INVALID_REQUEST, as in Apache Kafka.

Version notes: 1 adds sources and synonyms; 3 adds types and documentation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drumlin.broker.configs.config_changes import BROKER_LOGGER, parse_node_id
from drumlin.broker.configs.config_entries import (
    ConfigEntry,
    Source,
    broker_entries,
    cluster_wide_entries,
    group_entries,
    subscription_entries,
    topic_entries,
)
from drumlin.broker.context import RequestContext
from drumlin.broker.loop import loggers
from drumlin.broker.rights.acls import Operation
from drumlin.broker.several_apis.config_rights import require_config_right
from drumlin.distinct import counted
from drumlin.metadata.image import CONFIGURABLE, Resource, ResourceType
from drumlin.metadata.names import check_topic_name
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_TYPES: Final = frozenset({*CONFIGURABLE, BROKER_LOGGER})
#: Entries in one response: without this limit a small request that names the broker many times
#: could get gigabytes.
_ENTRIES_MAX: Final = 200_000
#: The minimum number of entries that a resource counts as: one without matching entries must be
#: examined, too.
_ENTRIES_MIN: Final = 4
_UNKNOWN_TYPE: Final = "the request names a resource of a type that does not exist"


async def handle(
    context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    refusal: KafkaError | None = None
    for each in request.resources:
        if each.resource_type not in _TYPES:
            refusal = KafkaError(ErrorCode.invalid_request, _UNKNOWN_TYPE)
        await give_way()
    if refusal is None:
        results = await _describe_all(context, request)
    else:
        results = []
        for each in request.resources:
            results.append(_result(each, (), refusal))
            await give_way()
    return DescribeConfigsResponse(throttle_time=ZERO, results=tuple(results))


async def _describe_all(
    context: RequestContext, request: DescribeConfigsRequest
) -> list[DescribeConfigsResult]:
    room = _ENTRIES_MAX
    results = []
    for resource in request.resources:
        await give_way()
        try:
            if room <= 0:
                message = (
                    f"a request can show some {_ENTRIES_MAX} keys; ask for the rest in another"
                )
                raise KafkaError(ErrorCode.policy_violation, message)
            kind, name = resource.resource_type, resource.resource_name
            require_config_right(context, Operation.DESCRIBE_CONFIGS, kind, name)
            entries = _entries(context, kind, name)
        except KafkaError as error:
            results.append(_result(resource, (), error))
            continue
        wanted = await counted(resource.configuration_keys or ())
        shown = [entry for entry in entries if not wanted or entry.name in wanted]
        room -= max(len(shown), _ENTRIES_MIN)
        configs = [_config(request, entry) for entry in shown]
        results.append(_result(resource, configs, None))
    return results


def _entries(context: RequestContext, type_number: int, name: str) -> list[ConfigEntry]:
    config, image = context.broker.config, context.broker.metadata.image
    match type_number:
        case ResourceType.TOPIC:
            check_topic_name(name)
            if name not in image.topics:
                raise KafkaError(ErrorCode.unknown_topic_or_partition, "")
            return topic_entries(config, image.topic_configs(name))
        case ResourceType.BROKER:
            if not name:
                return cluster_wide_entries(config)
            _check_broker(context, name)
            return broker_entries(config)
        case ResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.invalid_request, "a group must be named")
            return group_entries(config, image.configs(Resource(ResourceType.GROUP, name)))
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise KafkaError(ErrorCode.invalid_request, "a subscription must be named")
            resource = Resource(ResourceType.CLIENT_METRICS, name)
            return subscription_entries(image.configs(resource))
        case _:  # a logger
            if not name:
                raise KafkaError(
                    ErrorCode.invalid_request, "the broker must be named by its number"
                )
            _check_broker(context, name)
            return [
                ConfigEntry(logger, level, Source.LOGGER, documentation="")
                for logger, level in loggers.levels().items()
            ]


def _check_broker(context: RequestContext, name: str) -> None:
    expected = context.broker.node_id
    if parse_node_id(name) != expected:
        message = f"this is broker {expected}, not {name}"
        raise KafkaError(ErrorCode.invalid_request, message)


def _config(request: DescribeConfigsRequest, entry: ConfigEntry) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    # A logger's documentation is always included, as in Apache Kafka.
    is_documented = request.include_documentation or not entry.type_number
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(
                name=each.name,
                value=each.value,
                source=each.source,
            )
            for each in synonyms
        ),
        config_type=entry.type_number,
        documentation=entry.documentation if is_documented else None,
    )


def _result(
    resource: DescribeConfigsResource,
    configs: Iterable[DescribeConfigsResourceResult],
    error: KafkaError | None,
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code if error else ErrorCode.none,
        error_message=error.message if error else "",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(configs),
    )
