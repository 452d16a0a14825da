"""A position that a request of a client commits, in a transaction or not."""

from __future__ import annotations

from typing import Any, Final

from drumlin.coordination.groups.commit import Position
from drumlin.metadata.image import TopicState

_NO_LEADER_EPOCH: Final = -1


def position_of(topic: TopicState, part: Any) -> Position:
    """`part`: a partition in an OffsetCommit or TxnOffsetCommit request of any version."""
    return Position(
        topic.name,
        topic.topic_id,
        part.partition_index,
        part.committed_offset,
        getattr(part, "committed_leader_epoch", _NO_LEADER_EPOCH),
        part.committed_metadata or "",
    )
