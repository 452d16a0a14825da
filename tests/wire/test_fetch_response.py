"""Fetch responses are read in place, and say what the schemas say."""

import random
from typing import Any
from uuid import UUID

import pytest

from drumlin.wire.by_hand.fetch_response import (
    VERSION_MAX,
    VERSION_MIN,
    Endpoint,
    EpochEnd,
    FetchResponse,
    Leader,
    PartitionFetch,
    Snapshot,
    TopicFetch,
    parse_fetch_response,
)
from drumlin.wire.error_codes import ErrorCode, MalformedMessage
from drumlin.wire.messages import ZERO, encode_response, parse_response
from rig.data.messages import response_shape

VERSIONS = range(VERSION_MIN, VERSION_MAX + 1)


def build(version: int, rng: random.Random) -> Any:
    shape = response_shape("fetch", version)

    def aborted() -> Any:
        return shape("AbortedTransaction", producer_id=rng.randrange(2**40), first_offset=5)

    def tagged() -> dict[str, Any]:
        """Some of the tagged fields, if this version has them."""
        fields: dict[str, Any] = {}
        if shape.has("EpochEndOffset"):
            if rng.random() < 0.3:
                end = shape("EpochEndOffset", epoch=rng.randrange(9), end_offset=rng.randrange(99))
                fields["diverging_epoch"] = end
            if rng.random() < 0.3:
                leader = shape("LeaderIdAndEpoch", leader_id=rng.randrange(9), leader_epoch=7)
                fields["current_leader"] = leader
            if rng.random() < 0.3:
                snapshot = shape("SnapshotId", end_offset=rng.randrange(99), epoch=3)
                fields["snapshot_id"] = snapshot
        return fields

    def endpoint() -> Any:
        rack = rng.choice([None, "", "rack"])
        return shape("NodeEndpoint", node_id=rng.randrange(9), host="h" * 9, port=9092, rack=rack)

    def partition() -> Any:
        return shape(
            "PartitionData",
            partition_index=rng.randrange(9),
            error_code=rng.choice([ErrorCode.none, ErrorCode.offset_out_of_range]),
            high_watermark=rng.randrange(2**40),
            last_stable_offset=rng.randrange(-1, 2**40),
            log_start_offset=rng.randrange(-1, 2**40),
            preferred_read_replica=rng.randrange(-1, 5),
            aborted_transactions=rng.choice([None, (), (aborted(), aborted())]),
            records=rng.choice([None, b"", rng.randbytes(rng.randrange(300))]),
            **tagged(),
        )

    def topic() -> Any:
        partitions = tuple(partition() for _ in range(rng.randrange(3)))
        name = rng.choice(["", "a", "ö" * 40])
        topic_id = UUID(bytes=rng.randbytes(16))
        return shape("FetchableTopicResponse", topic=name, topic_id=topic_id, partitions=partitions)

    has_endpoints = shape.has("NodeEndpoint") and rng.random() < 0.5
    endpoints = {"node_endpoints": (endpoint(), endpoint())} if has_endpoints else {}

    return shape(
        "FetchResponse",
        throttle_time=ZERO,
        error_code=rng.choice([ErrorCode.none, ErrorCode.fetch_session_id_not_found]),
        session_id=rng.randrange(2**31),
        responses=tuple(topic() for _ in range(rng.randrange(3))),
        **endpoints,
    )


def frame_of(version: int, rng: random.Random) -> bytes:
    return b"".join(encode_response("fetch", version, 7, build(version, rng)))[4:]


def by_schemas(version: int, frame: bytes) -> FetchResponse:
    _, response = parse_response("fetch", version, frame)
    topics = [
        TopicFetch(
            getattr(topic, "topic", ""),
            [
                PartitionFetch(
                    each.partition_index,
                    each.error_code,
                    each.high_watermark,
                    each.last_stable_offset,
                    getattr(each, "log_start_offset", -1),
                    [
                        (aborted.producer_id, aborted.first_offset)  # type: ignore[misc]
                        for aborted in each.aborted_transactions or ()
                    ],
                    each.records or b"",
                    getattr(each, "preferred_read_replica", -1),
                    tagged(each, "diverging_epoch", EpochEnd, "epoch", "end_offset"),
                    tagged(each, "current_leader", Leader, "leader_id", "leader_epoch"),
                    tagged(each, "snapshot_id", Snapshot, "end_offset", "epoch"),
                )
                for each in topic.partitions
            ],
            topic.topic_id.bytes if topic.topic_id is not None else b"",
        )
        for topic in response.responses
    ]
    code = getattr(response, "error_code", ErrorCode.none)
    endpoints = tuple(
        Endpoint(each.node_id, each.host, each.port, each.rack)
        for each in getattr(response, "node_endpoints", ())
    )
    return FetchResponse(code, getattr(response, "session_id", 0), topics, endpoints)


def tagged(owner: Any, name: str, kind: Any, *fields: str) -> Any:
    """A tagged field by the schemas; one that was not sent has its default there."""
    value = getattr(owner, name, None)
    if value is None or value == type(value)():
        return None
    return kind(*(getattr(value, field) for field in fields))


@pytest.mark.parametrize("version", VERSIONS)
def test_both_ways_agree(version: int) -> None:
    rng = random.Random(version)
    for _ in range(40):
        frame = frame_of(version, rng)
        assert parse_fetch_response(version, memoryview(frame)) == by_schemas(version, frame)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frame_cut_anywhere_is_malformed(version: int) -> None:
    frame = memoryview(frame_of(version, random.Random(version)))
    for size in range(len(frame)):
        with pytest.raises(MalformedMessage):
            parse_fetch_response(version, frame[:size])


def test_records_are_a_slice_of_the_frame() -> None:
    shape = response_shape("fetch", 12)
    partition = shape(
        "PartitionData",
        partition_index=0,
        error_code=ErrorCode.none,
        high_watermark=1,
        aborted_transactions=None,
        records=b"some records",
    )
    topic = shape("FetchableTopicResponse", topic="t", partitions=(partition,))
    response = shape(
        "FetchResponse", throttle_time=ZERO, error_code=ErrorCode.none, responses=(topic,)
    )
    frame = bytearray(b"".join(encode_response("fetch", 12, 7, response))[4:])
    records = parse_fetch_response(12, memoryview(frame)).topics[0].partitions[0].records
    position = frame.index(b"some records")
    frame[position : position + 4] = b"SOME"
    assert records == b"SOME records"


@pytest.mark.parametrize("version", [12, 17])
def test_tagged_fields_that_are_not_known_are_passed_over(version: int) -> None:
    shape = response_shape("fetch", version)
    response = shape(
        "FetchResponse", throttle_time=ZERO, error_code=ErrorCode.none, session_id=5, responses=()
    )
    frame = b"".join(encode_response("fetch", version, 7, response))[4:]
    assert frame.endswith(b"\x00")
    longer = frame[:-1] + b"\x01\x63\x03abc"
    assert parse_fetch_response(version, memoryview(longer)).session_id == 5
