"""The format of a changelog, version 1. Pure.

A changelog is a compacted topic, `<group>-<state>-changelog`, with as many partitions as the input;
partition N has the state of the input's partition N. Keys and values are the state's own bytes, and
a null value deletes the key. One record of each partition is not part of the state: the one with
POSITION_KEY. Its value is JSON with the format's version, and the position up to which the state
includes the input.

    {"format": 1, "group": "counts", "topic": "orders", "topic_id": "Ab...", "offset": 1234,
     "commit": "5f0c...-17"}

Every transaction that concerns the partition has it, so that state and position change together:
even if the group's offsets have expired or were moved, no record counts twice or not at all.
`commit` is different in every transaction, so that a local store can tell whether a log has the
transaction that it has. All records of a transaction have one timestamp, so that the state at a
time never has a part of it.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from drumlin.state.refused import StateRefused

FORMAT: Final = 1
POSITION_KEY: Final = b"\x00drumlin.state"


class Position(NamedTuple):
    """The position in an input partition up to which a group's state includes its records."""

    group: str
    topic: str
    topic_id: str  # empty: the cluster has no topic ids
    offset: int

    def is_of_same(self, other: Position) -> bool:
        """Whether both are of the same input and group, at any offsets."""
        names_are = (self.group, self.topic) == (other.group, other.topic)
        ids_may_be = not self.topic_id or not other.topic_id or self.topic_id == other.topic_id
        return names_are and ids_may_be


def changelog_name(group: str, state: str) -> str:
    """The name of a state's changelog topic."""
    return f"{group}-{state}-changelog"


def position_value(position: Position, commit: str) -> bytes:
    """The value of the record with POSITION_KEY; `commit` names its transaction."""
    told = {"format": FORMAT, **position._asdict(), "commit": commit}
    return json.dumps(told, separators=(",", ":")).encode()


def read_position(value: bytes, where: str) -> Position:
    """The position in the record with POSITION_KEY.

    Raises:
        StateRefused: the record is of a later version, or damaged.
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
