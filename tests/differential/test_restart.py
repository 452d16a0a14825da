"""What both brokers still know after a clean restart: logs, producers, groups, configurations."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from differential.compare import Step
from differential.groups.test_groups import join, member_of, sync
from differential.now import NOW
from differential.peer import Peer
from differential.scripts import Broker, Brokers, newest
from rig.data.batches import Batch, Rec, batch

_PRODUCER = 9001


class _Kept(NamedTuple):
    """What a script needs of its first half in its second."""

    topic: str
    group: str
    static: Any
    dynamic: Any


def _sequenced(sequence: int, epoch: int = 1) -> bytes:
    records = (Rec(b"%d" % sequence, timestamp_delta=sequence),)
    producer = {"producer_id": _PRODUCER, "producer_epoch": epoch, "base_sequence": sequence}
    return Batch(records, timestamp=NOW, **producer).encode()


def _produce(peer: Peer, topic: str, data: bytes) -> None:
    entry = {"name": topic, "partition_data": [{"index": 0, "records": data}]}
    peer.ask("produce", 12, acks=-1, timeout=10_000, topic_data=[entry])


def _commit(peer: Peer, group: str, topic: str, offset: int, **member: Any) -> None:
    alone = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": 0,
        "committed_metadata": "note",
    }
    topics = [{"name": topic, "partitions": [partition]}]
    peer.ask("offset_commit", 9, group_id=group, topics=topics, **alone | member)


def _before(peer: Peer) -> _Kept:
    peer.keep(_PRODUCER)
    topic = peer.topic(configs={"retention.ms": "-1", "segment.bytes": "1048576"})
    for sequence in range(7):
        _produce(peer, topic, _sequenced(sequence))
    _produce(peer, topic, batch(b"x" * 900_000, timestamp=NOW - 5000))
    _produce(peer, topic, batch(b"y" * 900_000, timestamp=NOW + 5000, codec="zstd"))
    cut = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 3}]}]
    peer.ask("delete_records", 2, topics=cut, timeout=10_000)
    group, lonely = peer.unique("group"), peer.unique("lonely")
    peer.await_coordinator(group)
    peer.await_coordinator(lonely)
    _commit(peer, lonely, topic, 5)
    _commit(peer, lonely, topic, 6)
    instance = {"group_instance_id": "instance"}
    static = join(peer, peer.unique("static"), **instance)
    sync(peer, peer.unique("static"), static, **instance)
    dynamic = member_of(peer, peer, group)
    me = {"generation_id_or_member_epoch": dynamic.generation_id, "member_id": dynamic.member_id}
    _commit(peer, group, topic, 4, **me)
    return _Kept(topic, group, static, dynamic)


def _ask_logs(peer: Peer, kept: _Kept) -> None:
    for offset in range(10):
        wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 21}
        topics = [{"topic": kept.topic, "partitions": [wanted]}]
        peer.ask("fetch", 12, max_bytes=1 << 21, session_epoch=-1, topics=topics)
    for timestamp in (-1, -2, -3, NOW - 9000, NOW, NOW + 3, NOW + 4000, NOW + 6000):
        asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        topics = [{"name": kept.topic, "partitions": [asked]}]
        peer.ask("list_offsets", newest("list_offsets"), replica_id=-1, topics=topics)
    epoch = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    topics = [{"topic": kept.topic, "partitions": [epoch]}]
    peer.ask("offset_for_leader_epoch", 4, replica_id=-1, topics=topics)


def _ask_groups(peer: Peer, kept: _Kept) -> None:
    lonely, static = peer.unique("lonely"), peer.unique("static")
    for group in (kept.group, lonely, static):
        peer.await_coordinator(group)
        peer.ask("describe_groups", 5, groups=[group])
        peer.ask("offset_fetch", 9, groups=[{"group_id": group, "topics": None}])
    for group, joined, more in (
        (kept.group, kept.dynamic, {}),
        (static, kept.static, {"group_instance_id": "instance"}),
    ):
        member = {"generation_id": joined.generation_id, "member_id": joined.member_id}
        peer.ask("heartbeat", 4, group_id=group, **member, **more)
    again = join(peer, static, group_instance_id="instance")
    sync(peer, static, again, group_instance_id="instance")
    me = {"generation_id_or_member_epoch": kept.dynamic.generation_id}
    _commit(peer, kept.group, kept.topic, 7, member_id=kept.dynamic.member_id, **me)


def _after(peer: Peer, kept: _Kept) -> None:
    peer.await_topic(kept.topic)
    peer.note("after a restart")
    _ask_logs(peer, kept)
    _ask_groups(peer, kept)
    for sequence in (6, 2, 1, 9, 7):
        peer.note(f"sequence {sequence}")
        _produce(peer, kept.topic, _sequenced(sequence))
    _produce(peer, kept.topic, _sequenced(0, epoch=0))
    peer.note("after a restart")
    asked = {"resource_type": 2, "resource_name": kept.topic, "configuration_keys": None}
    peer.ask("describe_configs", 4, resources=[asked])
    peer.ask("metadata", 12, topics=[{"name": kept.topic}])


@pytest.mark.kafka
def test_restart(brokers: Brokers) -> None:
    def run(name: str, broker: Broker) -> tuple[list[Step], None]:
        peer = Peer(name, broker.port, "restart", "both", 0)
        kept = _before(peer)
        peer.close()
        broker.restart()
        peer.reconnect()
        _after(peer, kept)
        peer.close()
        return peer.steps, None

    brokers.compare(__name__, "restart", run, "a restart")
