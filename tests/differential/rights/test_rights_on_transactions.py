"""Producers' ids, transactions, and the markers that brokers send."""

from __future__ import annotations

from typing import Any

from differential.rights.asking import Person, each_right
from differential.rights.places import GROUPS, KNOWN, KNOWN_GROUP, OPEN, TOPICS
from differential.rights.users import NOBODY, ROOT

_IDS = ("a-txn", "txn")
_NO_PRODUCER = {"producer_id": 1 << 40, "producer_epoch": 0}
_NONE = {"producer_id": -1, "producer_epoch": -1}


@each_right("init_producer_id", "XCT", [1, 5])
def test_init_producer_id(person: Person) -> None:
    person.ask(transactional_id=None, transaction_timeout=60_000, **_NONE)
    person.note("an empty id")
    person.ask(transactional_id="", transaction_timeout=60_000, **_NONE)
    for name in _IDS:
        person.note(f"{name}, too long")
        person.ask(transactional_id=name, transaction_timeout=1 << 30, **_NONE)
        if person.version >= 3:
            person.note(f"{name}, of another producer")
            person.ask(transactional_id=name, transaction_timeout=60_000, **_NO_PRODUCER)


@each_right("init_producer_id", "X")
def test_a_transaction(person: Person) -> None:
    """A transaction from its beginning to its end."""
    name = person.own("whole")
    answer = person.ask(transactional_id=name, transaction_timeout=60_000, **_NONE)
    producer = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
    whose = {"transactional_id": name, **producer}
    person.ask("add_offsets_to_txn", group_id=KNOWN_GROUP, **whose)
    person.ask("end_txn", 4, committed=False, **whose)


@each_right("init_producer_id", "X", [6])
def test_two_phase_commit(person: Person) -> None:
    """A version that neither of the two serves."""
    if person.name in (NOBODY, ROOT):
        asked = {"transactional_id": "a-txn", "transaction_timeout": 60_000}
        person.ask(**asked, enable2_pc=True, **_NONE)


@each_right("txn_offset_commit", "XGT", [2, 4, 5])
def test_txn_offset_commit(person: Person) -> None:
    partitions = [
        {"partition_index": index, "committed_offset": 1, "committed_metadata": ""}
        for index in (0, 7)
    ]
    topics = [{"name": name, "partitions": partitions} for name in TOPICS]
    strange = {"generation_id": -1, "member_id": "", **_NO_PRODUCER}
    for name in _IDS:
        for group in GROUPS:
            person.note(f"{name}, {group}")
            person.ask(transactional_id=name, group_id=group, topics=topics, **strange)
    person.note("no topics")
    person.ask(transactional_id="a-txn", group_id=KNOWN_GROUP, topics=[], **strange)


@each_right("txn_offset_commit", "XGT", [3, 4, 5])
def test_offsets_of_a_transaction(person: Person) -> None:
    """Offsets that are committed in a transaction, which is aborted then."""
    partition = {"partition_index": 0, "committed_offset": 2, "committed_metadata": ""}
    topics = [{"name": name, "partitions": [partition]} for name in TOPICS]
    group = person.own("group-of-txn")
    with person.place.transaction(person.own("txn"), group) as producer:
        whose = {"group_id": group, "generation_id": -1, "member_id": "", **producer}
        person.ask(topics=topics, **whose)


def _of_transaction(name: str, topics: list[dict[str, Any]]) -> dict[str, Any]:
    whose = {"v3_and_below_transactional_id": name, "v3_and_below_topics": topics}
    producer = {f"v3_and_below_{field}": value for field, value in _NO_PRODUCER.items()}
    return whose | producer


@each_right("add_partitions_to_txn", "XT", [3])
def test_add_partitions_to_txn(person: Person) -> None:
    for name in _IDS:
        for names in (TOPICS, (KNOWN,), (KNOWN, "__consumer_offsets"), ()):
            person.note(f"{name}, {len(names)} topics")
            topics = [{"name": each, "partitions": [0]} for each in names]
            person.ask(**_of_transaction(name, topics))


@each_right("add_partitions_to_txn", "XTC")
def test_add_partitions_by_brokers(person: Person) -> None:
    topics = [{"name": each, "partitions": [0]} for each in TOPICS]
    for is_verified in (False, True):
        person.note(f"verified only: {is_verified}")
        transactions = [
            {"transactional_id": name, **_NO_PRODUCER, "verify_only": is_verified, "topics": topics}
            for name in _IDS
        ]
        person.ask(transactions=transactions)


@each_right("add_offsets_to_txn", "XG")
def test_add_offsets_to_txn(person: Person) -> None:
    for name in _IDS:
        for group in (*GROUPS, ""):
            person.note(f"{name}, {group}")
            person.ask(transactional_id=name, group_id=group, **_NO_PRODUCER)


@each_right("end_txn", "X", [4, 5])
def test_end_txn(person: Person) -> None:
    for name in (*_IDS, ""):
        person.note(name)
        person.ask(transactional_id=name, committed=True, **_NO_PRODUCER)


@each_right("write_txn_markers", "C")
def test_write_txn_markers(person: Person) -> None:
    missing = [{"name": name, "partition_indexes": [0]} for name in ("a-missing", "missing")]
    marker = {"transaction_result": False, "coordinator_epoch": 0, **_NO_PRODUCER}
    person.ask(markers=[marker | {"topics": missing}, marker | {"producer_id": 5, "topics": []}])


@each_right("describe_transactions", "XT")
def test_describe_transactions(person: Person) -> None:
    person.ask(transactional_ids=[*OPEN, "a-none", "none", ""])


@each_right("list_transactions", "X")
def test_list_transactions(person: Person) -> None:
    for fields in (
        {"transactional_id_pattern": ".*open"},
        {"transactional_id_pattern": ".*open", "state_filters": ["Ongoing", "no state"]},
        {"transactional_id_pattern": "("},
    ):
        person.note(f"{fields}")
        person.ask(duration_filter=-1, **fields)
