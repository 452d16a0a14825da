"""Captures of databases: the position and the definition that each keeps in a topic of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from drumlin.capture.errors import CaptureError
from drumlin.capture.log.names import Names, name_of, own_topic_pattern
from drumlin.capture.log.position import (
    DEFINITION_PARTITION,
    POSITION_PARTITION,
    Definition,
    Position,
    decode_definition,
    decode_position,
)
from drumlin.capture.messages.lsn import lsn_text
from drumlin.client.admin import admin
from drumlin.client.read.log_bounds import log_bounds
from drumlin.client.topic_partition import TopicPartition
from drumlin.client.transactions import descriptions
from drumlin.console.answers.asking import Answer, ask_each
from drumlin.console.answers.pipelines.newest import newest_record
from drumlin.console.answers.pipelines.read import Unreadable, read, texts, whole
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import PeerError
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.plain.record import Record
from drumlin.wire.error_codes import ErrorCode, KafkaError

T = TypeVar("T")

_CAPTURES_MAX: Final = 200
_TABLES_MAX: Final = 5_000


async def captures(connections: BrokerConnections) -> Answer:
    """All captures whose topics this user may see, with the last position of each."""
    pattern = re.compile(own_topic_pattern())
    found = (await admin.look_up_topics(connections, None)).found
    names = sorted(name_of(each) for each in found if pattern.fullmatch(each))

    async def ask(name: str) -> Answer:
        return (await _one(connections, name))[0]

    rows = await ask_each(ask, names[:_CAPTURES_MAX])
    return {"captures": rows, "not_shown": max(len(names) - _CAPTURES_MAX, 0)}


async def capture(connections: BrokerConnections, name: str) -> Answer:
    """One capture, with its tables and what their topics have.

    Raises:
        KafkaError: there is no such capture, or this user may not see it.
    """
    topic = _topic_of(name)
    found = (await admin.look_up_topics(connections, [topic])).found if topic else {}
    if topic not in found:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"there is no capture {name!r}")
    row, definition = await _one(connections, name)
    tables = [] if definition is None else list(definition.tables)[:_TABLES_MAX]
    ends = await _ends(connections, (each.topic for each in tables))
    return {
        **row,
        "tables": [
            {
                "table": each.full_name,
                "topic": each.topic,
                "is_read": each.is_read,
                "end_offsets": ends.get(each.topic),
            }
            for each in tables
        ],
        "transaction": await _transaction(connections, Names(name).transactional_id),
    }


def _topic_of(name: str) -> str | None:
    try:
        return Names(name).topic
    except CaptureError:
        return None


async def _one(connections: BrokerConnections, name: str) -> tuple[Answer, Definition | None]:
    """A capture; `error` says why its position is not known."""
    topic = Names(name).topic
    row: Answer = {"name": name, "topic": topic, "error": None, **_shown(None, None, None)}
    try:
        position_record, definition_record = await asyncio.gather(
            newest_record(connections, TopicPartition(topic, POSITION_PARTITION)),
            newest_record(connections, TopicPartition(topic, DEFINITION_PARTITION)),
        )
        position = _decoded(decode_position, position_record, _check_position)
        definition = _decoded(decode_definition, definition_record, _check_definition)
    except (CaptureError, CorruptRecord, KafkaError, PeerError, Unreadable) as error:
        return {**row, "error": str(error)}, None
    return {**row, **_shown(position, definition, position_record)}, definition


def _decoded(
    decode: Callable[[bytes], T], record: Record | None, check: Callable[[T], None]
) -> T | None:
    if record is None or record.value is None:
        return None
    return read(partial(decode, record.value), check)


def _check_position(position: Position) -> None:
    if position.counts is not None:
        whole(**position.counts._asdict())
    if position.binlog is not None:
        texts(gtids=position.binlog.gtids)


def _check_definition(definition: Definition) -> None:
    for each in definition.tables:
        texts(schema=each.schema, name=each.name, topic=each.topic)


def _shown(
    position: Position | None, definition: Definition | None, record: Record | None
) -> Answer:
    """`complete_ms`: the topics have every change that was committed by then, as the capture said
    when it wrote its position, at `written_ms`.
    """
    counts = None if position is None else position.counts
    return {
        "phase": _phase(position, definition),
        "position": None if position is None else _where(position),
        "written_ms": None if record is None else record.timestamp,
        "complete_ms": None if counts is None else counts.current_ms,
        "since_ms": None if counts is None else counts.since_ms,
        "records": None if counts is None else counts.records,
        "transactions": None if counts is None else counts.transactions,
        "restarts": None if counts is None else counts.restarts,
        "database": None if definition is None else definition.database,
        "form": None if definition is None else definition.form,
        "table_count": None if definition is None else len(definition.tables),
        "unread": None if definition is None else len(definition.unread),
    }


def _phase(position: Position | None, definition: Definition | None) -> str:
    if position is None:
        return "absent"
    if not position.is_complete:
        return "snapshot"
    return "paused" if definition is not None and definition.is_paused else "stream"


def _where(position: Position) -> str | None:
    if position.binlog is not None:
        return position.binlog.gtids
    return None if position.lsn is None else lsn_text(position.lsn)


async def _ends(connections: BrokerConnections, topics: Iterable[str]) -> dict[str, int]:
    """The sums of end offsets, by topic, as far as this user may see them."""
    wanted = set(topics)
    await connections.retrying(lambda: connections.refresh(None))
    places = [
        TopicPartition(name, index)
        for name in wanted & connections.view.topics.keys()
        for index in connections.view.topics[name].partitions
    ]
    sums: dict[str, int] = {}
    for place, log in (await log_bounds(connections, places, led_only=True)).items():
        sums[place.topic] = sums.get(place.topic, 0) + log.end_offset
    return sums


async def _transaction(connections: BrokerConnections, transactional_id: str) -> Answer | None:
    """The capture's open or last transaction; None if this user may not see it."""
    try:
        found = await descriptions.describe_one(connections, transactional_id)
    except (KafkaError, PeerError):
        return None
    if found is None:
        return None
    start = found.start_time
    return {
        "transactional_id": transactional_id,
        "state": found.state,
        "start_ms": None if start is None else round(start.timestamp() * 1000),
    }
