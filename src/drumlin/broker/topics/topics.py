"""Checks for the creation of topics and partitions, for all APIs.

CreateTopics, CreatePartitions, auto-creation and the internal topics all use these checks. Once the
metadata has a topic, `hosting` creates its logs.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from drumlin.broker.parts.parts import BrokerData
from drumlin.config.broker import BrokerConfig
from drumlin.config.topic import validate_overrides
from drumlin.metadata import names as metadata_names
from drumlin.metadata.image import TopicState
from drumlin.metadata.names import CLUSTER_METADATA, check_no_collision, check_topic_name
from drumlin.metadata.rules.assignments import (
    Replicas,
    check_assignments,
    check_replicas,
    spread_replicas,
    start_after,
)
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

DEFAULT: Final = -1
#: New partitions per request: bounds the folders and files that one request creates.
PARTITIONS_PER_REQUEST_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class RequestedTopic:
    """A requested topic; `DEFAULT`, or no assignments, leaves the choice to the broker."""

    name: str
    partition_count: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: tuple[tuple[int, Sequence[int]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()

    def count(self, config: BrokerConfig) -> int:
        """The number of partitions that the topic would have."""
        if self.assignments:
            return len(self.assignments)
        if self.partition_count == DEFAULT:
            return config.num_partitions
        return max(self.partition_count, 0)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that was checked and may be created."""

    name: str
    assignment: tuple[Replicas, ...]
    configs: Mapping[str, str]


def check_partition_total(broker: BrokerData, topics: Iterable[RequestedTopic]) -> None:
    """Refuse a request for too many partitions.

    Raises:
        KafkaError: POLICY_VIOLATION.
    """
    if sum(topic.count(broker.config) for topic in topics) > PARTITIONS_PER_REQUEST_MAX:
        raise _too_many()


def _too_many() -> KafkaError:
    message = f"a request can create {PARTITIONS_PER_REQUEST_MAX} partitions at most"
    return KafkaError(ErrorCode.policy_violation, message)


def plan_topic(broker: BrokerData, topic: RequestedTopic) -> TopicPlan:
    """Check a requested topic, and fill in the broker's choices.

    Raises:
        KafkaError: the topic is not valid; checks have Kafka's order.
    """
    if topic.name == CLUSTER_METADATA:
        message = f"{CLUSTER_METADATA} cannot be created by a client"
        raise KafkaError(ErrorCode.invalid_request, message)
    check_topic_name(topic.name)
    image = broker.metadata.image
    if topic.name in image.topics:
        message = f"there is a topic {topic.name} already"
        raise KafkaError(ErrorCode.topic_already_exists, message)
    check_no_collision(topic.name, image.colliding_names(topic.name))
    configs = _check_configs(broker, topic)
    return TopicPlan(topic.name, _assign(broker, topic), configs)


def _check_configs(broker: BrokerData, topic: RequestedTopic) -> dict[str, str]:
    nulls = [name for name, value in topic.configs if value is None]
    if nulls:
        message = f"no value is given for {', '.join(nulls)}"
        raise KafkaError(ErrorCode.invalid_config, message)
    configs = {name: value for name, value in topic.configs if value is not None}
    validate_overrides(configs, broker.config.topic_defaults())
    return configs


def _assign(broker: BrokerData, topic: RequestedTopic) -> tuple[Replicas, ...]:
    brokers = _open_brokers(broker)
    if topic.assignments:
        if topic.replication_factor != DEFAULT:
            message = "where replicas are assigned, the replication factor must be -1"
            raise KafkaError(ErrorCode.invalid_request, message)
        if topic.partition_count != DEFAULT:
            message = "where replicas are assigned, the number of partitions must be -1"
            raise KafkaError(ErrorCode.invalid_request, message)
        return check_assignments(topic.assignments, brokers)
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        message = "the replication factor must be at least 1, or -1 for the default"
        raise KafkaError(ErrorCode.invalid_replication_factor, message)
    if topic.partition_count < DEFAULT or topic.partition_count == 0:
        message = "the number of partitions must be at least 1, or -1 for the default"
        raise KafkaError(ErrorCode.invalid_partitions, message)
    replication_factor = topic.replication_factor
    if replication_factor == DEFAULT:
        replication_factor = broker.config.default_replication_factor
    count = topic.count(broker.config)
    start = random.randrange(max(len(brokers), 1))
    return spread_replicas(_racks(broker, brokers), count, replication_factor, start)


def _racks(broker: BrokerData, brokers: Iterable[int]) -> dict[int, str | None]:
    known = broker.metadata.image.brokers
    return {node_id: known[node_id].rack for node_id in brokers}


def _open_brokers(broker: BrokerData) -> Collection[int]:
    """The brokers on which new partitions may be placed.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR, no broker is left.
    """
    brokers = broker.metadata.image.brokers.keys()
    if not broker.logs.are_all_cordoned:
        return brokers
    others = brokers - {broker.config.node_id}
    if not others:
        message = "all log dirs are cordoned: see cordoned.log.dirs"
        raise KafkaError(ErrorCode.invalid_replication_factor, message)
    return others


async def create_topic(broker: BrokerData, plan: TopicPlan) -> TopicState:
    """Create a topic; when this returns, it is durable and its partitions serve.

    Raises:
        KafkaError: TOPIC_ALREADY_EXISTS, KAFKA_STORAGE_ERROR.
    """
    return await broker.metadata.create_topic(plan.name, plan.assignment, plan.configs)


def plan_partitions(
    broker: BrokerData, name: str, count: int, assignments: Sequence[Sequence[int]] | None
) -> tuple[Replicas, ...]:
    """The replicas of new partitions that give a topic `count` partitions in all.

    Raises:
        KafkaError: the topic is not valid.
    """
    image = broker.metadata.image
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    existing = len(topic.partitions)
    if count == existing:
        message = f"{name} has {existing} partitions already"
        raise KafkaError(ErrorCode.invalid_partitions, message)
    if count < existing:
        message = f"{name} has {existing} partitions, and cannot go back to {count}"
        raise KafkaError(ErrorCode.invalid_partitions, message)
    added = count - existing
    if assignments is not None and len(assignments) != added:
        message = f"{added} new partitions, but replicas are assigned for {len(assignments)}"
        raise KafkaError(ErrorCode.invalid_replica_assignment, message)
    if added > PARTITIONS_PER_REQUEST_MAX:
        raise _too_many()
    replica_count = len(topic.partitions[0].replicas)
    brokers = _open_brokers(broker)
    if assignments is None:
        racks = _racks(broker, brokers)
        start = start_after(racks, topic.partitions[0].replicas[0])
        return spread_replicas(racks, added, replica_count, start, existing)
    return tuple(check_replicas(each, brokers, replica_count) for each in assignments)


class Growth(NamedTuple):
    """The number of partitions that a topic will have, and how many new ones have assigned
    replicas.
    """

    name: str
    partitions: int
    assigned: int | None


async def check_added_total(broker: BrokerData, wanted: Iterable[Growth]) -> None:
    """Like `check_partition_total`, for new partitions; counts that `plan_partitions` refuses are
    left out.

    Raises:
        KafkaError: POLICY_VIOLATION.
    """
    topics, total = broker.metadata.image.topics, 0
    for name, count, assigned in wanted:
        topic = topics.get(name)
        added = 0 if topic is None else max(count - len(topic.partitions), 0)
        if assigned in (None, added):
            total += added
        if total > PARTITIONS_PER_REQUEST_MAX:
            raise _too_many()
        await give_way()


async def create_automatically(broker: BrokerData, name: str) -> None:
    """Create a topic because a client requested it by name.

    Raises:
        KafkaError: the topic cannot be created.
    """
    topic = _automatic_topic(broker.config, name)
    try:
        await create_topic(broker, plan_topic(broker, topic))
    except KafkaError as error:
        if error.code is not ErrorCode.topic_already_exists:
            raise
    else:
        _log.info("created topic %s, as a client requested it by name", name)


def _automatic_topic(config: BrokerConfig, name: str) -> RequestedTopic:
    """An automatically created topic: it has the defaults, except for Kafka's internal topics."""
    match name:
        case metadata_names.GROUP_METADATA:
            segment_bytes = config.offsets_topic_segment_bytes
            configs = {"cleanup.policy": "compact", "compression.type": "producer"}
            count = config.offsets_topic_num_partitions
            replicas = config.offsets_topic_replication_factor
        case metadata_names.TRANSACTION_STATE:
            segment_bytes = config.transaction_state_log_segment_bytes
            configs = {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
            }
            count = config.transaction_state_log_num_partitions
            replicas = config.transaction_state_log_replication_factor
        case metadata_names.SHARE_GROUP_STATE:
            # As in Apache Kafka, the topic's coordinator itself deletes superseded records.
            segment_bytes = config.share_coordinator_state_topic_segment_bytes
            configs = {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                "retention.ms": "-1",
            }
            count = config.share_coordinator_state_topic_num_partitions
            replicas = config.share_coordinator_state_topic_replication_factor
        case _:
            return RequestedTopic(name)
    configs["segment.bytes"] = str(segment_bytes)
    return RequestedTopic(name, count, replicas, configs=tuple(configs.items()))
