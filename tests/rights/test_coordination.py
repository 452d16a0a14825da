"""The rights that the APIs of coordinators ask for, one after the other: without one of them the
answer is its denial, with each that suffices it is that of a super user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from drumlin.broker.rights.acls import IMPLIED_BY, OPERATIONS, Kind, Operation
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.data.raw import RawClient
from rig.waiting import wait_until
from rights.granted import create_topic, granted
from rights.refusals import refusals

_TAF, _GAF, _CAF, _XAF = 29, 30, 31, 53
_NOT_ATTEMPTED = 55
#: Stands for the id of `_KNOWN`.
_ID = object()
_KNOWN, _MISSING, _GROUP, _TXN = "a-known", "a-missing", "a-group", "a-txn"
_SHARE_KEY = "a-group:AAAAAAAAAAAAAAAAAAAAAQ:0"
#: Stands for the name of who asks.
_SELF = object()
_SHARED = {"group_id": "a-shared", "member_id": _SELF}


class Right(NamedTuple):
    """One of `operations`; without it the answer has these codes."""

    kind: Kind
    operations: frozenset[Operation]
    denied: set[int]

    @property
    def others(self) -> list[tuple[Kind, Operation]]:
        """All that does not suffice."""
        return [(self.kind, each) for each in OPERATIONS[self.kind] if each not in self.operations]


def _right(kind: Kind, *operations: Operation, denied: int, others: int | None = None) -> Right:
    sufficient = {each for one in operations for each in (one, *IMPLIED_BY.get(one, ()))}
    denied_codes = {denied} if others is None else {denied, others}
    return Right(kind, frozenset(sufficient & {*OPERATIONS[kind]}), denied_codes)


class Row(NamedTuple):
    """A request, and the rights that are asked for, in this order."""

    api: str
    version: int
    fields: dict[str, Any]
    rights: tuple[Right, ...]


_READ_GROUP = _right(Kind.GROUP, Operation.READ, denied=_GAF)
_SEE_GROUP = _right(Kind.GROUP, Operation.DESCRIBE, denied=_GAF)
_DELETE_GROUP = _right(Kind.GROUP, Operation.DELETE, denied=_GAF)
_READ_TOPIC = _right(Kind.TOPIC, Operation.READ, denied=_TAF)
_SEE_TOPIC = _right(Kind.TOPIC, Operation.DESCRIBE, denied=_TAF)
_ADD_TOPIC = _right(Kind.TOPIC, Operation.WRITE, denied=_TAF)
_WRITE_TXN = _right(Kind.TRANSACTIONAL_ID, Operation.WRITE, denied=_XAF)
_SEE_TXN = _right(Kind.TRANSACTIONAL_ID, Operation.DESCRIBE, denied=_XAF)
_BE_BROKER = _right(Kind.CLUSTER, Operation.CLUSTER_ACTION, denied=_CAF)
_MARK = _right(Kind.CLUSTER, Operation.ALTER, Operation.CLUSTER_ACTION, denied=_CAF)
_HAVE_ID = _right(Kind.CLUSTER, Operation.IDEMPOTENT_WRITE, denied=_CAF)
_WRITE_ANY = _right(Kind.TOPIC, Operation.WRITE, denied=_CAF)


def _offsets(**topic: Any) -> dict[str, Any]:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    asked = {"group_id": _GROUP, "topics": [{"partitions": [partition], **topic}]}
    return {"generation_id_or_member_epoch": -1, **asked}


def _txn_offsets(name: str) -> dict[str, Any]:
    topics = _offsets(name=name)["topics"]
    return {"transactional_id": _TXN, "group_id": _GROUP, "producer_id": 1 << 40, "topics": topics}


def _group(**topic: Any) -> dict[str, Any]:
    topics = [{"partition_indexes": [0], **topic}]
    return {"groups": [{"group_id": _GROUP, "topics": topics}]}


def _state(**partition: Any) -> dict[str, Any]:
    partitions = [{"partition": 0, **partition}]
    return {"group_id": "a-state", "topics": [{"topic_id": _ID, "partitions": partitions}]}


_OF_KNOWN = [{"name": _KNOWN, "partitions": [0]}]
_MARKER = {
    "producer_id": 1 << 40,
    "topics": [{"name": _KNOWN, "partition_indexes": [0]}],
    "coordinator_epoch": 0,
}
_MEMBER = {"group_id": _GROUP, "member_id": "nobody"}
_HEARTBEAT = {"member_id": "nobody", "member_epoch": 5, "topic_partitions": None}
_JOIN = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
_SHARE_OFFSETS = [{"partition_index": 0, "start_offset": 0}]
_FETCHED = [{"topic_id": _ID, "partitions": [{"partition_index": 0}]}]
_PROTOCOL = {"protocol_type": "consumer", "protocol_name": "range"}

_ROWS = (
    Row("offset_commit", 9, _offsets(name=_KNOWN), (_READ_GROUP, _READ_TOPIC)),
    Row("offset_commit", 2, _offsets(name=_MISSING), (_READ_GROUP, _READ_TOPIC)),
    Row("offset_commit", 10, _offsets(topic_id=_ID), (_READ_GROUP, _READ_TOPIC)),
    Row("offset_commit", 10, _offsets(topic_id=UUID(int=9)), (_READ_GROUP,)),
    Row(
        "offset_fetch",
        1,
        {"group_id": _GROUP, "topics": [{"name": _KNOWN, "partition_indexes": [0]}]},
        (_SEE_GROUP, _SEE_TOPIC),
    ),
    Row(
        "offset_fetch",
        7,
        {"group_id": _GROUP, "topics": [{"name": _MISSING, "partition_indexes": [0]}]},
        (_SEE_GROUP, _SEE_TOPIC),
    ),
    Row("offset_fetch", 9, _group(name=_KNOWN), (_SEE_GROUP, _SEE_TOPIC)),
    Row("offset_fetch", 10, _group(topic_id=_ID), (_SEE_GROUP, _SEE_TOPIC)),
    Row("offset_fetch", 10, _group(topic_id=UUID(int=9)), (_SEE_GROUP,)),
    Row("find_coordinator", 3, {"key": _GROUP}, (_SEE_GROUP,)),
    Row("find_coordinator", 4, {"coordinator_keys": [_GROUP]}, (_SEE_GROUP,)),
    Row("find_coordinator", 4, {"coordinator_keys": [_TXN], "key_type": 1}, (_SEE_TXN,)),
    Row(
        "find_coordinator",
        6,
        {"coordinator_keys": [_SHARE_KEY], "key_type": 2},
        (_BE_BROKER,),
    ),
    Row("find_coordinator", 6, {"coordinator_keys": ["no key"], "key_type": 2}, (_BE_BROKER,)),
    Row("join_group", 9, _MEMBER | _JOIN, (_READ_GROUP,)),
    Row("sync_group", 5, _MEMBER | _PROTOCOL, (_READ_GROUP,)),
    Row("heartbeat", 4, _MEMBER, (_READ_GROUP,)),
    Row("leave_group", 2, _MEMBER, (_READ_GROUP,)),
    Row(
        "leave_group",
        5,
        {"group_id": _GROUP, "members": [{"member_id": "nobody"}] * 60},
        (_READ_GROUP,),
    ),
    Row("describe_groups", 6, {"groups": ["a-none"]}, (_SEE_GROUP,)),
    Row("delete_groups", 2, {"groups_names": ["a-none"]}, (_DELETE_GROUP,)),
    Row(
        "offset_delete",
        0,
        {
            "group_id": _GROUP,
            "topics": [{"name": _KNOWN, "partitions": [{"partition_index": 0}]}],
        },
        (_DELETE_GROUP, _READ_TOPIC),
    ),
    Row(
        "consumer_group_heartbeat",
        1,
        {"group_id": "a-new", "subscribed_topic_names": [_KNOWN], **_HEARTBEAT},
        (_READ_GROUP, _SEE_TOPIC),
    ),
    Row("consumer_group_describe", 1, {"group_ids": ["a-none"]}, (_SEE_GROUP,)),
    Row(
        "share_group_heartbeat",
        1,
        {**_SHARED, "member_epoch": 5, "subscribed_topic_names": [_MISSING]},
        (_READ_GROUP, _SEE_TOPIC),
    ),
    Row("share_group_describe", 1, {"group_ids": ["a-none"]}, (_SEE_GROUP,)),
    Row("share_fetch", 1, {**_SHARED, "topics": _FETCHED}, (_READ_GROUP, _READ_TOPIC)),
    Row(
        "share_fetch",
        1,
        {**_SHARED, "topics": [{"topic_id": _ID, "partitions": [{"partition_index": 99}]}]},
        (_READ_GROUP, _READ_TOPIC),
    ),
    Row("share_acknowledge", 1, {**_SHARED, "share_session_epoch": 7}, (_READ_GROUP,)),
    Row(
        "describe_share_group_offsets",
        1,
        {
            "groups": [
                {
                    "group_id": "a-shared",
                    "topics": [{"topic_name": _KNOWN, "partitions": [0]}],
                }
            ]
        },
        (_SEE_GROUP, _SEE_TOPIC),
    ),
    Row(
        "alter_share_group_offsets",
        0,
        {
            "group_id": "a-altered",
            "topics": [{"topic_name": _KNOWN, "partitions": _SHARE_OFFSETS}],
        },
        (_READ_GROUP, _READ_TOPIC),
    ),
    Row(
        "alter_share_group_offsets",
        0,
        {
            "group_id": "a-altered",
            "topics": [{"topic_name": _MISSING, "partitions": _SHARE_OFFSETS}],
        },
        (_READ_GROUP, _READ_TOPIC),
    ),
    Row(
        "delete_share_group_offsets",
        0,
        {"group_id": "a-altered", "topics": [{"topic_name": _MISSING}]},
        (_DELETE_GROUP, _READ_TOPIC),
    ),
    Row("initialize_share_group_state", 0, _state(), (_BE_BROKER,)),
    Row("read_share_group_state", 0, _state(), (_BE_BROKER,)),
    Row("write_share_group_state", 1, _state(), (_BE_BROKER,)),
    Row("read_share_group_state_summary", 1, _state(), (_BE_BROKER,)),
    Row("delete_share_group_state", 0, _state(), (_BE_BROKER,)),
    Row(
        "init_producer_id",
        4,
        {"transactional_id": _TXN, "producer_id": 5, "producer_epoch": 0},
        (_WRITE_TXN,),
    ),
    Row("init_producer_id", 4, {"producer_id": -1, "producer_epoch": -1}, (_HAVE_ID,)),
    Row("init_producer_id", 1, {"producer_id": -1, "producer_epoch": -1}, (_WRITE_ANY,)),
    Row(
        "add_partitions_to_txn",
        3,
        {"v3_and_below_transactional_id": _TXN, "v3_and_below_topics": _OF_KNOWN},
        (_WRITE_TXN, _ADD_TOPIC),
    ),
    Row(
        "add_partitions_to_txn",
        4,
        {"transactions": [{"transactional_id": _TXN, "producer_id": 1 << 40, "topics": []}]},
        (_BE_BROKER,),
    ),
    Row(
        "add_offsets_to_txn",
        3,
        {"transactional_id": _TXN, "group_id": _GROUP, "producer_id": 1 << 40},
        (_WRITE_TXN, _READ_GROUP),
    ),
    Row("end_txn", 5, {"transactional_id": _TXN, "producer_id": 1 << 40}, (_WRITE_TXN,)),
    Row("write_txn_markers", 1, {"markers": [_MARKER]}, (_MARK,)),
    Row("txn_offset_commit", 3, _txn_offsets(_KNOWN), (_WRITE_TXN, _READ_GROUP, _READ_TOPIC)),
    Row("txn_offset_commit", 5, _txn_offsets(_MISSING), (_WRITE_TXN, _READ_GROUP, _READ_TOPIC)),
    Row("describe_transactions", 0, {"transactional_ids": ["a-none"]}, (_SEE_TXN,)),
)


class Clients(NamedTuple):
    root: RawClient
    alice: RawClient
    topic_id: UUID


@pytest.fixture(scope="module")
def clients(secured: SecuredDrumlin) -> Iterator[Clients]:
    create_topic(secured, _KNOWN, 2)
    with secured.login("root") as root, secured.login("alice") as alice:
        topic = root.ask("metadata", 12, topics=[{"name": _KNOWN}]).topics[0]
        partitions = [{"partition_index": 1, "committed_offset": 1, "committed_metadata": ""}]
        kept = _offsets(name=_KNOWN, partitions=partitions)
        for kind, key in enumerate((_GROUP, _TXN, _SHARE_KEY)):
            root.ask("find_coordinator", 6, coordinator_keys=[key], key_type=kind)
        wait_until(lambda: not refusals(root.ask("offset_commit", 9, **kept)), "the coordinator")
        wanted = [{"topic_name": _KNOWN, "partitions": _SHARE_OFFSETS}]
        altering = {"group_id": "a-shared", "topics": wanted}
        assert not refusals(root.ask("alter_share_group_offsets", 0, **altering))
        yield Clients(root, alice, topic.topic_id)


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: f"{row.api}-{row.version}")
def test_each_right(secured: SecuredDrumlin, clients: Clients, row: Row) -> None:
    def codes(client: RawClient) -> set[int]:
        who = "root" if client is clients.root else "alice"
        fields = _filled(row.fields, {_ID: clients.topic_id, _SELF: who})
        return refusals(client.ask(row.api, row.version, **fields))

    allowed = codes(clients.root)
    assert not allowed & {_TAF, _GAF, _CAF, _XAF}
    assert codes(clients.alice) == row.rights[0].denied
    for number, right in enumerate(row.rights):
        with granted(secured, *_one_of_each(row.rights[:number])):
            assert codes(clients.alice) == right.denied, "the first right that is missing counts"
        rest = _one_of_each([each for each in row.rights if each is not right])
        with granted(secured, *rest, *right.others):
            assert codes(clients.alice) == right.denied
        for operation in sorted(right.operations | {Operation.ALL}):
            with granted(secured, *rest, (right.kind, operation)):
                assert codes(clients.alice) == allowed, operation.name


def _one_of_each(rights: Sequence[Right]) -> list[tuple[Kind, Operation]]:
    return [(each.kind, min(each.operations)) for each in rights]


def _filled(value: Any, known: Mapping[object, Any]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(each, known) for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, known) for each in value]
    return known.get(value, value)
