"""Produce, Fetch and what else is about the records of topics."""

from __future__ import annotations

import uuid
from typing import Any

from differential.rights.asking import Person, each_right
from differential.rights.places import KNOWN, MISSING, OTHER, OTHER_MISSING, PRODUCED, TOPICS
from differential.rights.users import NOBODY, ROOT
from rig.data.batches import batch

_EVERYTHING = 1 << 20
_TRANSACTIONAL = 0x10


def _each(**partition: Any) -> list[dict[str, Any]]:
    """One partition of each topic, under both names that topics have in requests."""
    return [{"name": name, "partitions": [partition]} for name in TOPICS]


def _by_id(person: Person, **partition: Any) -> list[dict[str, Any]]:
    return [{"topic_id": each, "partitions": [partition]} for each in person.place.ids]


def _to_fetch(**fields: Any) -> dict[str, Any]:
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": _EVERYTHING, "session_epoch": -1}
    return {"replica_id": -1, **limits, **fields}


_FETCHED = {
    "partition": 0,
    "current_leader_epoch": -1,
    "fetch_offset": 0,
    "log_start_offset": -1,
    "last_fetched_epoch": -1,
    "partition_max_bytes": _EVERYTHING,
}


@each_right("produce", "TX", [9, 13])
def test_produce(person: Person) -> None:
    if person.is_first:
        person.place.have_empty_topics(*PRODUCED)
    ids = person.place.topic_ids
    for name in PRODUCED:
        person.call(ids[name], f"id of {name}")
    good = {"index": 0, "records": batch(b"value")}
    partitions = [good, {"index": 7, "records": batch(b"value")}]
    topics = []
    for number, name in enumerate((*PRODUCED, MISSING, OTHER_MISSING)):
        named = {"name": name, "topic_id": ids.get(name, uuid.UUID(int=number))}
        topics.append(named | {"partition_data": partitions})
    for acks in (1, 7):
        person.note(f"acks={acks}")
        person.ask(acks=acks, timeout=1000, topic_data=topics)
    for records in (b"", b"not a batch"):
        person.note(f"{records!r}")
        topics = [each | {"partition_data": [{"index": 0, "records": records}]} for each in topics]
        person.ask(acks=1, timeout=1000, topic_data=topics)


@each_right("produce", "T")
def test_produce_of_nothing(person: Person) -> None:
    """Null in place of records. Apache Kafka does not answer those who may produce."""
    if person.name in (NOBODY, ROOT):
        ids = [person.place.topic_ids[name] for name in (KNOWN, OTHER)]
        for each in ids:
            data = {"topic_id": each, "partition_data": [{"index": 0, "records": None}]}
            person.note("null for records")
            person.ask(acks=1, timeout=1000, topic_data=[data], is_answered=False)


@each_right("produce", "TX")
def test_produce_in_a_transaction(person: Person) -> None:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    records = batch(b"value", extra_attributes=_TRANSACTIONAL, **producer)
    partition = {"index": 0, "records": records}
    topics = [
        {"topic_id": person.place.topic_ids[name], "partition_data": [partition]}
        for name in (KNOWN, OTHER)
    ]
    for transactional_id in ("a-txn", "txn", None):
        person.note(f"{transactional_id}")
        whose = {"transactional_id": transactional_id}
        person.ask(acks=-1, timeout=1000, topic_data=topics, **whose)


@each_right("fetch", "TC", [12])
def test_fetch(person: Person) -> None:
    topics = [{"topic": name, "partitions": [_FETCHED]} for name in TOPICS]
    person.ask(**_to_fetch(topics=topics))
    for replica_id in (1, 7):
        person.note(f"replica {replica_id}")
        person.ask(**_to_fetch(topics=topics, replica_id=replica_id))


@each_right("fetch", "TC")
def test_fetch_by_id(person: Person) -> None:
    topics = _by_id(person, **_FETCHED)
    person.ask(**_to_fetch(topics=topics))
    person.note("beyond the end")
    beyond = _FETCHED | {"fetch_offset": 1 << 40}
    person.ask(**_to_fetch(topics=_by_id(person, **beyond)))


@each_right("fetch", "T")
def test_fetch_session(person: Person) -> None:
    topics = _by_id(person, **_FETCHED)
    answer = person.ask(**_to_fetch(topics=topics, session_epoch=0))
    session = {"session_id": answer.session_id, "session_epoch": 1}
    person.note("again")
    person.ask(**_to_fetch(topics=[], **session))
    person.note("closed")
    person.ask(**_to_fetch(topics=[], **session | {"session_epoch": -1}))


@each_right("list_offsets", "TC")
def test_list_offsets(person: Person) -> None:
    for timestamp, replica_id in ((-1, -1), (-2, -1), (0, -1), (-99, -1), (-1, 7)):
        person.note(f"{timestamp}, {replica_id}")
        topics = _each(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
        person.ask(replica_id=replica_id, topics=topics)


@each_right("delete_records", "T")
def test_delete_records(person: Person) -> None:
    for offset in (0, -2, 1 << 40):
        person.note(f"{offset}")
        person.ask(topics=_each(partition_index=0, offset=offset), timeout=1000)


@each_right("offset_for_leader_epoch", "TC")
def test_offset_for_leader_epoch(person: Person) -> None:
    # Of an epoch that has not been, so that it does not matter what was appended before.
    partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 7}
    topics = [{"topic": name, "partitions": [partition]} for name in TOPICS]
    for replica_id in (-1, 7):
        person.note(f"replica {replica_id}")
        person.ask(replica_id=replica_id, topics=topics)


@each_right("describe_producers", "T")
def test_describe_producers(person: Person) -> None:
    topics = [{"name": name, "partition_indexes": [0, 7]} for name in (*TOPICS, "not/valid")]
    person.ask(topics=topics)
