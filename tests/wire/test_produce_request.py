"""Produce requests are read in place, and give what the schemas give."""

import random
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from drumlin.wire.by_hand.produce_request import (
    ManyPartitions,
    ProduceRequest,
    read_produce_request,
)
from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.messages import API_KEYS, encode_request, parse_request, parse_request_header
from rig.data.messages import request_shape


def read(version: int, frame: memoryview, position: int) -> ProduceRequest:
    return read_produce_request(version, frame, position, 1000)


def read_by_schemas(version: int, frame: memoryview, position: int) -> ProduceRequest:
    message = parse_request("produce", version, frame, position)
    topics = [
        (
            topic.name.encode() if version < 13 else getattr(topic.topic_id, "bytes", bytes(16)),
            [(part.index, part.records) for part in topic.partition_data],
        )
        for topic in message.topic_data
    ]
    timeout_ms = message.timeout // timedelta(milliseconds=1)
    return ProduceRequest(message.transactional_id, message.acks, timeout_ms, topics)


def build(version: int, rng: random.Random) -> Any:
    shape = request_shape("produce", version)

    def records() -> bytes | None:
        return rng.choice([None, b"", rng.randbytes(rng.randrange(300))])

    def topic() -> Any:
        partitions = tuple(
            shape("PartitionProduceData", index=rng.randrange(-1, 9), records=records())
            for _ in range(rng.randrange(3))
        )
        topic_id = rng.choice([None, UUID(int=rng.getrandbits(128) | 1)])
        name = rng.choice(["", "a", "ö" * 40])
        return shape("TopicProduceData", name=name, topic_id=topic_id, partition_data=partitions)

    return shape(
        "ProduceRequest",
        transactional_id=rng.choice([None, "", "tx"]),
        acks=rng.choice([-1, 0, 1, 7]),
        timeout=timedelta(milliseconds=rng.randrange(-5, 2**31 - 1)),
        topic_data=tuple(topic() for _ in range(rng.randrange(3))),
    )


def frame_of(version: int, rng: random.Random) -> tuple[memoryview, int]:
    parts = encode_request("produce", version, 7, "client", build(version, rng))
    frame = memoryview(bytearray(b"".join(parts)[4:]))
    header = parse_request_header(frame)
    assert (header.api_key, header.api_version) == (API_KEYS["produce"], version)
    return frame, header.size


def outcome(parse: Any, version: int, frame: memoryview, position: int) -> Any:
    try:
        return parse(version, frame, position)
    except MalformedMessage:
        return MalformedMessage
    except ManyPartitions:
        return ManyPartitions


@pytest.mark.parametrize("version", range(3, 14))
def test_requests_are_read_as_by_the_schemas(version: int) -> None:
    rng = random.Random(version)
    for _ in range(60):
        frame, position = frame_of(version, rng)
        assert read(version, frame, position) == read_by_schemas(version, frame, position)


@pytest.mark.parametrize("version", range(3, 14))
def test_a_cut_request_is_malformed(version: int) -> None:
    rng = random.Random(version)
    for _ in range(8):
        frame, position = frame_of(version, rng)
        for end in range(position, len(frame)):
            assert outcome(read, version, frame[:end], position) is MalformedMessage


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_a_topic_without_a_name_is_malformed(version: int) -> None:
    null, count = (b"\x00", b"\x02") if version >= 9 else (b"\xff\xff", b"\x00\x00\x00\x01")
    frame = memoryview(null + bytes(6) + count + null + bytes(20))
    with pytest.raises(MalformedMessage, match="the name of a topic is null"):
        read(version, frame, 0)


@pytest.mark.parametrize("version", range(3, 14))
def test_garbage_raises_nothing_but_malformed(version: int) -> None:
    rng = random.Random(version)
    for _ in range(300):
        frame, position = frame_of(version, rng)
        for _ in range(rng.randrange(1, 6)):
            frame[rng.randrange(position, len(frame))] = rng.randrange(256)
        outcome(read, version, frame, position)


def test_records_share_the_frames_memory() -> None:
    shape = request_shape("produce", 9)
    partition = shape("PartitionProduceData", index=0, records=bytes(20_000))
    topic = shape("TopicProduceData", name="t", partition_data=(partition,))
    message = shape("ProduceRequest", acks=1, timeout=timedelta(0), topic_data=(topic,))
    frame = memoryview(bytearray(b"".join(encode_request("produce", 9, 1, "c", message))[4:]))
    request = read(9, frame, parse_request_header(frame).size)
    _, records = request.topics[0][1][0]
    assert records is not None
    records[:4] = b"mark"
    assert b"mark" in bytes(frame)


@pytest.mark.parametrize("topics", [2, 20])
def test_a_request_has_only_so_many_topics_and_partitions(topics: int) -> None:
    topic = b"\x00\x00" + (100 // topics).to_bytes(4, "big") + bytes(8 * (100 // topics))
    body = b"\xff\xff" + bytes(6) + topics.to_bytes(4, "big") + topic * topics
    frame = memoryview(bytearray(body))
    assert len(read_produce_request(8, frame, 0, 100 + topics).topics) == topics
    with pytest.raises(ManyPartitions):
        read_produce_request(8, frame, 0, 99 + topics)
