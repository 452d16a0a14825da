"""Keyed states of processes: the position that each commit of one writes into its changelog."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from drumlin.client.admin import admin, group_admin
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.read.log_bounds import LogBounds, log_bounds
from drumlin.client.topic_partition import TopicPartition
from drumlin.console.answers.asking import Answer, ask_each, ask_each_visible, exact
from drumlin.console.answers.pipelines.newest import newest_record
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import PeerError
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.wire.error_codes import ErrorCode, KafkaError

_SUFFIX: Final = "-changelog"
_STATES_MAX: Final = 100
_PARTITIONS_MAX: Final = 200
#: Of a changelog in the list: a partition without keys has no position.
_TRIED: Final = 4


class _Reached(NamedTuple):
    """The last commit of a partition: (group, topic, offset) of each input; or an error."""

    positions: tuple[Any, ...] = ()
    committed_ms: int | None = None
    error: str | None = None


async def states(connections: BrokerConnections) -> Answer:
    """All changelogs that this user may see. `group` is None if it is not of drumlin.state."""
    found = (await admin.look_up_topics(connections, None)).found
    names = sorted(each for each in found if each.endswith(_SUFFIX))
    shown = names[:_STATES_MAX]

    async def ask(name: str) -> list[_Reached]:
        tried = [TopicPartition(name, p.index) for p in found[name].partitions[:_TRIED]]
        return list(await asyncio.gather(*(_reached(connections, each) for each in tried)))

    reached = await ask_each(ask, shown)
    groups = {position.group for each in reached for one in each for position in one.positions}
    committed = await _committed(connections, groups)
    listed = {each.group: each.state for each in await group_admin.list_groups(connections)}
    places = {place for each in committed.values() for place in each}
    places |= {TopicPartition(name, p.index) for name in shown for p in found[name].partitions}
    bounds = await log_bounds(connections, places, led_only=True)
    return {
        "states": [
            _row(name, each, len(found[name].partitions), committed, bounds, listed)
            for name, each in zip(shown, reached, strict=True)
        ],
        "not_shown": len(names) - len(shown),
    }


async def state(connections: BrokerConnections, topic: str) -> Answer:
    """One state, by its changelog: the position of each partition, and what follows it.

    Raises:
        KafkaError: there is no such changelog, or this user may not see it.
    """
    found = (await admin.look_up_topics(connections, [topic])).found if topic else {}
    if topic not in found:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"there is no topic {topic!r}")
    places = [TopicPartition(topic, p.index) for p in found[topic].partitions[:_PARTITIONS_MAX]]
    reached = await ask_each(partial(_reached, connections), places)
    groups = {position.group for each in reached for position in each.positions}
    committed = await _committed(connections, groups)
    inputs = {
        TopicPartition(position.topic, place.partition)
        for place, each in zip(places, reached, strict=True)
        for position in each.positions
    }
    bounds = await log_bounds(connections, {*places, *inputs}, led_only=True)
    listed = {each.group: each.state for each in await group_admin.list_groups(connections)}
    rows = [
        row
        for place, each in zip(places, reached, strict=True)
        for row in _rows(place, each, committed, bounds)
    ]
    about = _row(topic, reached, len(found[topic].partitions), committed, bounds, listed)
    return {**about, "rows": rows, "not_shown": len(found[topic].partitions) - len(places)}


async def _reached(connections: BrokerConnections, place: TopicPartition) -> _Reached:
    """The position in the newest record: each transaction writes it last."""
    written = await asyncio.to_thread(importlib.import_module, "drumlin.state.changelog_format")
    try:
        record = await newest_record(connections, place)
        if record is None or record.key != written.POSITION_KEY or record.value is None:
            return _Reached()
        where = f"topic {place.topic!r} partition {place.partition}"
        return _Reached(written.read_positions(record.value, where), record.timestamp)
    except (CorruptRecord, KafkaError, PeerError, RuntimeError, ValueError) as error:
        return _Reached(error=str(error))


Committed = Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]


async def _committed(connections: BrokerConnections, groups: Iterable[str]) -> Committed:
    """The committed offsets of groups; without those that may not be seen."""
    return await ask_each_visible(partial(group_admin.fetch_committed, connections), groups)


def _row(
    topic: str,
    reached: Iterable[_Reached],
    partitions: int,
    committed: Committed,
    bounds: Mapping[TopicPartition, LogBounds],
    listed: Mapping[str, str | None],
) -> Answer:
    """A state in short. `lag` is the group's, as each commit has both its offsets and the state."""
    reached = list(reached)
    positions = [position for each in reached for position in each.positions]
    group = positions[0].group if positions else None
    inputs = sorted({each.topic for each in positions})
    offsets = [
        max(bounds[place].end_offset - each.offset, 0)
        for place, each in committed.get(group or "", {}).items()
        if place.topic in inputs and place in bounds
    ]
    own = [log for place, log in bounds.items() if place.topic == topic]
    name = topic.removesuffix(_SUFFIX)
    return {
        "topic": topic,
        "group": group,
        "state": name.removeprefix(f"{group}-") if group else name,
        "group_state": listed.get(group) if group else None,
        "inputs": inputs,
        "partitions": partitions,
        "offsets": sum(each.end_offset - each.start_offset for each in own),
        "lag": sum(offsets) if offsets else None,
        "committed_ms": max(
            (each.committed_ms for each in reached if each.committed_ms is not None), default=None
        ),
        "error": next((each.error for each in reached if each.error), None),
    }


def _rows(
    place: TopicPartition,
    reached: _Reached,
    committed: Committed,
    bounds: Mapping[TopicPartition, LogBounds],
) -> list[Answer]:
    """A row for each input of a partition, or one without input."""
    common = {
        "partition": place.partition,
        "committed_ms": reached.committed_ms,
        "changelog_offset": bounds[place].end_offset if place in bounds else None,
        "error": reached.error,
    }
    nothing = {"input": None, "offset": None, "end_offset": None, "lag": None, "group_offset": None}
    rows = []
    for each in reached.positions:
        at = TopicPartition(each.topic, place.partition)
        log, known = bounds.get(at), committed.get(each.group, {}).get(at)
        rows.append(
            {
                **common,
                "input": each.topic,
                "offset": exact(each.offset),
                "end_offset": None if log is None else log.end_offset,
                "lag": None if log is None else max(log.end_offset - each.offset, 0),
                "group_offset": None if known is None else exact(known.offset),
            }
        )
    return rows or [{**common, **nothing}]
