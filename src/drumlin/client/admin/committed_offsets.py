"""Committed offsets: OffsetCommit and OffsetFetch requests, and the parsing of their responses.

Sends nothing: the callers (members of groups, and administration) send requests to a coordinator
and handle its refusals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from drumlin.client import arguments
from drumlin.client.places import OFFSET_MAX
from drumlin.client.read.offsets import by_topic
from drumlin.client.topic_partition import AnyPartition, TopicPartition, by_partition
from drumlin.peer.peer_error import only
from drumlin.wire.embedded_protocol import NO_GENERATION
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from drumlin.wire.protocol.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from drumlin.wire.schema.declaration import Message

T = TypeVar("T")

NO_EPOCH: Final = -1
NAMES_UP_TO: Final = 9  # later versions of both requests name topics by id

#: Called with an error code and a description of the request: raises unless the code is "none".
_FETCH: Final = "offset_fetch"
Check = Callable[[str, ErrorCode, str], None]


class OffsetAndMetadata(NamedTuple):
    """An offset to continue from, and the leader epoch of the record before it (-1: unknown)."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


class GroupMetadata(NamedTuple):
    """The member that commits. By default none: then the group must be empty.

    The offsets of a member that commits periodically must not be committed by transactions too.
    """

    group_id: str
    generation_id: int = NO_GENERATION  # member epoch in KIP-848's protocol
    member_id: str = ""
    group_instance_id: str | None = None
    commits_periodically: bool = False


def to_commit(
    offsets: Mapping[AnyPartition, int | OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets to commit, from a caller's argument.

    Raises:
        TypeError, ValueError: a key is not a partition, or a value not an offset.
    """
    found = {
        place: each if isinstance(each, OffsetAndMetadata) else OffsetAndMetadata(each)
        for place, each in by_partition(offsets).items()
    }
    for place, each in found.items():
        arguments.whole_number(f"the offset of {place}", each.offset, 0, OFFSET_MAX)
    return found


def commit_request(
    who: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> Message:
    """OffsetCommit of all `offsets`."""
    return OffsetCommitRequest(
        group_id=who.group_id,
        generation_id_or_member_epoch=who.generation_id,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
        topics=offset_topics(OffsetCommitRequestTopic, OffsetCommitRequestPartition, offsets),
    )


def offset_topics(
    topic_class: Callable[..., T],
    partition_class: Callable[..., object],
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> tuple[T, ...]:
    """The topics of an OffsetCommit or a TxnOffsetCommit, which have the same fields."""

    def partition_of(topic: str, partition: int) -> object:
        each = offsets[TopicPartition(topic, partition)]
        return partition_class(
            partition_index=partition,
            committed_offset=each.offset,
            committed_leader_epoch=each.leader_epoch,
            committed_metadata=each.metadata,
        )

    return tuple(
        topic_class(
            name=topic,
            partitions=tuple(partition_of(topic, each) for each in partitions),
        )
        for topic, partitions in by_topic(offsets).items()
    )


def refused_commits(response: Any) -> Iterator[tuple[TopicPartition, ErrorCode]]:
    """The partitions for which an OffsetCommit was refused, with the error codes."""
    for topic in response.topics:
        for each in topic.partitions:
            if each.error_code is not ErrorCode.none:
                yield TopicPartition(topic.name, each.partition_index), each.error_code


def fetch_request(
    who: GroupMetadata,
    places: Collection[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> Message:
    """OffsetFetch for `places`, or for all committed offsets of the group.

    With `require_stable` the request fails with a retriable error while an open transaction has
    offsets of the group.
    """
    group = OffsetFetchRequestGroup(
        group_id=who.group_id,
        member_id=who.member_id or None,
        member_epoch=who.generation_id,
        topics=_named(OffsetFetchRequestTopics, places),
    )
    return OffsetFetchRequest(
        group_id=who.group_id,
        topics=_named(OffsetFetchRequestTopic, places),
        groups=(group,),
        require_stable=require_stable,
    )


def _named(
    topic_class: Callable[..., T], places: Collection[TopicPartition] | None
) -> tuple[T, ...] | None:
    if places is None:
        return None
    return tuple(
        topic_class(name=topic, partition_indexes=tuple(partitions))
        for topic, partitions in by_topic(places).items()
    )


def fetched_offsets(
    response: Any, group_id: str, check: Check
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Committed offsets in an OffsetFetch response; partitions without one are left out."""
    what = f"offset_fetch of group {group_id!r}"
    is_one = response.groups is None  # older versions return a single group
    answer: Any = only((response,) if is_one else response.groups, what)
    check(_FETCH, answer.error_code, what)
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            where = f"{what}: topic {topic.name!r} partition {each.partition_index}"
            check(_FETCH, each.error_code, where)
            if each.committed_offset >= 0:
                epoch = each.committed_leader_epoch
                place = TopicPartition(topic.name, each.partition_index)
                found[place] = OffsetAndMetadata(each.committed_offset, each.metadata or "", epoch)
    return found
