"""Where a partition of the input goes on: the position in the changelog decides. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumlin.state.changelog_format import Position
from drumlin.state.refused import StateRefused

if TYPE_CHECKING:
    from drumlin.client.admin.committed_offsets import OffsetAndMetadata
    from drumlin.client.topic_partition import TopicPartition


def offset_to_continue_from(
    place: TopicPartition,
    told: Position | None,
    committed: OffsetAndMetadata | None,
    own: Position,
    changelog: str,
) -> int | None:
    """The offset to continue from; None: neither state nor offset is there yet.

    Args:
        place: the partition of the input.
        told: its position in the changelog.
        committed: its offset in the group.
        own: group and input of this process.
        changelog: the name of the changelog.

    Raises:
        StateRefused: state and offsets do not belong together.
    """
    whose = f"group {own.group!r}, {place}"
    if told is None:
        if committed is None:
            return None
        raise StateRefused(
            f"{whose}: offset {committed.offset} is committed, and changelog {changelog!r} has no "
            "state of it. To begin with an empty state, delete the group's offsets"
        )
    if not told.is_of_same(own):
        raise StateRefused(
            f"changelog {changelog!r} is of group {told.group!r} and topic {told.topic!r} with id "
            f"{told.topic_id}, not of {whose} with id {own.topic_id}: another state has the same "
            "name, or the topic was deleted and made again"
        )
    if committed is not None and committed.offset != told.offset:
        raise StateRefused(
            f"{whose}: offset {committed.offset} is committed, and the state is that of offset "
            f"{told.offset}. Somebody has moved the group: move it back, or delete its offsets "
            "(then it goes on with the state), or those and the changelog (then it begins anew)"
        )
    return told.offset
