"""Checks for creating a topic or adding partitions, whatever the request.

CreateTopics, CreatePartitions, auto-creation and the internal topics all go through here. Once
the metadata has a topic, `hosting` gives it its logs.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.config.topic import validate_overrides
from drumlin.metadata import names as metadata_names
from drumlin.metadata.names import (
    CLUSTER_METADATA,
    check_no_collision,
    check_topic_name,
)
from drumlin.metadata.rules.assignments import (
    Replicas,
    check_assignments,
    check_replicas,
    spread_replicas,
    start_after,
)
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.broker.parts.parts import BrokerData
    from drumlin.config.broker import BrokerConfig
    from drumlin.metadata.image import TopicState

_log = logging.getLogger(__name__)

DEFAULT: Final = -1
#: So that one request cannot make more folders and files than the machine takes.
PARTITIONS_PER_REQUEST_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class TopicWish:
    """A topic as requested; `DEFAULT` and no assignments leave the choice to us."""

    name: str
    partition_count: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: tuple[tuple[int, Sequence[int]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()

    def count(self, config: BrokerConfig) -> int:
        """Partitions that it would have."""
        if self.assignments:
            return len(self.assignments)
        if self.partition_count == DEFAULT:
            return config.num_partitions
        return max(self.partition_count, 0)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that may be created."""

    name: str
    assignment: tuple[Replicas, ...]
    configs: Mapping[str, str]


def check_partition_total(broker: BrokerData, wishes: Iterable[TopicWish]) -> None:
    """Refuse a request that asks for too much at once.

    Raises:
        KafkaError: POLICY_VIOLATION.
    """
    if sum(wish.count(broker.config) for wish in wishes) > PARTITIONS_PER_REQUEST_MAX:
        raise _too_many()


def _too_many() -> KafkaError:
    message = f"a request can create {PARTITIONS_PER_REQUEST_MAX} partitions at most"
    return KafkaError(ErrorCode.policy_violation, message)


def plan_topic(broker: BrokerData, wish: TopicWish) -> TopicPlan:
    """Check a wish and fill in what it leaves open.

    Raises:
        KafkaError: whatever is wrong with it, in Kafka's order.
    """
    if wish.name == CLUSTER_METADATA:
        message = f"{CLUSTER_METADATA} cannot be created by a client"
        raise KafkaError(ErrorCode.invalid_request, message)
    check_topic_name(wish.name)
    image = broker.metadata.image
    if wish.name in image.topics:
        message = f"there is a topic {wish.name} already"
        raise KafkaError(ErrorCode.topic_already_exists, message)
    check_no_collision(wish.name, image.colliding_names(wish.name))
    configs = _check_configs(broker, wish)
    return TopicPlan(wish.name, _assign(broker, wish), configs)


def _check_configs(broker: BrokerData, wish: TopicWish) -> dict[str, str]:
    nulls = [name for name, value in wish.configs if value is None]
    if nulls:
        message = f"no value is given for {', '.join(nulls)}"
        raise KafkaError(ErrorCode.invalid_config, message)
    configs = {name: value for name, value in wish.configs if value is not None}
    validate_overrides(configs, broker.config.topic_defaults())
    return configs


def _assign(broker: BrokerData, wish: TopicWish) -> tuple[Replicas, ...]:
    brokers = _open_brokers(broker)
    if wish.assignments:
        if wish.replication_factor != DEFAULT:
            message = "where replicas are assigned, the replication factor must be -1"
            raise KafkaError(ErrorCode.invalid_request, message)
        if wish.partition_count != DEFAULT:
            message = "where replicas are assigned, the number of partitions must be -1"
            raise KafkaError(ErrorCode.invalid_request, message)
        return check_assignments(wish.assignments, brokers)
    if wish.replication_factor < DEFAULT or wish.replication_factor == 0:
        message = "the replication factor must be at least 1, or -1 for the default"
        raise KafkaError(ErrorCode.invalid_replication_factor, message)
    if wish.partition_count < DEFAULT or wish.partition_count == 0:
        message = "the number of partitions must be at least 1, or -1 for the default"
        raise KafkaError(ErrorCode.invalid_partitions, message)
    replication_factor = wish.replication_factor
    if replication_factor == DEFAULT:
        replication_factor = broker.config.default_replication_factor
    count = wish.count(broker.config)
    start = random.randrange(max(len(brokers), 1))
    return spread_replicas(_racks(broker, brokers), count, replication_factor, start)


def _racks(broker: BrokerData, brokers: Iterable[int]) -> dict[int, str | None]:
    known = broker.metadata.image.brokers
    return {node_id: known[node_id].rack for node_id in brokers}


def _open_brokers(broker: BrokerData) -> Collection[int]:
    """The brokers that new partitions may be placed on.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR, as no broker is left.
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
    """Replicas of the partitions that a topic needs to have `count` of them.

    Raises:
        KafkaError: whatever is wrong with the wish.
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
    """How many partitions a topic is to have, and for how many of them replicas are given."""

    name: str
    partitions: int
    assigned: int | None


async def check_added_total(broker: BrokerData, wishes: Iterable[Growth]) -> None:
    """Like `check_partition_total`; what `plan_partitions` refuses for its numbers does not count.

    Raises:
        KafkaError: POLICY_VIOLATION.
    """
    topics, total = broker.metadata.image.topics, 0
    for name, count, assigned in wishes:
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
        KafkaError: it cannot be created.
    """
    wish = _automatic_wish(broker.config, name)
    try:
        await create_topic(broker, plan_topic(broker, wish))
    except KafkaError as error:
        if error.code is not ErrorCode.topic_already_exists:
            raise
    else:
        _log.info("created topic %s, as a client asked for it by name", name)


def _automatic_wish(config: BrokerConfig, name: str) -> TopicWish:
    """With the defaults, but for Kafka's own topics."""
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
            # Its coordinator removes what is superseded by itself, as Apache Kafka's does.
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
            return TopicWish(name)
    configs["segment.bytes"] = str(segment_bytes)
    return TopicWish(name, count, replicas, configs=tuple(configs.items()))
