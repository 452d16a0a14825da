"""Offsets committed in a group coordinator, and what it says is committed."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.coordination.groups.offsets.offset_records import (
    CommittedOffset,
    OffsetKey,
    decode_offset,
)
from drumlin.coordination.groups.shard.log import LoadedPartition
from drumlin.coordination.shards.pending_answer import Written
from drumlin.turns import to_end
from drumlin.wire.by_hand.commit_request import TopicOffsets
from drumlin.wire.error_codes import ErrorCode


class Position(NamedTuple):
    """What an OffsetFetch says of a partition that has a commit."""

    offset: int
    leader_epoch: int
    metadata: str


#: A partition, and what is committed for it, or why that is not said.
Found = tuple[int, Position | ErrorCode | None]


def position(
    topic: str,
    topic_id: UUID | None,
    partition: int,
    offset: int,
    leader_epoch: int = -1,
    metadata: str = "",
) -> TopicOffsets:
    """A single one."""
    texts = [metadata.encode()] if metadata else None
    return TopicOffsets(topic, topic_id, [partition], [offset], [leader_epoch], texts)


def commit_offsets(coordinator: GroupCoordinator, commit: Commit) -> Written[list[ErrorCode]]:
    """An OffsetCommit without other requests in between; raises the group's refusal."""
    return to_end(coordinator.commit(commit))


def loaded_offsets(loaded: LoadedPartition) -> dict[OffsetKey, CommittedOffset]:
    """What a partition that was loaded says is committed."""
    return {
        OffsetKey(group_id, topic, partition): decode_offset(value)
        for group_id, topics in loaded.offsets.items()
        for topic, values in topics.items()
        for partition, value in values.items()
    }


async def fetch_offsets(
    coordinator: GroupCoordinator,
    group_id: str,
    topics_asked: Sequence[tuple[str, Sequence[int]]] | None,
    **options: Any,
) -> list[tuple[str, list[Found]]]:
    """An OffsetFetch; raises the group's refusal."""
    await coordinator.all_confirmed()
    topics: list[tuple[str, list[Found]]] = []
    for piece in coordinator.committed_offsets(group_id, topics_asked, **options):
        if piece.begins:
            topics.append((piece.topic, []))
        for number, (partition, packed) in enumerate(
            zip(piece.partitions, piece.offsets, strict=True)
        ):
            code = ErrorCode.none if piece.codes is None else piece.codes[number]
            text = b"" if piece.metadata is None else piece.metadata[number]
            offset, leader_epoch = struct.unpack(">qi", packed)
            found = code or (None if offset < 0 else Position(offset, leader_epoch, text.decode()))
            topics[-1][1].append((partition, found))
    return topics
