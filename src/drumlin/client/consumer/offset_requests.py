"""OffsetCommit and OffsetFetch, sent once and read in whatever version was agreed on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final

from drumlin.client.consumer.coordinator_link import CoordinatorLink
from drumlin.client.consumer.membership import Credentials
from drumlin.client.consumer.positions import NO_EPOCH, OffsetAndMetadata
from drumlin.client.offsets import TopicPartition
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import Shape

_VERSION_MAX: Final = 9  # from 10 on topics go by id
_BROKER_DECIDES: Final = -1


async def commit_offsets(
    link: CoordinatorLink,
    credentials: Credentials,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> None:
    """
    Raises:
        KafkaError: one of the partitions was refused.
        PeerError: not answered; it may have been committed.
    """
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(offsets):
        by_topic[topic].append(partition)

    def partition_of(shape: Shape, topic: str, partition: int) -> object:
        each = offsets[topic, partition]
        return shape(
            "OffsetCommitRequestPartition",
            partition_index=partition,
            committed_offset=each.offset,
            committed_leader_epoch=each.leader_epoch,
            committed_metadata=each.metadata,
        )

    def build(shape: Shape) -> object:
        topics = [
            shape(
                "OffsetCommitRequestTopic",
                name=topic,
                partitions=tuple(partition_of(shape, topic, each) for each in partitions),
            )
            for topic, partitions in by_topic.items()
        ]
        return shape(
            "OffsetCommitRequest",
            group_id=credentials.group_id,
            generation_id_or_member_epoch=credentials.generation_id,
            member_id=credentials.member_id,
            group_instance_id=credentials.group_instance_id,
            retention_time=_BROKER_DECIDES,
            topics=tuple(topics),
        )

    response = await link.request("offset_commit", build, version_max=_VERSION_MAX)
    for topic in response.topics:
        for each in topic.partitions:
            where = f"offset_commit of topic {topic.name!r} partition {each.partition_index}"
            link.check(each.error_code, where)


async def fetch_offsets(
    link: CoordinatorLink,
    credentials: Credentials,
    places: Collection[TopicPartition],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """What is committed for `places`; those without are left out.

    Offsets that a transaction is about to commit are waited for: they are an error that passes.

    Raises:
        KafkaError: refused.
        PeerError: not answered.
    """
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(places):
        by_topic[topic].append(partition)

    def build(shape: Shape) -> object:
        has_groups = shape.has("OffsetFetchRequestGroup")
        kind = "OffsetFetchRequestTopics" if has_groups else "OffsetFetchRequestTopic"
        topics = tuple(
            shape(kind, name=topic, partition_indexes=tuple(partitions))
            for topic, partitions in by_topic.items()
        )
        groups: tuple[Any, ...] = ()
        if has_groups:
            groups = (
                shape(
                    "OffsetFetchRequestGroup",
                    group_id=credentials.group_id,
                    member_id=credentials.member_id or None,
                    member_epoch=credentials.generation_id,
                    topics=topics,
                ),
            )
        return shape(
            "OffsetFetchRequest",
            group_id=credentials.group_id,
            topics=topics,
            groups=groups,
            require_stable=True,
        )

    response = await link.request("offset_fetch", build, version_max=_VERSION_MAX)
    answer: Any = getattr(response, "groups", (response,))[0]
    what = f"offset_fetch of group {credentials.group_id!r}"
    link.check(getattr(answer, "error_code", ErrorCode.none), what)
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code is not ErrorCode.none:
                raise KafkaError(each.error_code, f"{what}: topic {topic.name!r}")
            if each.committed_offset >= 0:
                epoch = getattr(each, "committed_leader_epoch", NO_EPOCH)
                place = (topic.name, each.partition_index)
                found[place] = OffsetAndMetadata(each.committed_offset, each.metadata or "", epoch)
    return found
