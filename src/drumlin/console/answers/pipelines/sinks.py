"""Exactly-once sinks of Spark: the last batch that each has decided, and what it has open.

A sink keeps its last decision as a record in the decision topic, and a note of it beside the offset
that its group has committed.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from drumlin.client.admin import admin, group_admin
from drumlin.client.topic_partition import TopicPartition
from drumlin.client.transactions import descriptions
from drumlin.client.transactions.descriptions import TransactionDescription
from drumlin.console.answers.asking import Answer, ask_each
from drumlin.console.answers.pipelines.newest import Tail, record_at
from drumlin.console.answers.pipelines.read import Unreadable, read, texts, whole
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import PeerError
from drumlin.records.plain.record import Record
from drumlin.spark.writing.protocol import names
from drumlin.spark.writing.protocol.shown import open_by_sink, word_of
from drumlin.spark.writing.protocol.sink_errors import StateLost
from drumlin.spark.writing.protocol.state import Anchor, Note, SinkState
from drumlin.wire.error_codes import ErrorCode, KafkaError

_SINKS_MAX: Final = 1_000
#: Offsets are asked for group by group.
_ANCHORS_MAX: Final = 200
_OPEN_MAX: Final = 200
_PARTITIONS_MAX: Final = 100
_READ_BYTES: Final = 16 << 20
_READING_S: Final = 3.0
_ENDS_MAX: Final = 20_000
_ENDED: Final = ("CompleteAbort", "CompleteCommit", "Empty", "Dead")


async def sinks(connections: BrokerConnections) -> Answer:
    """The sinks that the default decision topic, groups and open transactions know.

    `is_whole` is False if the beginning of the decision topic was not read.
    """
    (records, is_whole, error), anchors, opened = await asyncio.gather(
        _decisions(connections), _anchors(connections), _open(connections)
    )
    every = sorted(records.keys() | anchors.keys() | opened.keys())
    topics = await _topic_names(connections)
    rows = [
        _row(each, records.get(each), anchors.get(each), opened.get(each, []), topics)
        for each in every[:_SINKS_MAX]
    ]
    return {
        "sinks": rows,
        "not_shown": max(len(every) - _SINKS_MAX, 0),
        "is_whole": is_whole,
        "error": error,
    }


async def sink(connections: BrokerConnections, name: str) -> Answer:
    """One sink, with what its decision says of the batch, and its open transactions.

    Raises:
        KafkaError: nothing is known of such a sink.
    """
    anchor = await _anchor(connections, names.check_sink(name))
    opened = (await _open(connections)).get(name, [])
    record = None
    if anchor is not None:
        record = await record_at(connections, anchor[0], anchor[1].offset)
    if record is None or _key(record) != name:
        record = (await _decisions(connections))[0].get(name)
    if record is None and anchor is None and not opened:
        raise KafkaError(
            ErrorCode.group_id_not_found,
            f"neither topic {names.DECISION_TOPIC!r} nor a group {names.group_of(name)!r} knows a "
            f"sink {name!r}",
        )
    row = _row(name, record, anchor, opened, await _topic_names(connections))
    state = None
    if record is not None and record.value is not None and row["error"] is None:
        state = SinkState.decode(name, record.value)
    return {
        **row,
        "winners": None if state is None else len(state.winners),
        "repairs": None if state is None else state.repairs,
        "refused": None if state is None else len(state.refused),
        "ends": "" if state is None else state.ends[:_ENDS_MAX],
        "transactions": [_shown(each, state) for each in opened[:_OPEN_MAX]],
    }


async def _decisions(
    connections: BrokerConnections,
) -> tuple[dict[str, Record], bool, str | None]:
    """The last record of each sink, whether all was read, and an error."""
    found: dict[str, Record] = {}
    tail = Tail(_READ_BYTES, _READING_S)
    place = TopicPartition(names.DECISION_TOPIC, 0)
    try:
        async for each in tail.newest_first(connections, place):
            name = _key(each)
            if names.is_sink(name):
                found.setdefault(name, each)
    except (KafkaError, PeerError) as error:
        is_missing = isinstance(error, KafkaError) and error.code in (
            ErrorCode.unknown_topic_or_partition,
            ErrorCode.unknown_topic_id,
        )
        return {}, is_missing, None if is_missing else str(error)
    return (
        {name: each for name, each in found.items() if each.value is not None},
        tail.is_whole,
        None,
    )


def _key(record: Record) -> str:
    return (record.key or b"").decode(errors="replace")


Place = tuple[TopicPartition, Anchor]


async def _anchors(connections: BrokerConnections) -> dict[str, Place]:
    """The committed offsets of sinks' groups, by sink; without those that may not be seen."""
    listed = await group_admin.list_groups(connections)
    found = [each.group.removeprefix(names.PREFIX) for each in listed if _is_group(each.group)]
    asked = found[:_ANCHORS_MAX]
    answers = await ask_each(partial(_anchor, connections), asked)
    return {name: each for name, each in zip(asked, answers, strict=True) if each is not None}


def _is_group(group: str) -> bool:
    return group.startswith(names.PREFIX) and names.is_sink(group.removeprefix(names.PREFIX))


async def _anchor(connections: BrokerConnections, name: str) -> Place | None:
    """The offset of the last decision; None if the group has none, or is not a sink's."""
    try:
        committed = await group_admin.fetch_committed(connections, names.group_of(name))
    except (KafkaError, PeerError):
        return None
    for place, each in committed.items():
        try:
            read(partial(Note.decode, name, each.metadata), lambda _: None)
        except (StateLost, Unreadable):
            continue
        return place, Anchor(each.offset, each.metadata)
    return None


async def _open(connections: BrokerConnections) -> dict[str, list[TransactionDescription]]:
    """The open transactions of tasks, by sink; those that this user may see."""
    try:
        listed = await descriptions.list_transactions(connections, states=("Ongoing",))
        ids = [each.transactional_id for each in listed]
        asked = [each for each in ids if names.parse_task_id(each) is not None][:_OPEN_MAX]
        described = await descriptions.describe(connections, asked) if asked else {}
    except (KafkaError, PeerError):
        return {}
    return open_by_sink(described.values())


async def _topic_names(connections: BrokerConnections) -> set[str]:
    return set((await admin.look_up_topics(connections, None)).found)


def _row(
    name: str,
    record: Record | None,
    anchor: Place | None,
    opened: Sequence[TransactionDescription],
    topics: set[str],
) -> Answer:
    """What is known of a sink; `error` says why a decision cannot be read."""
    state, error = _state(name, record, anchor)
    content = None if state is None else state.content
    return {
        "sink": name,
        "state": word_of(state) if error is None else "unreadable",
        "batch": None if state is None else state.batch,
        "query": None if state is None else state.query,
        "run": None if state is None else state.run,
        "rows": None if content is None else content.rows,
        "decided_ms": None if state is None or state.decided_ms < 0 else state.decided_ms,
        "written_ms": None if record is None else record.timestamp,
        "open_count": len(opened),
        "open_since_ms": opened[0].start_ms if opened else None,
        "topics": _topics(name, state, opened, topics),
        "decision_topic": names.DECISION_TOPIC if anchor is None else anchor[0].topic,
        "group": names.group_of(name) if anchor is not None else None,
        "error": error,
    }


def _state(
    name: str, record: Record | None, anchor: Place | None
) -> tuple[SinkState | None, str | None]:
    try:
        if record is not None and record.value is not None:
            return read(partial(SinkState.decode, name, record.value), _check), None
        if anchor is not None:
            note = Note.decode(name, anchor[1].metadata)
            return read(partial(SinkState.from_note, note), _check), None
    except (StateLost, Unreadable) as error:
        return None, str(error)
    return None, None


def _check(state: SinkState) -> None:
    whole(batch=state.batch, repairs=state.repairs, decided_ms=state.decided_ms)
    texts(query=state.query, run=state.run, ends=state.ends)
    for each in state.winners:
        texts(winner=each.transactional_id)
    if state.content is not None:
        whole(rows=state.content.rows)


def _topics(
    name: str,
    state: SinkState | None,
    opened: Iterable[TransactionDescription],
    existing: set[str],
) -> list[str]:
    """The topics of open transactions, and the one that the sink's own name ends with.

    Decisions do not name topics. By default a sink is called after its query and its topic.
    """
    found = {place.topic for place in itertools.chain.from_iterable(t.partitions for t in opened)}
    if state is not None and state.query and name.startswith(f"{state.query}."):
        found.add(name.removeprefix(f"{state.query}."))
    return sorted(found & existing)


def _shown(found: TransactionDescription, state: SinkState | None) -> Answer:
    winning = set() if state is None else {each.transactional_id for each in state.winners}
    return {
        "transactional_id": found.transactional_id,
        "since_ms": found.start_ms,
        "timeout_ms": found.timeout_ms,
        "partitions": [f"{t}-{p}" for t, p in found.partitions[:_PARTITIONS_MAX]],
        "partition_count": len(found.partitions),
        "is_winner": found.transactional_id in winning,
    }
