"""The part of Kafka's metadata that is taken over, and the check for a single broker. Pure.

All configurations must be valid in Drumlin, too: otherwise records that must be kept might be
removed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from uuid import UUID

from drumlin.config.topic import parse_overrides
from drumlin.metadata.embedded.first_contents import FirstContents
from drumlin.metadata.image import PartitionState, Resource, ResourceType, TopicState
from drumlin.metadata.kraft.log import MetadataLog
from drumlin.metadata.kraft.state import KafkaPartition, KafkaTopic, led_by
from drumlin.metadata.names import check_topic_name
from drumlin.metadata.store.store import PRODUCER_ID_BLOCK_SIZE
from drumlin.records.batch.varint import INT64_MAX
from drumlin.storage.directory.partition_metadata import encode_uuid
from drumlin.wire.error_codes import KafkaError

_log = logging.getLogger(__name__)

#: Ids of log dirs below this one are reserved: they mean that a replica's log dir is unknown.
_FIRST_DIRECTORY_ID: Final = 100
_INT32_MAX: Final = 2**31 - 1
_REMOTE_STORAGE: Final = "remote.storage.enable"


class CannotTakeOver(Exception):
    """Kafka's metadata cannot be taken over; the message is for the operator."""


def inherit(log: MetadataLog) -> FirstContents:
    """The metadata to take over, with each partition in its next leader epoch.

    Raises:
        CannotTakeOver: a part of it is not supported here.
    """
    metadata = log.metadata
    if metadata.not_enforced:
        what = ", ".join(sorted(metadata.not_enforced))
        _log.warning("Kafka's metadata has %s, which are not taken over nor enforced here", what)
    topics = tuple(_topic(each) for each in metadata.topics.values())
    return FirstContents(
        topics,
        _configs(log, {each.name for each in topics}),
        _following(metadata.next_producer_id),
        # Deletions that are perhaps not committed must not remove anything.
        frozenset(metadata.deleted) if len(log.voters) == 1 else frozenset(),
    )


def _following(next_producer_id: int) -> int:
    if not next_producer_id:
        return 0
    # The log of a node that is not a controller may lack the last block.
    following = next_producer_id + PRODUCER_ID_BLOCK_SIZE
    if following > INT64_MAX - PRODUCER_ID_BLOCK_SIZE:
        raise CannotTakeOver(f"there are no producer ids after {next_producer_id}")
    return following


def _topic(topic: KafkaTopic) -> TopicState:
    try:
        check_topic_name(topic.name)
    except KafkaError as error:
        raise CannotTakeOver(f"topic {topic.name!r}: {error.message}") from error
    count = len(topic.partitions)
    if not count or topic.partitions.keys() != set(range(count)):
        raise CannotTakeOver(f"topic {topic.name} has partitions {sorted(topic.partitions)} only")
    for index, each in topic.partitions.items():
        if not 0 <= each.leader_epoch < _INT32_MAX:
            raise CannotTakeOver(
                f"{topic.name}-{index} has no leader epoch after {each.leader_epoch}"
            )
    partitions = tuple(_partition(index, topic.partitions[index]) for index in range(count))
    return TopicState(topic.name, topic.topic_id, partitions)


def _partition(index: int, partition: KafkaPartition) -> PartitionState:
    return PartitionState(
        index,
        led_by(partition),
        partition.leader_epoch + 1,
        partition.replicas,
        partition.complete,
        adding=partition.adding,
        removing=partition.removing,
    )


def _configs(log: MetadataLog, topics: set[str]) -> dict[Resource, Mapping[str, str]]:
    found: dict[Resource, Mapping[str, str]] = {}
    for (number, name), configs in log.metadata.configs.items():
        try:
            resource = Resource(ResourceType(number), name)
        except ValueError:
            _log.warning("configurations of type %d (%r) are not taken over", number, name)
            continue
        if resource.type is ResourceType.TOPIC:
            if name not in topics:
                continue
            _check(name, configs)
        found[resource] = dict(configs)
    return found


def _check(topic: str, configs: Mapping[str, str]) -> None:
    try:
        parsed = parse_overrides(configs)
    except KafkaError as error:
        raise CannotTakeOver(f"topic {topic}: {error.message}") from error
    if parsed.get(_REMOTE_STORAGE):
        raise CannotTakeOver(f"topic {topic} has records in remote storage ({_REMOTE_STORAGE})")


def alone(contents: FirstContents, node_id: int) -> FirstContents:
    """The contents for a single broker that has the only replica of each partition.

    Raises:
        CannotTakeOver: other brokers may have records that it lacks.
    """
    topics = tuple(
        replace(
            topic,
            partitions=tuple(_alone(topic, state, node_id) for state in topic.partitions),
        )
        for topic in contents.topics
    )
    return replace(contents, topics=topics)


def _alone(topic: TopicState, state: PartitionState, node_id: int) -> PartitionState:
    if state.isr != (node_id,):
        raise CannotTakeOver(
            f"{topic.name}-{state.index} is in sync on brokers {list(state.isr)} of "
            f"{list(state.replicas)}, and not on broker {node_id} alone: have Kafka move "
            f"all partitions to it first, or run 'drumlin cluster adopt'"
        )
    return replace(
        state, leader=node_id, replicas=(node_id,), isr=(node_id,), adding=(), removing=()
    )


def check_places(log: MetadataLog, node_id: int, known: frozenset[UUID]) -> None:
    """Check that all replicas of a broker are in log dirs with these ids.

    Raises:
        CannotTakeOver: a log dir is missing, so its partitions would be created again, empty.
    """
    for topic in log.metadata.topics.values():
        for index, partition in topic.partitions.items():
            if node_id not in partition.replicas or not partition.directories:
                continue
            count, known_count = len(partition.replicas), len(partition.directories)
            if count != known_count:
                raise CannotTakeOver(
                    f"{topic.name}-{index} has {count} replicas, in {known_count} log dirs"
                )
            place = partition.directories[partition.replicas.index(node_id)]
            if place.int >= _FIRST_DIRECTORY_ID and place not in known:
                raise CannotTakeOver(
                    f"{topic.name}-{index} lies in a log dir that is not given: none has "
                    f"directory.id {encode_uuid(place)}"
                )
