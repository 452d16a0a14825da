"""Requests that create, delete, describe and configure topics."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.cluster_view import PartitionView
from drumlin.peer.connection import Request
from drumlin.peer.peer_error import PeerError, only
from drumlin.peer.retry import Deadline
from drumlin.peer.rights import refusal
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from drumlin.wire.protocol.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from drumlin.wire.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicState
from drumlin.wire.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from drumlin.wire.protocol.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from drumlin.wire.protocol.metadata import MetadataRequest, MetadataRequestTopic

_TOPIC_RESOURCE: Final = 2
_SET: Final = 0
_DELETE: Final = 1
_METADATA_BY_ID_FROM_VERSION: Final = 12
_WITNESSES: Final = 3
_TOPIC_CONFIG: Final = 1  # the source of a config that is set on the topic itself


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created; -1 means the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] = ()
    """The brokers of each partition, instead of the two numbers."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as the cluster describes it."""

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionView, ...]


class TopicLookup(NamedTuple):
    """The topics that were found, and the errors of the others."""

    found: dict[str, TopicDescription]
    refused: dict[str, ErrorCode]  # the errors of topics that could not be described


class ConfigEntry(NamedTuple):
    """One configuration key of a topic. `value` is None if it is secret."""

    value: str | None
    is_default: bool
    is_read_only: bool


async def list_topics(connections: BrokerConnections, internal: bool) -> list[str]:
    """The names of all topics, sorted; internal ones only with `internal`."""
    await connections.retrying(lambda: connections.refresh(None))
    known = connections.view.topics.values()
    return sorted(each.name for each in known if internal or not each.is_internal)


async def describe_topics(
    connections: BrokerConnections, names: Sequence[str] | None
) -> dict[str, TopicDescription]:
    """Fresh descriptions of the named topics, or of all."""
    await connections.retrying(lambda: connections.refresh(names))
    return _descriptions(connections, names)


async def look_up_topics(
    connections: BrokerConnections, names: Collection[str] | None
) -> TopicLookup:
    """Like `describe_topics`, but a missing topic does not make the call fail."""

    async def attempt() -> dict[str, ErrorCode]:
        refused = await connections.look_up(names)
        for name, code in refused.items() if names is not None else ():
            # "Unknown" is a valid result; other retriable errors are retried, as in every call.
            if code is not ErrorCode.unknown_topic_or_partition and code.retriable:
                raise refusal("metadata", code, f"topic {name!r}")
        return refused

    refused = await connections.retrying(attempt)
    wanted = None if names is None else [each for each in names if each not in refused]
    return TopicLookup(_descriptions(connections, wanted), refused)


async def is_topic_id_unknown(connections: BrokerConnections, topic_id: UUID) -> bool:
    """Whether the brokers do not know the topic id (KIP-516) because the topic was deleted.

    A broker that has just started may not know the id yet, so several brokers are asked. Also False
    if one of them does not answer, or is too old for requests by id.
    """
    request = MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=topic_id, name=None),),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )

    async def is_unknown_to(node_id: int) -> bool:
        connection = await connections.broker(node_id)
        if connection.version_of("metadata") < _METADATA_BY_ID_FROM_VERSION:
            return False
        response = await connection.request("metadata", request)
        answer = only(response.topics, f"topic id {topic_id}")
        return bool(answer.error_code is ErrorCode.unknown_topic_id)

    await connections.retrying(lambda: connections.refresh(()))
    brokers = list(connections.view.brokers)
    asked = random.sample(brokers, min(len(brokers), _WITNESSES))
    try:
        answers = await asyncio.gather(*map(is_unknown_to, asked))
    except (KafkaError, PeerError):
        return False
    return bool(answers) and all(answers)


def _descriptions(
    connections: BrokerConnections, names: Iterable[str] | None
) -> dict[str, TopicDescription]:
    topics = connections.view.topics
    return {
        name: TopicDescription(
            name,
            None if topics[name].topic_id is None else str(topics[name].topic_id),
            topics[name].is_internal,
            tuple(topics[name].partitions.values()),
        )
        for name in (sorted(topics) if names is None else names)
    }


async def create_topic(connections: BrokerConnections, topic: NewTopic) -> None:
    """Create one topic, and wait until every partition has a leader."""
    deadline = Deadline(connections.options.patience_ms)
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()]
    assignments = (
        CreatableReplicaAssignment(partition_index=index, broker_ids=tuple(brokers))
        for index, brokers in enumerate(topic.assignments)
    )
    creatable = CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(assignments),
        configs=tuple(configs),
    )
    request = CreateTopicsRequest(topics=(creatable,), timeout=_timeout(connections))
    response = await _ask_controller(connections, "create_topics", request, deadline)
    _check("create_topics", response.topics, topic.name)
    count = max(topic.partitions, len(topic.assignments), 1)
    with _noting(f"topic {topic.name} was created"):
        await _await_leaders(connections, topic.name, 0, count, deadline)


@contextmanager
def _noting(what_is_done: str) -> Iterator[None]:
    """Add a note about the steps already done to an exception that the block raises."""
    try:
        yield
    except Exception as error:
        error.add_note(what_is_done)
        raise


async def _await_leaders(
    connections: BrokerConnections, topic: str, first: int, partition_count: int, deadline: Deadline
) -> None:
    """Wait until a broker knows `partition_count` partitions, and the leaders from `first` on.

    Brokers learn of a change from the controller some time after the change was confirmed.
    """

    async def leaders() -> None:
        await connections.refresh((topic,))
        known = connections.view.topics[topic].partitions
        for partition in range(first, max(partition_count, len(known))):
            connections.view.leader_of(topic, partition)

    await connections.retrying(leaders, topics=(topic,), deadline=deadline)


async def delete_topic(connections: BrokerConnections, topic: str) -> None:
    """Delete one topic."""
    request = DeleteTopicsRequest(
        timeout=_timeout(connections),
        topics=(DeleteTopicState(name=topic, topic_id=None),),
        topic_names=(topic,),
    )
    response = await _ask_controller(connections, "delete_topics", request)
    connections.view.topics.pop(topic, None)
    _check("delete_topics", response.responses, topic)


async def add_partitions(connections: BrokerConnections, topic: str, count: int) -> None:
    """Raise the number of partitions to `count`, and wait until the last one has a leader.

    Brokers learn of all new partitions at once. Existing ones may lack a leader meanwhile.
    """
    deadline = Deadline(connections.options.patience_ms)
    wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    request = CreatePartitionsRequest(
        topics=(wanted,),
        timeout=_timeout(connections),
        validate_only=False,
    )
    response = await _ask_controller(connections, "create_partitions", request, deadline)
    _check("create_partitions", response.results, topic)
    with _noting(f"topic {topic} has {count} partitions now"):
        await _await_leaders(connections, topic, count - 1, count, deadline)


async def topic_configs(connections: BrokerConnections, topic: str) -> dict[str, ConfigEntry]:
    """All configuration keys of a topic."""
    resource = DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE,
        resource_name=topic,
        configuration_keys=None,
    )
    request = DescribeConfigsRequest(resources=(resource,))

    async def attempt() -> Any:
        connection = await connections.any()
        response = await connection.request("describe_configs", request)
        _check("describe_configs", response.results, topic)
        return response.results[0]

    result = await connections.retrying(attempt)
    return {
        each.name: ConfigEntry(
            each.value,
            each.config_source != _TOPIC_CONFIG,
            each.read_only,
        )
        for each in result.configs
    }


async def set_topic_configs(
    connections: BrokerConnections, topic: str, changes: Mapping[str, str | None]
) -> None:
    """Set configuration keys of a topic; None resets a key to its default."""
    configs = [
        AlterableConfig(
            name=key,
            config_operation=_DELETE if value is None else _SET,
            value=value,
        )
        for key, value in changes.items()
    ]
    resource = AlterConfigsResource(
        resource_type=_TOPIC_RESOURCE,
        resource_name=topic,
        configs=tuple(configs),
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    response = await _ask_controller(connections, "incremental_alter_configs", request)
    _check("incremental_alter_configs", response.responses, topic)


def _timeout(connections: BrokerConnections) -> timedelta:
    return timedelta(milliseconds=connections.options.request_timeout_ms)


async def _ask_controller(
    connections: BrokerConnections,
    api_name: str,
    request: Request,
    deadline: Deadline | None = None,
) -> Any:
    # If a response is lost, the change is sent again, and may then fail as already done.

    async def attempt() -> Any:
        connection = await connections.controller()
        response = await connection.request(api_name, request)
        for result in _results(response):
            if result.error_code is ErrorCode.not_controller:
                connections.view.controller_id = -1
                raise KafkaError(result.error_code, api_name)
        return response

    return await connections.retrying(attempt, deadline=deadline)


def _results(response: Any) -> Sequence[Any]:
    for name in ("topics", "responses", "results"):
        if hasattr(response, name):
            results: Sequence[Any] = getattr(response, name)
            return results
    raise AssertionError(f"{type(response).__name__} has no results")


def _check(api_name: str, results: Sequence[Any], topic: str) -> None:
    result = only(results, f"topic {topic!r}")
    code = result.error_code
    if code is not ErrorCode.none:
        message = getattr(result, "error_message", None)
        raise refusal(api_name, code, f"topic {topic!r}" + (f": {message}" if message else ""))
