"""OffsetCommit, OffsetFetch and OffsetDelete: with and without members."""

from __future__ import annotations

import uuid
from typing import Any

from differential.groups.test_groups import join, member_of, sync
from differential.peer import Peer
from differential.scripts import differential, newest

_ALONE = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}


def _offset(index: int = 0, offset: int = 5, **fields: Any) -> dict[str, Any]:
    plain = {"partition_index": index, "committed_offset": offset, "committed_leader_epoch": -1}
    return plain | {"committed_metadata": "note"} | fields


def commit(peer: Peer, group: str, topic: str, *offsets: dict[str, Any], **fields: Any) -> None:
    """Commit in the version under test, or the newest with names."""
    version = None if peer.api == "offset_commit" else 9
    topics = [peer.topic_fields(topic) | {"partitions": list(offsets)}]
    request = _ALONE | {"group_id": group, "topics": topics, "retention_time": -1}
    peer.ask("offset_commit", version, **request | fields)


def committed(peer: Peer, group: str, *topics: str, partitions: tuple[int, ...] = (0, 1)) -> None:
    """Compare what is committed, told by the newest version with names."""
    entries = [{"name": each, "partition_indexes": list(partitions)} for each in topics]
    peer.ask("offset_fetch", 9, groups=[{"group_id": group, "topics": entries}])


@differential("offset_commit")
def test_commit_without_members(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.topic(partitions=2)
    peer.await_coordinator(group)
    commit(peer, group, topic, _offset(0), _offset(1, 7))
    commit(peer, group, topic, _offset(0, 6, committed_metadata=None))
    commit(peer, group, topic, _offset(0, 3, committed_metadata="", committed_leader_epoch=0))
    committed(peer, group, topic)
    peer.ask("describe_groups", 5, groups=[group])


@differential("offset_commit")
def test_commit_wrongly(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.topic()
    peer.await_coordinator(group)
    for offset in (_offset(1), _offset(-1), _offset(0, -1), _offset(0, -5), _offset(0, 2**63 - 1)):
        peer.note(str(offset))
        commit(peer, group, topic, offset)
    for size in (4096, 4097):
        commit(peer, group, topic, _offset(0, committed_metadata="x" * size))
    commit(peer, group, topic, _offset(0, 8), _offset(0, 9))
    commit(peer, group, topic)
    commit(peer, "", topic, _offset())
    commit(peer, group, topic, _offset(), generation_id_or_member_epoch=3)
    commit(peer, group, topic, _offset(), member_id=peer.keep("nobody"))
    if peer.version >= 7:
        commit(peer, group, topic, _offset(), group_instance_id="instance")
    committed(peer, group, topic)


@differential("offset_commit")
def test_commit_to_unknown_topics(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.topic()
    peer.await_coordinator(group)
    commit(peer, group, peer.unique("unknown"), _offset())
    commit(peer, group, "a b", _offset())
    unknown = peer.call(uuid.UUID(int=95), "an unknown id")
    entries = [
        {"name": peer.unique("unknown"), "topic_id": unknown, "partitions": [_offset()]},
        peer.topic_fields(topic) | {"partitions": [_offset()]},
    ]
    peer.ask(**_ALONE, group_id=group, topics=entries)
    peer.ask(**_ALONE, group_id=group, topics=[])


@differential("offset_commit")
def test_commit_as_a_member(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.topic()
    joined = member_of(peer, peer, group)
    me = {
        "generation_id_or_member_epoch": joined.generation_id,
        "member_id": joined.member_id,
    }
    commit(peer, group, topic, _offset(), **me)
    for wrong in (
        _ALONE,
        {"generation_id_or_member_epoch": joined.generation_id + 1},
        {"generation_id_or_member_epoch": -1},
        {"member_id": peer.keep("nobody")},
        {"member_id": ""},
        *([{"group_instance_id": "instance"}] if peer.version >= 7 else []),
    ):
        peer.note(str(list(wrong)))
        commit(peer, group, topic, _offset(0, 99), **me | wrong)
    committed(peer, group, topic)


@differential("offset_commit", versions=range(7, newest("offset_commit") + 1))
def test_commit_as_a_static_member(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.topic()
    peer.await_coordinator(group)
    instance = {"group_instance_id": "instance"}
    joined = join(peer, group, **instance)
    sync(peer, group, joined, **instance)
    me = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
    commit(peer, group, topic, _offset(), **me, **instance)
    other = {"member_id": peer.keep("nobody")}
    commit(peer, group, topic, _offset(), **me | other, **instance)
    commit(peer, group, topic, _offset(), **me, group_instance_id="another")


@differential("offset_commit", versions=[newest("offset_commit")])
def test_commit_while_the_group_rebalances(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.topic()
    peer.await_coordinator(group)
    joined = join(peer, group, join(peer, group).member_id)
    me = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
    commit(peer, group, topic, _offset(), **me)
    sync(peer, group, joined)
    commit(peer, group, topic, _offset(), **me)


def _ask(peer: Peer, group: str, topics: list[dict[str, Any]] | None, **fields: Any) -> None:
    """One group, in whichever way the version asks for it (KIP-709)."""
    named = topics if topics or peer.version >= 2 else []
    request = {"group_id": group, "topics": topics}
    if peer.version < 8:
        peer.ask(group_id=group, topics=named, **fields)
    else:
        peer.ask(groups=[request], **fields)


@differential("offset_fetch")
def test_fetch(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.topic(partitions=3)
    peer.await_coordinator(group)
    commit(peer, group, topic, _offset(0), _offset(1, 7, committed_leader_epoch=0))
    asked = peer.topic_fields(topic) | {"partition_indexes": [0, 1, 2, 3, -1]}
    _ask(peer, group, [asked])
    _ask(peer, group, [asked, asked])
    _ask(peer, group, [peer.topic_fields(topic)])
    _ask(peer, group, [])
    if peer.version >= 2:
        _ask(peer, group, None)
    if peer.version >= 7:
        _ask(peer, group, [asked], require_stable=True)


@differential("offset_fetch")
def test_fetch_what_is_not_there(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.topic()
    peer.await_coordinator(group)
    unknown = {
        "name": peer.unique("unknown"),
        "topic_id": peer.call(uuid.UUID(int=94), "an unknown id"),
        "partition_indexes": [0, 1],
    }
    known = peer.topic_fields(topic) | {"partition_indexes": [0]}
    for name in (group, peer.unique("other"), ""):
        _ask(peer, name, [unknown, known])
        if peer.version >= 2:
            _ask(peer, name, None)


@differential("offset_fetch", versions=range(8, newest("offset_fetch") + 1))
def test_fetch_of_several_groups(peer: Peer) -> None:
    first, second, topic = peer.unique("first"), peer.unique("second"), peer.topic()
    peer.await_coordinator(first)
    commit(peer, first, topic, _offset())
    asked = [peer.topic_fields(topic) | {"partition_indexes": [0]}]
    groups = [{"group_id": each, "topics": asked} for each in (first, second, "")]
    peer.ask(groups=groups)
    peer.ask(groups=[])
    peer.ask(groups=[groups[0], groups[0]])
    for fields in (
        {"member_id": peer.keep("nobody"), "member_epoch": 1},
        {"member_id": None, "member_epoch": 1},
        {"member_id": "", "member_epoch": 0},
    ):
        peer.note(str(fields))
        peer.ask(groups=[{"group_id": first, "topics": asked} | fields])


@differential("offset_fetch", versions=[2, 9, newest("offset_fetch")])
def test_fetch_after_the_topic_is_deleted(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.topic()
    peer.await_coordinator(group)
    commit(peer, group, topic, _offset())
    peer.ask("delete_topics", 6, topics=[{"name": topic, "topic_id": None}], timeout=10_000)
    peer.await_no_topic(topic)
    peer.await_no_offsets(group)
    _ask(peer, group, None)


def _delete(peer: Peer, group: str, topic: str, *partitions: int) -> None:
    entries = [{"partition_index": each} for each in partitions]
    peer.ask("offset_delete", 0, group_id=group, topics=[{"name": topic, "partitions": entries}])


@differential("offset_delete")
def test_delete(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.topic(partitions=3)
    peer.await_coordinator(group)
    _delete(peer, group, topic, 0)
    commit(peer, group, topic, _offset(0), _offset(1), _offset(2))
    _delete(peer, group, topic, 0)
    _delete(peer, group, topic, 0, 1, 9)
    committed(peer, group, topic, partitions=(0, 1, 2))
    _delete(peer, group, peer.unique("unknown"), 0)
    _delete(peer, peer.unique("other"), topic, 0)
    _delete(peer, "", topic, 0)
    _delete(peer, group, topic)
    _delete(peer, group, peer.unique("unknown"))
    peer.ask(group_id=group, topics=[])
    _delete(peer, group, topic, 2)
    peer.ask("describe_groups", 5, groups=[group])


@differential("offset_delete")
def test_delete_of_a_topic_named_twice(peer: Peer) -> None:
    """It is answered twice too, unless there is something that does not exist."""
    group, topic = peer.unique("group"), peer.topic(partitions=3)
    other, unknown = peer.topic("other"), peer.unique("unknown")
    peer.await_coordinator(group)
    for named in (
        ((topic, (0,)), (topic, (1,))),
        ((topic, (0,)), (topic, (0,))),
        ((topic, (0, 0, 1)),),
        ((topic, ()), (topic, (1,))),
        ((topic, (0,)), (other, (0,)), (topic, (2,))),
        ((topic, (0, 9)), (topic, (1, 9))),
        ((topic, (9,)), (topic, (1,))),
        ((topic, (1,)), (topic, (9,))),
        ((unknown, (0,)), (unknown, (0, 1))),
        ((unknown, ()), (topic, (0,)), (unknown, ()), (topic, (2,))),
    ):
        commit(peer, group, topic, _offset(0), _offset(1), _offset(2))
        peer.note(str(named))
        topics = [
            {"name": name, "partitions": [{"partition_index": each} for each in partitions]}
            for name, partitions in named
        ]
        peer.ask(group_id=group, topics=topics)
        committed(peer, group, topic, partitions=(0, 1, 2))


@differential("offset_delete")
def test_delete_of_what_a_member_subscribes(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.topic("t")
    metadata = b"\x00\x00\x00\x00\x00\x01" + len(topic).to_bytes(2, "big") + topic.encode()
    metadata += b"\xff\xff\xff\xff"
    protocols = [{"name": "range", "metadata": metadata}]
    joined = member_of(peer, peer, group, protocols=protocols)
    me = {"generation_id_or_member_epoch": joined.generation_id, "member_id": joined.member_id}
    commit(peer, group, topic, _offset(), **me)
    other = peer.topic("other")
    commit(peer, group, other, _offset(), **me)
    _delete(peer, group, topic, 0)
    _delete(peer, group, other, 0)
    committed(peer, group, topic, other, partitions=(0,))


@differential("init_producer_id")
def test_init_producer_id(peer: Peer) -> None:
    """Without a transactional id: always a new one, whatever else is said."""
    timeout = {"transaction_timeout": 60_000}
    peer.await_producer_ids()
    for _ in range(2):
        peer.ask(transactional_id=None, producer_id=-1, producer_epoch=-1, **timeout)
    if peer.version >= 3:
        peer.ask(transactional_id=None, producer_id=5, producer_epoch=3, **timeout)
        peer.ask(transactional_id=None, producer_id=5, producer_epoch=-1, **timeout)
        peer.ask(transactional_id=None, producer_id=-1, producer_epoch=3, **timeout)
    peer.ask(transactional_id=None, transaction_timeout=-1, producer_id=-1, producer_epoch=-1)
    peer.ask(transactional_id="", producer_id=-1, producer_epoch=-1, **timeout)
