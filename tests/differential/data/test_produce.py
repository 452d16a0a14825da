"""Produce: its partitions, its acknowledgement, and every way in which a batch can be wrong."""

from __future__ import annotations

import uuid
from typing import Any

import cramjam

from differential.now import NOW
from differential.peer import Peer
from differential.scripts import all_versions, differential, newest
from rig.data.batches import CODECS, Batch, Rec, batch, varint

_HOUR_MS = 3_600_000
_NEWEST = [newest("produce")]
#: With record errors, by name; the newest, by id.
_TWO = [8, newest("produce")]


def send(
    peer: Peer, topic: str, data: bytes, partition: int = 0, acks: int = -1, **fields: Any
) -> None:
    """Ask for one batch to be appended, and compare the answer."""
    peer.ask(
        acks=acks,
        timeout=10_000,
        topic_data=[
            peer.topic_fields(topic) | {"partition_data": [{"index": partition, "records": data}]}
        ],
        **fields,
    )


def read_back(peer: Peer, topic: str, partition: int = 0) -> None:
    """Compare what is in the log now."""
    wanted = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": topic, "partitions": [wanted]}]
    peer.ask("fetch", 12, max_wait=0, min_bytes=0, max_bytes=1 << 20, topics=topics)


@differential("produce")
def test_acks(peer: Peer) -> None:
    topic = peer.topic()
    for acks in (-1, 1, 2, -2, 32767):
        send(peer, topic, batch(b"a", timestamp=NOW), acks=acks)
    read_back(peer, topic)


@differential("produce")
def test_acks_0_has_no_answer(peer: Peer) -> None:
    """What follows on the same connection is answered, so the order shows that nothing came."""
    topic = peer.topic()
    entry = peer.topic_fields(topic) | {
        "partition_data": [{"index": 0, "records": batch(b"unanswered", timestamp=NOW)}]
    }
    main = peer.connection("silent")
    main.send(acks=0, timeout=1000, topic_data=[entry])
    main.ask("metadata", 12, topics=[])
    send(peer, topic, batch(b"answered", timestamp=NOW))
    read_back(peer, topic)


@differential("produce", versions=_TWO)
def test_acks_0_with_an_error_closes_the_connection(peer: Peer) -> None:
    topic = peer.topic()
    entry = peer.topic_fields(topic) | {
        "partition_data": [{"index": 9, "records": batch(b"a", timestamp=NOW)}]
    }
    main = peer.connection("silent")
    main.send(acks=0, timeout=1000, topic_data=[entry])
    main.receive("metadata", 12, timeout_s=5)


@differential("produce")
def test_several_partitions_and_topics(peer: Peer) -> None:
    first, second = peer.topic("first", partitions=2), peer.topic("second")
    data = batch(b"a", b"b", timestamp=NOW)
    partitions = [{"index": index, "records": data} for index in (1, 0, 7)]
    peer.ask(
        acks=1,
        timeout=10_000,
        topic_data=[
            peer.topic_fields(first) | {"partition_data": partitions},
            peer.topic_fields(second) | {"partition_data": partitions[1:]},
        ],
    )


@differential("produce", versions=_TWO)
def test_the_same_partition_twice(peer: Peer) -> None:
    topic = peer.topic()
    twice = [{"index": 0, "records": batch(each, timestamp=NOW)} for each in (b"a", b"b")]
    entry = peer.topic_fields(topic) | {"partition_data": twice}
    peer.note("the same partition twice")
    peer.ask(acks=1, timeout=10_000, topic_data=[entry])


@differential("produce")
def test_nothing_in_it(peer: Peer) -> None:
    topic = peer.topic()
    peer.ask(acks=1, timeout=10_000, topic_data=[])
    peer.ask(acks=1, timeout=10_000, topic_data=[peer.topic_fields(topic)])


@differential("produce")
def test_empty_records(peer: Peer) -> None:
    """Null instead of empty makes Kafka's handler throw and leave the client without an answer."""
    send(peer, peer.topic(), b"")


@differential("produce")
def test_unknown_topics_and_partitions(peer: Peer) -> None:
    topic = peer.topic()
    data = batch(b"a", timestamp=NOW)
    for partition in (1, -1, 2**31 - 1):
        send(peer, topic, data, partition=partition)
    for name in (peer.unique("unknown"), "", ".", "a b", "x" * 250):
        send(peer, name, data)


@differential("produce", versions=_NEWEST)
def test_unknown_topic_id(peer: Peer) -> None:
    unknown = peer.call(uuid.UUID(int=88), "an unknown id")
    entry = {
        "topic_id": unknown,
        "partition_data": [{"index": 0, "records": batch(b"a", timestamp=NOW)}],
    }
    peer.ask(acks=1, timeout=10_000, topic_data=[entry])


@differential("produce", versions=_TWO)
def test_internal_topic(peer: Peer) -> None:
    peer.await_coordinator("any")
    peer.await_topic("__consumer_offsets", partitions=3)
    send(peer, "__consumer_offsets", batch(b"a", timestamp=NOW))


@differential("produce", versions=_TWO)
def test_transactional_without_a_transaction(peer: Peer) -> None:
    topic = peer.topic()
    peer.keep(9001)
    data = Batch(
        timestamp=NOW, extra_attributes=0x10, producer_id=9001, producer_epoch=0, base_sequence=0
    ).encode()
    send(peer, topic, data)
    send(peer, topic, batch(b"a", timestamp=NOW), transactional_id="unknown")


@differential("produce")
def test_codecs(peer: Peer) -> None:
    topic = peer.topic()
    for codec in CODECS:
        send(peer, topic, batch(b"a" * 100, b"b" * 100, timestamp=NOW, codec=codec))
    read_back(peer, topic)


@differential("produce", versions=_TWO)
def test_compression_type_of_the_topic(peer: Peer) -> None:
    """The broker compresses again where the topic asks for another codec."""
    for wanted in ("gzip", "snappy", "lz4", "zstd", "uncompressed"):
        topic = peer.topic(wanted, configs={"compression.type": wanted})
        for codec in CODECS:
            send(peer, topic, batch(b"a" * 100, b"b" * 100, timestamp=NOW, codec=codec))
        read_back(peer, topic)


WRONG_BATCHES: dict[str, bytes] = {
    "crc": Batch(timestamp=NOW, crc=1).encode(),
    "magic 0": Batch(timestamp=NOW, magic=0).encode(),
    "magic 1": Batch(timestamp=NOW, magic=1).encode(),
    "magic 3": Batch(timestamp=NOW, magic=3).encode(),
    "magic -1": Batch(timestamp=NOW, magic=-1).encode(),
    "cut off in the header": batch(b"a", timestamp=NOW)[:40],
    "cut off in the length": batch(b"a", timestamp=NOW)[:11],
    "cut off in the records": batch(b"abc", timestamp=NOW)[:-1],
    "bytes behind the batch": batch(b"a", timestamp=NOW) + b"\x00" * 5,
    "two batches": batch(b"a", timestamp=NOW) * 2,
    "length 0": Batch(timestamp=NOW, batch_length=0).encode(),
    "length -1": Batch(timestamp=NOW, batch_length=-1).encode(),
    "length of 10": Batch(timestamp=NOW, batch_length=10).encode(),
    "length too large": Batch(timestamp=NOW, batch_length=1 << 20).encode(),
    "length beyond the limit": Batch(timestamp=NOW, batch_length=2**31 - 1).encode(),
    "codec 5": Batch(timestamp=NOW, extra_attributes=5).encode(),
    "codec 7": Batch(timestamp=NOW, extra_attributes=7).encode(),
    "not really gzip": Batch(timestamp=NOW, codec="gzip", payload=b"rubbish").encode(),
    "not really snappy": Batch(timestamp=NOW, codec="snappy", payload=b"rubbish").encode(),
    "not really lz4": Batch(timestamp=NOW, codec="lz4", payload=b"rubbish").encode(),
    "not really zstd": Batch(timestamp=NOW, codec="zstd", payload=b"rubbish").encode(),
    "lz4 with blocks that depend on each other": Batch(
        timestamp=NOW, codec="lz4", payload=bytes(cramjam.lz4.compress(Rec().encode(0)))
    ).encode(),
    "empty compressed payload": Batch(timestamp=NOW, codec="gzip", payload=b"").encode(),
    "a control batch": Batch(timestamp=NOW, extra_attributes=0x20).encode(),
    "log append time in the attributes": Batch(timestamp=NOW, extra_attributes=0x08).encode(),
    "a delete horizon": Batch(timestamp=NOW, extra_attributes=0x40).encode(),
    "an unknown attribute": Batch(timestamp=NOW, extra_attributes=0x80).encode(),
    "no records": Batch(timestamp=NOW, records=()).encode(),
    "a count of 0": Batch(timestamp=NOW, record_count=0).encode(),
    "a count of -1": Batch(timestamp=NOW, record_count=-1).encode(),
    "a count too large": Batch(timestamp=NOW, record_count=2, last_offset_delta=1).encode(),
    "a count too small": Batch(
        (Rec(), Rec()), timestamp=NOW, record_count=1, last_offset_delta=0
    ).encode(),
    "a huge count": Batch(
        timestamp=NOW, record_count=2**31 - 1, last_offset_delta=2**31 - 2
    ).encode(),
    "last offset delta too large": Batch(timestamp=NOW, last_offset_delta=5).encode(),
    "last offset delta too small": Batch(
        (Rec(), Rec()), timestamp=NOW, last_offset_delta=0
    ).encode(),
    "last offset delta negative": Batch(timestamp=NOW, last_offset_delta=-1).encode(),
    "offset deltas with a gap": Batch(
        (Rec(), Rec(offset_delta=2)), timestamp=NOW, last_offset_delta=2, record_count=2
    ).encode(),
    "offset deltas twice the same": Batch((Rec(), Rec(offset_delta=0)), timestamp=NOW).encode(),
    "offset deltas that start at 1": Batch((Rec(offset_delta=1),), timestamp=NOW).encode(),
    "a negative offset delta": Batch((Rec(offset_delta=-1),), timestamp=NOW).encode(),
    "a base offset": Batch(timestamp=NOW, base_offset=42).encode(),
    "a negative base offset": Batch(timestamp=NOW, base_offset=-42).encode(),
    "a leader epoch": Batch(timestamp=NOW, leader_epoch=7).encode(),
    "max timestamp too small": Batch(timestamp=NOW, max_timestamp=NOW - 5).encode(),
    "max timestamp too large": Batch(timestamp=NOW, max_timestamp=NOW + 5).encode(),
    "a negative timestamp": Batch(timestamp=-5).encode(),
    "timestamp -1": Batch(timestamp=-1).encode(),
    "timestamp 0": Batch(timestamp=0).encode(),
    "a timestamp too late": Batch(timestamp=NOW + 3 * _HOUR_MS).encode(),
    "one of three too late": Batch(
        (Rec(), Rec(timestamp_delta=3 * _HOUR_MS), Rec()), timestamp=NOW
    ).encode(),
    "timestamps that fall": Batch((Rec(timestamp_delta=9), Rec()), timestamp=NOW).encode(),
    "bytes too many in a record": Batch((Rec(tail=b"xyz"),), timestamp=NOW).encode(),
    "rest behind the records": Batch(timestamp=NOW, payload=Rec().encode(0) + b"rest").encode(),
    "a record cut off": Batch(timestamp=NOW, payload=Rec().encode(0)[:-2]).encode(),
    "a record of length 0": Batch(timestamp=NOW, payload=b"\x00").encode(),
    "a record of length -1": Batch(timestamp=NOW, payload=varint(-1)).encode(),
    "a record of 2^31-1 bytes": Batch(timestamp=NOW, payload=varint(2**31 - 1)).encode(),
    "a varint without an end": Batch(timestamp=NOW, payload=b"\xff" * 12).encode(),
    "a key size of -2": Batch(
        timestamp=NOW, payload=varint(6) + b"\x00\x00\x00" + varint(-2) + varint(-1) + b"\x00"
    ).encode(),
    "a value longer than the record": Batch(
        timestamp=NOW, payload=varint(6) + b"\x00\x00\x00" + varint(-1) + varint(50) + b"\x00"
    ).encode(),
    "a header count of -1": Batch(
        timestamp=NOW, payload=varint(6) + b"\x00\x00\x00" + varint(-1) * 2 + varint(-1)
    ).encode(),
    "a huge header count": Batch(
        timestamp=NOW, payload=varint(9) + b"\x00\x00\x00" + varint(-1) * 2 + varint(2**24)
    ).encode(),
    "a header with a null name": Batch(
        timestamp=NOW,
        payload=varint(8) + b"\x00\x00\x00" + varint(-1) * 2 + varint(1) + varint(-1) * 2,
    ).encode(),
    "nothing but null": Batch((Rec(value=None),), timestamp=NOW).encode(),
    "headers": Batch((Rec(headers=(("a", b"1"), ("", None), ("a", b""))),), timestamp=NOW).encode(),
    "attributes of a record": Batch(
        timestamp=NOW, payload=varint(6) + b"\x7f\x00\x00" + varint(-1) * 2 + b"\x00"
    ).encode(),
    "a base timestamp of 2^63-1": Batch(timestamp=2**63 - 1, max_timestamp=2**63 - 1).encode(),
    "a producer id without an epoch": Batch(timestamp=NOW, producer_id=5).encode(),
    "a producer id of -2": Batch(timestamp=NOW, producer_id=-2).encode(),
    "random bytes": bytes(range(7, 256)),
    "zeros": bytes(200),
}


def _wrong_batches(peer: Peer, configs: dict[str, str] | None = None, note: str = "") -> None:
    topic = peer.topic(partitions=len(WRONG_BATCHES), configs=configs)
    for partition, (what, data) in enumerate(WRONG_BATCHES.items()):
        peer.note(what + note)
        send(peer, topic, data, partition)
        read_back(peer, topic, partition)


@differential("produce", versions=[3, *_TWO])
def test_wrong_batches(peer: Peer) -> None:
    """Each of them alone in a partition, and what the log holds afterwards."""
    _wrong_batches(peer)


@differential("produce", versions=_TWO)
def test_wrong_batches_with_log_append_time(peer: Peer) -> None:
    _wrong_batches(peer, {"message.timestamp.type": "LogAppendTime"})


@differential("produce", versions=_NEWEST)
def test_wrong_batches_that_must_be_compressed(peer: Peer) -> None:
    _wrong_batches(peer, {"compression.type": "gzip"}, note=", compressed again")


@differential("produce", versions=_TWO)
def test_a_rejected_batch_leaves_nothing_behind(peer: Peer) -> None:
    topic = peer.topic()
    send(peer, topic, batch(b"before", timestamp=NOW))
    send(peer, topic, WRONG_BATCHES["crc"])
    send(peer, topic, WRONG_BATCHES["one of three too late"])
    send(peer, topic, batch(b"after", timestamp=NOW))
    read_back(peer, topic)


@differential("produce", versions=_TWO)
def test_max_message_bytes(peer: Peer) -> None:
    topic = peer.topic(configs={"max.message.bytes": "200"})
    room = 200 - len(batch(b"", timestamp=NOW))
    for size in (room - 2, room - 1, room, room + 1, room + 500):
        send(peer, topic, batch(b"x" * size, timestamp=NOW))
    send(peer, topic, batch(b"x" * 5000, timestamp=NOW, codec="gzip"))


@differential("produce", versions=[3, *_TWO])
def test_compacted_topics_need_keys(peer: Peer) -> None:
    for policy in ("compact", "compact,delete"):
        topic = peer.topic(policy.replace(",", "-"), configs={"cleanup.policy": policy})
        for codec in ("none", "zstd"):
            keyed, keyless, empty = Rec(key=b"k"), Rec(key=None), Rec(key=b"")
            for records in ((keyed,), (keyless,), (empty,), (keyed, keyless, keyless)):
                send(peer, topic, Batch(records, timestamp=NOW, codec=codec).encode())
        read_back(peer, topic)


@differential("produce", versions=_TWO)
def test_log_append_time(peer: Peer) -> None:
    topic = peer.topic(configs={"message.timestamp.type": "LogAppendTime"})
    for codec in ("none", "lz4"):
        records = (Rec(), Rec(timestamp_delta=9))
        send(peer, topic, Batch(records, timestamp=NOW - 5, codec=codec).encode())
    read_back(peer, topic)


@differential("produce", versions=_TWO)
def test_timestamp_limits(peer: Peer) -> None:
    limits = {
        "message.timestamp.before.max.ms": str(2 * _HOUR_MS),
        "message.timestamp.after.max.ms": str(2 * _HOUR_MS),
    }
    topic = peer.topic(configs=limits)
    for hours in (-3, -1, 0, 1, 3):
        send(peer, topic, batch(b"a", b"b", timestamp=NOW + hours * _HOUR_MS))
        records = (Rec(), Rec(timestamp_delta=hours * _HOUR_MS))
        send(peer, topic, Batch(records, timestamp=NOW, codec="gzip").encode())
    read_back(peer, topic)


def _sequenced(sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 9001) -> bytes:
    return Batch(
        tuple(Rec() for _ in range(count)),
        timestamp=NOW,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    ).encode()


@differential("produce", versions=_TWO)
def test_sequences(peer: Peer) -> None:
    """Repeated, skipped, old and wrapped sequences of an idempotent producer."""
    topic = peer.topic()
    peer.keep(9001)
    for sequence in (0, 1, 1, 0, 2, 3, 4, 5, 6, 1, 2, 5, 9, 7):
        send(peer, topic, _sequenced(sequence))
    send(peer, topic, _sequenced(8, count=3))
    send(peer, topic, _sequenced(8, count=3))
    send(peer, topic, _sequenced(8, count=2))
    send(peer, topic, _sequenced(10, count=2))
    send(peer, topic, _sequenced(-1))
    read_back(peer, topic)


@differential("produce", versions=_TWO)
def test_epochs(peer: Peer) -> None:
    topic = peer.topic()
    peer.keep(9001)
    send(peer, topic, _sequenced(0, epoch=3))
    send(peer, topic, _sequenced(1, epoch=2))
    send(peer, topic, _sequenced(1, epoch=4))
    send(peer, topic, _sequenced(0, epoch=4))
    send(peer, topic, _sequenced(1, epoch=3))
    send(peer, topic, _sequenced(1, epoch=-1))
    read_back(peer, topic)


@differential("produce", versions=_TWO)
def test_first_sequence_of_an_unknown_producer(peer: Peer) -> None:
    topic = peer.topic()
    peer.keep(9001)
    send(peer, topic, _sequenced(5))
    send(peer, topic, _sequenced(6))
    send(peer, topic, _sequenced(2**31 - 1, producer_id=peer.keep(9002)))
    send(peer, topic, _sequenced(0, producer_id=9002))
    send(peer, topic, _sequenced(2**31 - 2, count=4, producer_id=peer.keep(9003)))
    send(peer, topic, _sequenced(2, producer_id=9003))
    read_back(peer, topic)


@differential("produce", versions=_NEWEST)
def test_several_producers_in_one_request(peer: Peer) -> None:
    topic = peer.topic(partitions=2)
    peer.keep(9001)
    data = [{"index": 0, "records": _sequenced(0)}, {"index": 1, "records": _sequenced(0, epoch=1)}]
    entry = peer.topic_fields(topic) | {"partition_data": data}
    for _ in range(2):
        peer.ask(acks=-1, timeout=10_000, topic_data=[entry])


@differential("produce", versions=_TWO)
def test_min_insync_replicas_above_what_there_is(peer: Peer) -> None:
    topic = peer.topic(configs={"min.insync.replicas": "2"})
    for acks in (-1, 1):
        send(peer, topic, batch(b"a", timestamp=NOW), acks=acks)


@differential("produce", versions=_TWO)
def test_many_requests_at_once(peer: Peer) -> None:
    """Answers come in the order of the requests, and each sees what those before it did."""
    topic = peer.topic()
    many = peer.connection("many")
    apis: list[tuple[str, int]] = []
    for number in range(20):
        entry = peer.topic_fields(topic) | {
            "partition_data": [{"index": 0, "records": batch(b"%d" % number, timestamp=NOW)}]
        }
        many.send(acks=-1, timeout=10_000, topic_data=[entry])
        wanted = {"partition": 0, "fetch_offset": number, "partition_max_bytes": 1 << 20}
        fetched = [{"topic": topic, "partitions": [wanted]}]
        many.send("fetch", 12, max_bytes=1 << 20, session_epoch=-1, topics=fetched)
        latest = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
        many.send(
            "list_offsets", 7, replica_id=-1, topics=[{"name": topic, "partitions": [latest]}]
        )
        many.send("metadata", 12, topics=[{"name": topic}])
        apis += [("produce", peer.version), ("fetch", 12), ("list_offsets", 7), ("metadata", 12)]
    for api, version in apis:
        many.receive(api, version)


@differential("produce", versions=all_versions("produce"))
def test_after_a_delete_topic(peer: Peer) -> None:
    topic = peer.topic()
    topics = [{"name": topic, "topic_id": None}]
    peer.ask("delete_topics", 6, topics=topics, timeout=10_000)
    peer.await_no_topic(topic)
    send(peer, topic, batch(b"a", timestamp=NOW))
