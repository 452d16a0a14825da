"""A reset of a group: the plan that is shown, and the commit of exactly what was shown.

The plan is not kept here: the page sends it back with what the group had committed, and a group or
a log that has changed since is noticed. The client's rule says where the offsets go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from drumlin.client.admin import group_offsets, share_group_admin
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.admin.group_admin import GroupDescription
from drumlin.client.admin.reset_plan import Move, NothingCommitted, Target, planned, why_not_movable
from drumlin.client.errors import CommitFailed
from drumlin.client.places import OFFSET_MAX, Milliseconds
from drumlin.client.read.log_bounds import log_bounds
from drumlin.client.topic_partition import TopicPartition
from drumlin.console.answers.asking import Answer, exact
from drumlin.console.answers.topics import existing_topic
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.wire.error_codes import ErrorCode, KafkaError

PLACES_MAX: Final = 5_000
_TARGET: Final = re.compile(r"(offset|shift|time):([+-]?[0-9]{1,19})")
_WORDS: Final = ("earliest", "latest", "current")


class Changed(ValueError):
    """The group or a log is not what it was when the plan was shown."""


class NotMovable(ValueError):
    """The group has members, or none of the partitions that were asked for."""


def target_of(text: str) -> Target:
    """The target in a request: a word, or `offset:N`, `shift:N` or `time:MILLISECONDS`.

    Raises:
        ValueError: it is none.
    """
    if text in _WORDS:
        return Target(text)
    found = _TARGET.fullmatch(text)
    if found is None:
        raise ValueError(f"'to': {text!r} is none of {', '.join(_WORDS)}, offset:, shift:, time:")
    kind, number = found[1], int(found[2])
    if abs(number) > OFFSET_MAX or (number < 0 and kind != "shift"):
        raise ValueError(f"'to': there is no {kind} {number}")
    return Target("time", time=Milliseconds(number)) if kind == "time" else Target(kind, number)


async def plan(
    connections: BrokerConnections, group: str, topics: Sequence[str], target: Target
) -> Answer:
    """What a reset would do, by partition: of these topics, or of all that the group has committed.

    Raises:
        NotMovable: the group has members, or nothing to be moved.
        KafkaError: there is no such topic.
    """
    described = await _at_rest(connections, group)
    known = await group_offsets.positions_of(connections, described)
    places = list(known)
    if topics:
        found = [await existing_topic(connections, each) for each in topics]
        places = [TopicPartition(t.name, p.index) for t in found for p in t.partitions]
    if len(places) > PLACES_MAX:
        raise NotMovable(f"{len(places)} partitions: at most {PLACES_MAX} at once, name topics")
    try:
        moves = await planned(connections, group, places, target, known)
    except NothingCommitted as error:
        raise NotMovable(str(error)) from None
    if not moves:
        raise NotMovable(f"group {group!r} has committed nothing: name a topic to reset")
    return {
        "group": group,
        "state": described.state,
        "type": described.type,
        "moves": [_shown(place, moves[place]) for place in sorted(moves)],
        "gone": [list(place) for place in sorted(set(places) - moves.keys())],
    }


def _shown(place: TopicPartition, move: Move) -> Answer:
    """`skipped` and `again` are offsets that the group would leave out, or read another time."""
    old = None if move.old is None else move.old.offset
    step = 0 if old is None else move.new_offset - old
    return {
        "topic": place.topic,
        "partition": place.partition,
        "old_offset": None if old is None else exact(old),
        "new_offset": move.new_offset,
        "log_start_offset": move.log.start_offset,
        "end_offset": move.log.end_offset,
        "skipped": exact(max(step, 0)),
        "again": exact(max(-step, 0)),
        "remark": move.remark,
    }


async def reset(connections: BrokerConnections, group: str, shown: object) -> Answer:
    """Commit the moves of a plan: those that were shown.

    Raises:
        Changed: the group has committed or a log has moved since; nothing is committed.
        NotMovable: the group has members.
        CommitFailed: the coordinator refuses an offset; the others are committed.
    """
    moves = _moves(shown)
    described = await _at_rest(connections, group)
    known = await group_offsets.positions_of(connections, described)
    bounds = await log_bounds(connections, moves)
    for (topic, partition), (old, new) in moves.items():
        place, where = TopicPartition(topic, partition), f"topic {topic!r} partition {partition}"
        now = _offset(known, place)
        if now != old:
            why = f"{where}: the group has {_told(now)} now, and had {_told(old)}"
            raise Changed(f"{why} when the plan was made: nothing is reset, plan again")
        log = bounds.get(place)
        if log is None or log.clamp(new) != new:
            raise Changed(f"{where}: its log has no offset {new} now: nothing is reset, plan again")
    offsets = {each: new for each, (_, new) in moves.items()}
    try:
        await group_offsets.move(connections, described, offsets)
    except (CommitFailed, KafkaError):
        await _at_rest(connections, group)  # a member that has come meanwhile is the better reason
        raise
    return {"group": group, "partitions": len(moves)}


def _moves(shown: object) -> dict[TopicPartition, tuple[int | None, int]]:
    """The old and new offsets in a request."""
    if not isinstance(shown, list) or not 0 < len(shown) <= PLACES_MAX:
        raise ValueError(f"'moves': expected a list of 1 to {PLACES_MAX} moves")
    moves: dict[TopicPartition, tuple[int | None, int]] = {}
    for each in shown:
        row: Mapping[str, Any] = each if isinstance(each, dict) else {}
        topic, partition = row.get("topic"), row.get("partition")
        old, new = _number(row.get("old_offset")), row.get("new_offset")
        if (
            not isinstance(topic, str)
            or not _is_whole(partition, 2**31 - 1)
            or not _is_whole(new, OFFSET_MAX)
            or not (old is None or _is_whole(old, OFFSET_MAX))
        ):
            raise ValueError("'moves': expected topic, partition, old_offset and new_offset")
        assert isinstance(partition, int)
        assert old is None or isinstance(old, int)
        place = TopicPartition(topic, partition)
        if place in moves:
            raise ValueError(f"'moves': topic {topic!r} partition {partition} is there twice")
        moves[place] = (old, int(new or 0))
    return moves


def _number(value: object) -> object:
    """A number that came as text, as a browser would have rounded it; others as they are."""
    is_text = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20
    return int(str(value)) if is_text else value


def _is_whole(value: object, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= high


async def _at_rest(connections: BrokerConnections, group: str) -> GroupDescription:
    described = await share_group_admin.describe_group_of_any_kind(connections, group)
    why = why_not_movable(described, "reset")
    if why is not None:
        raise NotMovable(why)
    if described.state == "Dead":
        positions = await group_offsets.positions_of(connections, described)
        if not positions:
            raise KafkaError(ErrorCode.group_id_not_found, f"group {group!r}")
    return described


def _offset(known: Mapping[TopicPartition, OffsetAndMetadata], place: TopicPartition) -> int | None:
    found = known.get(place)
    return None if found is None else found.offset


def _told(offset: int | None) -> str:
    return "committed nothing" if offset is None else f"committed {offset}"
