"""The format of a changelog, version 1. Pure.

A changelog is a compacted topic, `<group>-<state>-changelog`, with as many partitions as the input;
partition N has the state of the input's partition N. Keys and values are those of the state as they
are, and a null value deletes the key. One record of each partition is no part of the state, that
of POSITION_KEY: JSON that says which version this is, and up to where the input has been taken
into the state.

    {"format": 1, "group": "counts", "topic": "orders", "topic_id": "Ab...", "offset": 1234}

It is in every transaction that concerns the partition, so that state and position are one: neither
a group whose offsets have expired, nor one whose offsets were moved, makes records count twice
or not at all.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from drumlin.state.refused import StateRefused

FORMAT: Final = 1
POSITION_KEY: Final = b"\x00drumlin.state"


class Position(NamedTuple):
    """Up to where an input partition has been taken into the state of a group."""

    group: str
    topic: str
    topic_id: str  # empty: the cluster has none
    offset: int

    def is_of_same(self, other: Position) -> bool:
        """Whether both are of the same input and group, wherever they are."""
        names_are = (self.group, self.topic) == (other.group, other.topic)
        ids_may_be = not self.topic_id or not other.topic_id or self.topic_id == other.topic_id
        return names_are and ids_may_be


def changelog_name(group: str, state: str) -> str:
    """The topic that is the state's memory."""
    return f"{group}-{state}-changelog"


def position_value(position: Position) -> bytes:
    """The value of the record that says so."""
    told = {"format": FORMAT, **position._asdict()}
    return json.dumps(told, separators=(",", ":")).encode()


def read_position(value: bytes, where: str) -> Position:
    """The position that a changelog tells.

    Raises:
        StateRefused: it is of a later version, or damaged.
    """
    try:
        told: Any = json.loads(value)
        version = told["format"]
    except (ValueError, TypeError, KeyError):
        raise StateRefused(f"{where}: no changelog of drumlin.state, or damaged") from None
    if version != FORMAT:
        raise StateRefused(
            f"{where}: it has format {version!r}, and this version of Drumlin knows {FORMAT} only"
        )
    position = Position(
        told.get("group"), told.get("topic"), told.get("topic_id"), told.get("offset")
    )
    are_names = all(isinstance(each, str) for each in position[:-1])
    if not are_names or type(position.offset) is not int or position.offset < 0:
        raise StateRefused(f"{where}: its position {told!r} is none")
    return position
