"""Encoding of the messages between processes that share a store, as values for JSON. Pure.

Both sides run the same version of the program, so no other version has to be understood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from drumlin.metadata.image import (
    BrokerState,
    ClusterImage,
    Endpoint,
    LastKnown,
    LogEnd,
    PartitionId,
    PartitionState,
    Resource,
    ResourceType,
    TopicState,
)
from drumlin.metadata.rules.decisions import Target
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.rules.leadership import Returned
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: Deleted topics, each with the log dirs that may still have its folders; None: any log dir.
FoldersLeft = Mapping[UUID, tuple[str, ...] | None]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contents of a broker's store at its start."""

    image: ClusterImage
    deleted_topics: FoldersLeft
    deleted_ids: frozenset[UUID]
    is_new: bool
    last_broker_epoch: int | None


@dataclass(frozen=True, slots=True)
class Brokers:
    """The live brokers and the controller's id."""

    alive: tuple[BrokerState, ...]
    controller_id: int


@dataclass(frozen=True, slots=True)
class States:
    """New partitions of a topic, or new states of its partitions.

    `quiet_for`: a broker that already knows the change, and must not report it to listeners.
    """

    topic_id: UUID
    partitions: tuple[PartitionState, ...]
    quiet_for: int | None = None


def write_partitions(partitions: Iterable[PartitionState]) -> list[Any]:
    return [
        [
            each.index,
            each.leader,
            each.leader_epoch,
            each.replicas,
            each.isr,
            each.partition_epoch,
            each.adding,
            each.removing,
            each.elr,
            [[node_id, *log_end, complete] for node_id, log_end, complete in each.last_known],
            each.last_leader,
        ]
        for each in partitions
    ]


def read_partition(row: Sequence[Any]) -> PartitionState:
    index, leader, leader_epoch, replicas, isr, partition_epoch, adding, removing = row[:8]
    elr, last_known, last_leader = row[8:]
    return PartitionState(
        index,
        leader,
        leader_epoch,
        tuple(replicas),
        tuple(isr),
        partition_epoch,
        tuple(adding),
        tuple(removing),
        tuple(elr),
        tuple(
            LastKnown(node_id, LogEnd(epoch, end), complete)
            for node_id, epoch, end, complete in last_known
        ),
        last_leader,
    )


def _read_partitions(rows: Iterable[Any]) -> tuple[PartitionState, ...]:
    return tuple(map(read_partition, rows))


def write_topic(topic: TopicState) -> list[Any]:
    return [topic.name, topic.topic_id.hex, write_partitions(topic.partitions)]


def _read_topic(row: Sequence[Any]) -> TopicState:
    name, topic_id, partitions = row
    return TopicState(name, UUID(topic_id), _read_partitions(partitions))


def write_created(topic: TopicState, configs: Mapping[str, str]) -> list[Any]:
    return [write_topic(topic), dict(configs)]


def read_created(body: Any) -> tuple[TopicState, dict[str, str]]:
    return _read_topic(body[0]), body[1]


def write_states(states: States) -> list[Any]:
    return [states.topic_id.hex, write_partitions(states.partitions), states.quiet_for]


def read_states(body: Any) -> States:
    topic_id, partitions, quiet_for = body
    return States(UUID(topic_id), _read_partitions(partitions), quiet_for)


def write_broker(broker: BrokerState) -> list[Any]:
    endpoints = [[each.listener, each.host, each.port] for each in broker.endpoints]
    return [broker.node_id, broker.rack, endpoints, broker.epoch]


def read_broker(row: Sequence[Any]) -> BrokerState:
    node_id, rack, endpoints, epoch = row
    return BrokerState(node_id, rack, tuple(Endpoint(*each) for each in endpoints), epoch)


def write_brokers(image: ClusterImage) -> list[Any]:
    return [list(map(write_broker, image.brokers.values())), image.controller_id]


def read_brokers(body: Any) -> Brokers:
    return Brokers(tuple(map(read_broker, body[0])), body[1])


def write_resource(resource: Resource) -> list[Any]:
    return [int(resource.type), resource.name]


def read_resource(row: Sequence[Any]) -> Resource:
    return Resource(ResourceType(row[0]), row[1])


def write_configs(resource: Resource, configs: Mapping[str, str]) -> list[Any]:
    return [write_resource(resource), dict(configs)]


def read_configs(body: Any) -> tuple[Resource, dict[str, str]]:
    return read_resource(body[0]), body[1]


def write_folders(left: Mapping[UUID, Sequence[str] | None]) -> dict[str, Any]:
    return {
        topic_id.hex: None if log_dirs is None else list(log_dirs)
        for topic_id, log_dirs in left.items()
    }


def read_folders(body: Mapping[str, Any]) -> dict[UUID, tuple[str, ...] | None]:
    return {
        UUID(topic_id): None if log_dirs is None else tuple(log_dirs)
        for topic_id, log_dirs in body.items()
    }


def write_snapshot(snapshot: Snapshot) -> list[Any]:
    image = snapshot.image
    configs = [write_configs(each, image.configs(each)) for each in image.all_configured()]
    return [
        image.cluster_id,
        write_brokers(image),
        list(map(write_topic, image.topics.values())),
        configs,
        write_folders(snapshot.deleted_topics),
        [each.hex for each in snapshot.deleted_ids],
        snapshot.is_new,
        snapshot.last_broker_epoch,
    ]


def read_snapshot(body: Any) -> Snapshot:
    cluster_id, brokers, topics, configs, folders, deleted, is_new, last_epoch = body
    image = ClusterImage(cluster_id)
    known = read_brokers(brokers)
    image.controller_id = known.controller_id
    for broker in known.alive:
        image.put_broker(broker)
    for row in topics:
        image.put_topic(_read_topic(row))
    for row in configs:
        image.put_configs(*read_configs(row))
    deleted_ids = frozenset(map(UUID, deleted))
    return Snapshot(image, read_folders(folders), deleted_ids, is_new, last_epoch)


def write_partition_ids(partitions: Iterable[PartitionId]) -> list[Any]:
    return [[topic_id.hex, index] for topic_id, index in partitions]


def read_partition_ids(body: Iterable[Any]) -> list[PartitionId]:
    return [PartitionId(UUID(topic_id), index) for topic_id, index in body]


def write_lacking(lacking: Mapping[PartitionId, Returned]) -> list[Any]:
    return [
        [topic_id.hex, index, each.log_end, each.is_copy]
        for (topic_id, index), each in lacking.items()
    ]


def read_lacking(body: Iterable[Any]) -> dict[PartitionId, Returned]:
    return {
        PartitionId(UUID(topic_id), index): Returned(
            None if log_end is None else LogEnd(*log_end), is_copy
        )
        for topic_id, index, log_end, is_copy in body
    }


def write_targets(targets: Mapping[PartitionId, Target | None]) -> list[Any]:
    return [
        [topic_id.hex, index, None if target is None else list(target)]
        for (topic_id, index), target in targets.items()
    ]


def read_targets(body: Iterable[Any]) -> dict[PartitionId, Target | None]:
    return {PartitionId(UUID(topic_id), index): target for topic_id, index, target in body}


def write_isr_requests(requests: Mapping[PartitionId, IsrRequest]) -> list[Any]:
    return [
        [topic_id.hex, index, each.leader_epoch, each.partition_epoch, each.isr]
        for (topic_id, index), each in requests.items()
    ]


def read_isr_requests(body: Iterable[Any]) -> dict[PartitionId, IsrRequest]:
    requests = {}
    for topic_id, index, leader_epoch, partition_epoch, isr in body:
        members = tuple((node_id, epoch) for node_id, epoch in isr)
        request = IsrRequest(leader_epoch, partition_epoch, members)
        requests[PartitionId(UUID(topic_id), index)] = request
    return requests


def write_outcomes(outcomes: Iterable[PartitionState | KafkaError]) -> list[Any]:
    return [
        [int(each.code), each.message]
        if isinstance(each, KafkaError)
        else write_partitions([each])[0]
        for each in outcomes
    ]


def read_outcome(row: Sequence[Any]) -> PartitionState | KafkaError:
    if len(row) == 2:
        return KafkaError(ErrorCode(row[0]), row[1])
    return read_partition(row)
