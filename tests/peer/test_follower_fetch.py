"""A follower's Fetch says what the schemas say, and what a leader reads."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from drumlin.peer.follower_fetch import (
    VERSION_MAX,
    VERSION_MIN,
    Limits,
    Position,
    Replica,
    encode_fetch,
)
from drumlin.wire.by_hand.fetch_request import read_fetch_request
from drumlin.wire.messages import encode_request, parse_request, parse_request_header

VERSIONS = range(VERSION_MIN, VERSION_MAX + 1)
IDS = [UUID(int=number).bytes for number in range(1, 4)]
LIMITS = Limits(500, 1, 1000, 100)


def frame_of(version: int, rng: random.Random, count: int = 5) -> tuple[bytes, list, list]:
    keys = rng.sample([(topic, index) for topic in IDS for index in range(count * 10)], count * 2)
    wanted = [
        (key, Position(rng.randrange(9), rng.randrange(2**50), rng.randrange(-1, 9), index))
        for index, key in enumerate(keys[:count])
    ]
    body = encode_fetch(Replica(7, 2**40), LIMITS, (55, 6), wanted, keys[count:])
    return b"".join(encode_request("fetch", version, 3, "me", body))[4:], wanted, keys[count:]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [0, 1, 5, 300])
def test_the_schemas_read_what_was_meant(version: int, count: int) -> None:
    frame, wanted, forgotten = frame_of(version, random.Random(version), count)
    header = parse_request_header(frame)
    request = parse_request("fetch", version, frame, header.size)
    state = request.replica_state
    assert (state.replica_id, state.replica_epoch) == (7, 2**40)
    assert (request.session_id, request.session_epoch, request.isolation_level) == (55, 6, 0)
    assert (request.max_wait.total_seconds(), request.min_bytes, request.max_bytes) == (
        0.5,
        1,
        1000,
    )
    assert request.rack_id == ""
    read = {
        (topic.topic_id.bytes, each.partition): Position(
            each.current_leader_epoch,
            each.fetch_offset,
            each.last_fetched_epoch,
            each.log_start_offset,
        )
        for topic in request.topics
        for each in topic.partitions
    }
    assert read == dict(wanted)
    assert {
        (topic.topic_id.bytes, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    } == set(forgotten)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_reads_what_was_meant(version: int) -> None:
    frame, wanted, forgotten = frame_of(version, random.Random(version))
    header = parse_request_header(frame)
    request = read_fetch_request(version, memoryview(frame), header.size)
    assert request.replica_id == 7
    assert {
        (topic, index): (Position(*position), max_bytes)
        for topic, partitions in request.topics
        for index, *position, max_bytes in partitions
    } == {key: (each, 100) for key, each in wanted}
    named = [(topic, index) for topic, indexes in request.forgotten for index in indexes]
    assert sorted(named) == sorted(forgotten)
