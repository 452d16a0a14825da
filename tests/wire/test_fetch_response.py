"""Fetch responses are read in place, and say what the schemas say."""

import random
from typing import Any

import pytest

from drumlin.wire.errors import ErrorCode, MalformedMessage
from drumlin.wire.fetch_response import (
    VERSION_MAX,
    VERSION_MIN,
    FetchResponse,
    PartitionFetch,
    TopicFetch,
    parse_fetch_response,
)
from drumlin.wire.messages import ZERO, encode_response, parse_response, response_shape

VERSIONS = range(VERSION_MIN, VERSION_MAX + 1)


def build(version: int, rng: random.Random) -> Any:
    shape = response_shape("fetch", version)

    def aborted() -> Any:
        return shape("AbortedTransaction", producer_id=rng.randrange(2**40), first_offset=5)

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
        )

    def topic() -> Any:
        partitions = tuple(partition() for _ in range(rng.randrange(3)))
        name = rng.choice(["", "a", "ö" * 40])
        return shape("FetchableTopicResponse", topic=name, partitions=partitions)

    return shape(
        "FetchResponse",
        throttle_time=ZERO,
        error_code=rng.choice([ErrorCode.none, ErrorCode.fetch_session_id_not_found]),
        session_id=rng.randrange(2**31),
        responses=tuple(topic() for _ in range(rng.randrange(3))),
    )


def frame_of(version: int, rng: random.Random) -> bytes:
    return b"".join(encode_response("fetch", version, 7, build(version, rng)))[4:]


def by_schemas(version: int, frame: bytes) -> FetchResponse:
    _, response = parse_response("fetch", version, frame)
    topics = [
        TopicFetch(
            topic.topic,
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
                )
                for each in topic.partitions
            ],
        )
        for topic in response.responses
    ]
    code = getattr(response, "error_code", ErrorCode.none)
    return FetchResponse(code, getattr(response, "session_id", 0), topics)


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
