"""The format of a changelog, versions 1 and 2. Pure.

A changelog is a compacted topic, `<group>-<state>-changelog`, with as many partitions as the input;
partition N has the state of input partition N. Keys and values are the bytes of the state, and a
null value (a tombstone) deletes the key. One key of each partition is not part of the state:
POSITION_KEY. Its value is JSON with the format version, and the position in the input up to which
the state includes the records.

    {"format": 1, "group": "counts", "topic": "orders", "topic_id": "Ab...", "offset": 1234,
     "commit": "5f0c...-17"}

A state with several inputs has format 2, which lists them:

    {"format": 2, "group": "counts", "inputs": [{"topic": "orders", "topic_id": "Ab...",
     "offset": 1234}, ...], "commit": "5f0c...-17"}

Every transaction that writes to the partition includes this record. So state and position change
together: even if the group's offsets have expired or were reset, no record is counted twice or
skipped. `commit` is unique to each transaction: it lets a local store check that the log still has
the store's last transaction. All records of a transaction have the same timestamp, so the state at
a given time includes whole transactions only.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from drumlin.state.refused import StateRefused

#: The formats of a state with one input, and with several.
FORMATS: Final = (1, 2)
_PART: Final = ("topic", "topic_id", "offset")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
POSITION_KEY: Final = b"\x00drumlin.state"


class Position(NamedTuple):
    """The offset before which a group's state includes all records of an input partition."""

    group: str
    topic: str
    topic_id: str  # empty: the cluster has no topic ids
    offset: int

    def is_of_same(self, other: Position) -> bool:
        """Whether both belong to the same input and group; offsets are not compared."""
        names_are = (self.group, self.topic) == (other.group, other.topic)
        ids_may_be = not self.topic_id or not other.topic_id or self.topic_id == other.topic_id
        return names_are and ids_may_be


def changelog_name(group: str, state: str) -> str:
    """The name of a state's changelog topic."""
    return f"{group}-{state}-changelog"


def owner_id(group: str, state: str, group_instance_id: str | None) -> str:
    """The transactional id and the client id of a process, by which it is found in the group.

    A static member always has the same one, as the group may keep the client id of the process that
    was this member before; and so it fences that process.
    """
    if group_instance_id is None:
        own = uuid.uuid4()
    else:
        own = uuid.uuid5(uuid.NAMESPACE_OID, group_instance_id)
    return f"{group}-{state}-{own}"


def is_owner_id(transactional_id: str, group: str, state: str) -> bool:
    """Whether it is an `owner_id` of this state, and not of one whose name has this prefix."""
    found = transactional_id.removeprefix(f"{group}-{state}-")
    return found != transactional_id and _UUID.fullmatch(found) is not None


def position_value(positions: Sequence[Position], commit: str) -> bytes:
    """The value for POSITION_KEY.

    Args:
        positions: in each input, in the order of their names; all of one group.
        commit: identifies the transaction.
    """
    first = positions[0]
    told: dict[str, Any]
    if len(positions) == 1:
        told = {"format": 1, **first._asdict(), "commit": commit}
    else:
        inputs = [{name: getattr(each, name) for name in _PART} for each in positions]
        told = {"format": 2, "group": first.group, "inputs": inputs, "commit": commit}
    return json.dumps(told, separators=(",", ":")).encode()


def read_positions(value: bytes, where: str) -> tuple[Position, ...]:
    """Decode the value of POSITION_KEY: the position in each input.

    Raises:
        StateRefused: the value has a later format version, or is damaged.
    """
    try:
        told: Any = json.loads(value)
        version = told["format"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StateRefused(f"{where}: not a changelog of drumlin.state, or damaged") from None
    if version not in FORMATS:
        raise StateRefused(
            f"{where}: it has format {version!r}, but this version of Drumlin knows only {FORMATS}"
        )
    inputs = [told] if version == 1 else told.get("inputs")
    if not isinstance(inputs, list) or not all(isinstance(each, dict) for each in inputs):
        raise StateRefused(f"{where}: invalid position {told!r}")
    found = tuple(
        Position(told.get("group"), *(each.get(name) for name in _PART)) for each in inputs
    )
    for each in found:
        are_names = all(isinstance(part, str) for part in each[:-1])
        if not are_names or type(each.offset) is not int or each.offset < 0:
            raise StateRefused(f"{where}: invalid position {told!r}")
    if not found or len({each.topic for each in found}) < len(found):
        raise StateRefused(f"{where}: invalid position {told!r}")
    return found
