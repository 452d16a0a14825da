"""Finds where to continue an input partition: at the position in its changelog. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from drumlin.state.changelog_format import Position
from drumlin.state.refused import StateRefused

if TYPE_CHECKING:
    from drumlin.client.admin.committed_offsets import OffsetAndMetadata
    from drumlin.client.topic_partition import TopicPartition


def offset_to_continue_from(
    place: TopicPartition,
    positions: tuple[Position, ...],
    committed: OffsetAndMetadata | None,
    own: Position,
    inputs: Collection[str],
    changelog: str,
) -> int | None:
    """The offset to continue from; None: there is neither a state nor a committed offset yet.

    Args:
        place: the input partition.
        positions: the positions in the changelog.
        committed: the group's committed offset.
        own: the group and input of this process.
        inputs: all inputs of this process.
        changelog: the name of the changelog.

    Raises:
        StateRefused: the state does not match the group, the input or the committed offset.
    """
    whose = f"group {own.group!r}, {place}"
    if not positions:
        if committed is None:
            return None
        raise StateRefused(
            f"{whose}: offset {committed.offset} is committed, but changelog {changelog!r} has no "
            "state for it. To start with an empty state, delete the group's offsets"
        )
    had = {each.topic for each in positions}
    told = next((each for each in positions if each.topic == own.topic), positions[0])
    if len(had) + len(inputs) > 2 and had != {*inputs}:
        raise StateRefused(
            f"changelog {changelog!r} belongs to the inputs {sorted(had)}, not to {sorted(inputs)}"
        )
    if not told.is_of_same(own):
        raise StateRefused(
            f"changelog {changelog!r} belongs to group {told.group!r} and topic {told.topic!r} "
            f"with id {told.topic_id}, not to {whose} with id {own.topic_id}: another state has "
            "the same name, or the topic was deleted and created again"
        )
    if committed is not None and committed.offset != told.offset:
        raise StateRefused(
            f"{whose}: offset {committed.offset} is committed, but the state is that of offset "
            f"{told.offset}: the group's offsets were reset. Reset them to the state's offset, or "
            "delete them to continue from the state, or delete also the changelog to start over"
        )
    return told.offset
