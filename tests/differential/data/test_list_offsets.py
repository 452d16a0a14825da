"""ListOffsets: the special timestamps and all others; OffsetForLeaderEpoch beside it."""

from __future__ import annotations

from typing import Any

from differential.now import NOW
from differential.peer import Peer
from differential.scripts import differential, newest
from rig.data.batches import Batch, Rec

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)
_TWO = [1, newest("list_offsets")]


def ask(peer: Peer, topic: str, *timestamps: int, partition: int = 0, **fields: Any) -> None:
    """One question for each timestamp, as a partition may be asked about once."""
    for timestamp in timestamps:
        about = {
            "partition_index": partition,
            "current_leader_epoch": fields.get("current_leader_epoch", -1),
            "timestamp": timestamp,
        }
        peer.ask(
            replica_id=fields.get("replica_id", -1),
            isolation_level=fields.get("isolation_level", 0),
            topics=[{"name": topic, "partitions": [about]}],
            timeout=5000,
        )


def _filled(peer: Peer, **configs: str) -> str:
    """Three batches, whose timestamps do not rise all the time."""
    topic = peer.topic(configs={key.replace("_", "."): value for key, value in configs.items()})
    for start, deltas in ((NOW - 1000, (0, 10, 5)), (NOW - 500, (0, 300)), (NOW - 900, (0, 1))):
        records = tuple(Rec(timestamp_delta=delta) for delta in deltas)
        peer.produce_encoded(topic, Batch(records, timestamp=start).encode())
    return topic


@differential("list_offsets")
def test_special_timestamps(peer: Peer) -> None:
    special = range(-1, -9, -1)
    ask(peer, _filled(peer), *special)
    ask(peer, peer.topic("empty"), *special)


@differential("list_offsets")
def test_by_timestamp(peer: Peer) -> None:
    moments = [NOW - ago for ago in (5000, 1000, 999, 995, 990, 989, 900, 899, 500, 499, 200, 199)]
    ask(peer, _filled(peer), 0, *moments, NOW, 2**63 - 1)
    ask(peer, peer.topic("empty"), 0, NOW)


@differential("list_offsets", versions=_TWO)
def test_by_timestamp_in_compressed_batches(peer: Peer) -> None:
    topic = peer.topic()
    records = tuple(Rec(timestamp_delta=delta) for delta in (0, 20, 10))
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        peer.produce_encoded(topic, Batch(records, timestamp=NOW - 1000, codec=codec).encode())
    ask(peer, topic, *(NOW - 1000 + delta for delta in (-1, 0, 1, 10, 11, 20, 21)), MAX_TIMESTAMP)


@differential("list_offsets", versions=[1, 7, newest("list_offsets")])
def test_log_append_time(peer: Peer) -> None:
    """Only what does not depend on the moment: before all, and after all."""
    topic = _filled(peer, message_timestamp_type="LogAppendTime")
    ask(peer, topic, LATEST, EARLIEST, NOW + 3_000_000)


@differential("list_offsets")
def test_unknown_topics_and_partitions(peer: Peer) -> None:
    topic = peer.topic()
    for partition in (1, -1):
        ask(peer, topic, LATEST, NOW, partition=partition)
    ask(peer, peer.unique("unknown"), LATEST, MAX_TIMESTAMP)
    ask(peer, "", LATEST)


@differential("list_offsets", versions=range(2, newest("list_offsets") + 1))
def test_isolation_level(peer: Peer) -> None:
    topic = _filled(peer)
    for level in (0, 1, 2):
        peer.note(f"level {level}" if level in (0, 1) else "an isolation level that does not exist")
        ask(peer, topic, LATEST, EARLIEST, NOW - 995, NOW, isolation_level=level)


@differential("list_offsets", versions=range(4, newest("list_offsets") + 1))
def test_leader_epochs(peer: Peer) -> None:
    topic = _filled(peer)
    for epoch in (-2, 0, 1):
        ask(peer, topic, LATEST, NOW - 995, current_leader_epoch=epoch)


@differential("list_offsets")
def test_replicas(peer: Peer) -> None:
    topic = _filled(peer)
    for replica in (-2, -3, 1, 7):
        ask(peer, topic, LATEST, EARLIEST, replica_id=replica)


@differential("list_offsets", versions=_TWO)
def test_the_same_partition_twice(peer: Peer) -> None:
    topic = _filled(peer)
    about = {"partition_index": 0, "current_leader_epoch": -1}
    twice = [about | {"timestamp": LATEST}, about | {"timestamp": EARLIEST}]
    peer.ask(replica_id=-1, topics=[{"name": topic, "partitions": twice}], timeout=5000)
    once = [{"name": topic, "partitions": [each]} for each in twice]
    peer.ask(replica_id=-1, topics=once, timeout=5000)
    peer.ask(replica_id=-1, topics=[{"name": topic}], timeout=5000)
    peer.ask(replica_id=-1, topics=[], timeout=5000)


@differential("list_offsets", versions=_TWO)
def test_after_delete_records(peer: Peer) -> None:
    topic = _filled(peer)
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 4}]}]
    peer.ask("delete_records", 2, topics=topics, timeout=10_000)
    ask(peer, topic, LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, 0, NOW - 1000, NOW - 300)
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 5}]}]
    peer.ask("delete_records", 2, topics=topics, timeout=10_000)
    ask(peer, topic, LATEST, EARLIEST, 0, NOW - 900, NOW - 300)
    peer.note("the newest record is deleted")
    ask(peer, topic, MAX_TIMESTAMP)


@differential("offset_for_leader_epoch")
def test_offset_for_leader_epoch(peer: Peer) -> None:
    topic = peer.topic(partitions=2)
    peer.produce(topic, b"a", b"b", timestamp=NOW)
    for partition in (0, 1, 2):
        for current in (-1, 0, 1):
            about = {"partition": partition, "current_leader_epoch": current}
            for epoch in (-1, 0, 1, -2):
                asked = about | {"leader_epoch": epoch}
                peer.ask(replica_id=-1, topics=[{"topic": topic, "partitions": [asked]}])
    unknown = peer.unique("unknown")
    peer.ask(replica_id=-1, topics=[{"topic": unknown, "partitions": [about]}])
    peer.ask(replica_id=-2, topics=[])
    peer.ask(replica_id=1, topics=[{"topic": topic, "partitions": [{"partition": 0}]}])
