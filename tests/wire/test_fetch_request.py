"""Fetch requests are read in place as the decoder of the declared message reads them."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.wire.by_hand.fetch_request import FetchRequest, read_fetch_request
from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.messages import (
    encode_request,
    parse_request,
    parse_request_header,
    schema_versions,
)
from rig.data.messages import request_shape
from rig.depth import so_many

_VERSIONS = range(4, schema_versions("fetch")[1] + 1)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_NAMES = st.text(max_size=200)
_IDS = st.none() | st.uuids()


def frame_of(version: int, message: Any) -> bytes:
    return b"".join(encode_request("fetch", version, 7, "tester", message))[4:]


def read(version: int, frame: bytes) -> FetchRequest:
    view = memoryview(frame)
    return read_fetch_request(version, view, parse_request_header(view).size)


def expected(version: int, frame: bytes) -> FetchRequest:
    """As the general decoder has it."""
    message = parse_request("fetch", version, frame, parse_request_header(frame).size)

    def topic_of(topic: Any) -> bytes:
        if version < 13:
            return str(topic.topic).encode()
        return bytes(16) if topic.topic_id is None else bytes(topic.topic_id.bytes)

    return FetchRequest(
        message.replica_state.replica_id if version >= 15 else message.replica_id,
        message.replica_state.replica_epoch if version >= 15 else -1,
        message.max_wait // timedelta(milliseconds=1),
        message.min_bytes,
        message.max_bytes,
        message.isolation_level,
        getattr(message, "session_id", 0),
        getattr(message, "session_epoch", -1),
        [
            (
                topic_of(topic),
                [
                    (
                        part.partition,
                        getattr(part, "current_leader_epoch", -1),
                        part.fetch_offset,
                        getattr(part, "last_fetched_epoch", -1),
                        getattr(part, "log_start_offset", -1),
                        part.partition_max_bytes,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in message.topics
        ],
        [
            (topic_of(topic), tuple(topic.partitions))
            for topic in getattr(message, "forgotten_topics_data", ())
        ],
        getattr(message, "rack_id", "").encode(),
    )


@st.composite
def requests(draw: st.DrawFn, version: int) -> Any:
    shape = request_shape("fetch", version)

    def partition() -> Any:
        return shape(
            "FetchPartition",
            partition=draw(_INT32),
            current_leader_epoch=draw(_INT32),
            fetch_offset=draw(_INT64),
            last_fetched_epoch=draw(_INT32),
            log_start_offset=draw(_INT64),
            partition_max_bytes=draw(_INT32),
            replica_directory_id=draw(_IDS),
            high_watermark=draw(st.sampled_from([2**63 - 1, 5])),
        )

    def some(what: Any) -> tuple[Any, ...]:
        return tuple(what() for _ in range(draw(st.integers(0, 3))))

    def topic() -> Any:
        return shape(
            "FetchTopic", topic=draw(_NAMES), topic_id=draw(_IDS), partitions=some(partition)
        )

    def forgotten() -> Any:
        return shape(
            "ForgottenTopic",
            topic=draw(_NAMES),
            topic_id=draw(_IDS),
            partitions=tuple(draw(st.lists(_INT32, max_size=4))),
        )

    more: dict[str, Any] = {}
    if version >= 15:
        more["replica_state"] = shape(
            "ReplicaState", replica_id=draw(_INT32), replica_epoch=draw(_INT64)
        )
    return shape(
        "FetchRequest",
        cluster_id=draw(st.none() | _NAMES),
        replica_id=draw(_INT32),
        max_wait=timedelta(milliseconds=draw(_INT32)),
        min_bytes=draw(_INT32),
        max_bytes=draw(_INT32),
        isolation_level=draw(st.integers(-128, 127)),
        session_id=draw(_INT32),
        session_epoch=draw(_INT32),
        topics=some(topic),
        forgotten_topics_data=some(forgotten) if version >= 7 else (),
        rack_id=draw(_NAMES),
        **more,
    )


@pytest.mark.parametrize("version", _VERSIONS)
@given(st.data())
@settings(
    max_examples=so_many(15, 100),
)
def test_all_versions(version: int, data: st.DataObject) -> None:
    frame = frame_of(version, data.draw(requests(version)))
    assert read(version, frame) == expected(version, frame)
    assert read(version, frame + b"more") == expected(version, frame)


@pytest.mark.parametrize("version", _VERSIONS)
@given(st.data())
@settings(
    max_examples=so_many(15, 100),
)
def test_what_is_cut_off_or_changed_is_refused_or_read_alike(
    version: int, data: st.DataObject
) -> None:
    frame = bytearray(frame_of(version, data.draw(requests(version))))
    start = parse_request_header(bytes(frame)).size
    position = data.draw(st.integers(start, len(frame) - 1))
    if data.draw(st.booleans()):
        del frame[position:]
    else:
        frame[position] = data.draw(st.integers(0, 255))
    try:
        wanted = expected(version, bytes(frame))
    except MalformedMessage:
        # Here names need not be text, and of tags that are not known only the size counts.
        return
    assert read(version, bytes(frame)) == wanted


@pytest.mark.parametrize("version", _VERSIONS)
def test_counts_are_held_against_the_bytes_that_are_left(version: int) -> None:
    shape = request_shape("fetch", version)
    message = shape(
        "FetchRequest",
        replica_id=-1,
        max_wait=timedelta(0),
        min_bytes=1,
        max_bytes=1,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(),
        forgotten_topics_data=(),
        rack_id="",
    )
    frame = bytearray(frame_of(version, message))
    start = parse_request_header(bytes(frame)).size
    topics_at = start + (21 if version >= 15 else 25 if version >= 7 else 17)
    if version >= 12:
        frame[topics_at : topics_at + 1] = b"\xff\xff\xff\xff\x07"
    else:
        frame[topics_at : topics_at + 4] = b"\x7f\xff\xff\xff"
    with pytest.raises(MalformedMessage):
        read(version, bytes(frame))


@pytest.mark.parametrize("version", [11, 12])
def test_a_name_is_never_null(version: int) -> None:
    topic = request_shape("fetch", version)("FetchTopic", topic="abc", partitions=())
    fields = {"replica_id": -1, "max_wait": timedelta(0), "min_bytes": 1, "topics": (topic,)}
    shape = request_shape("fetch", version)
    message = shape("FetchRequest", **fields, forgotten_topics_data=(), rack_id="")
    name, null = (b"\x04abc", b"\x00abc") if version == 12 else (b"\x00\x03abc", b"\xff\xffabc")
    with pytest.raises(MalformedMessage, match="null"):
        read(version, frame_of(version, message).replace(name, null))


def test_ids_are_their_bytes() -> None:
    topic_id = uuid.uuid4()
    shape = request_shape("fetch", 13)
    topic = shape("FetchTopic", topic_id=topic_id, partitions=())
    fields = {"replica_id": -1, "max_wait": timedelta(0), "min_bytes": 1, "topics": (topic,)}
    message = shape("FetchRequest", **fields, forgotten_topics_data=(), rack_id="")
    assert read(13, frame_of(13, message)).topics == [(topic_id.bytes, [])]
