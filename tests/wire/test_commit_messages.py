"""Commits of offsets, read and answered by hand, beside the ways that know every message."""

from __future__ import annotations

import dataclasses
import random
import tracemalloc
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from drumlin.turns import to_end
from drumlin.wire.by_hand.commit_request import (
    PIECE_MAX,
    CommitRequest,
    TopicOffsets,
    read_commit_request,
    read_txn_commit_request,
)
from drumlin.wire.by_hand.commit_response import TopicResult, commit_response, txn_commit_response
from drumlin.wire.error_codes import ErrorCode, MalformedMessage
from drumlin.wire.messages import (
    ELEMENTS_MAX,
    ZERO,
    encode_request,
    encode_response,
    parse_request,
    parse_request_header,
)
from rig.data.messages import build, response_shape
from rig.depth import so_many

_VERSIONS = [("offset_commit", version) for version in range(2, 11)] + [
    ("txn_offset_commit", version) for version in range(6)
]
_METADATA = ["", "", None, "x", "höher", "😀" * 40, "y" * 200]


def a_request(api: str, version: int, chance: random.Random) -> bytes:
    """A frame without its length prefix."""
    plain = chance.random() < 0.5
    topics: list[dict[str, Any]] = [
        {
            "name": f"topic-{chance.randrange(5)}",
            "partitions": [
                {
                    "partition_index": chance.choice([0, 1, 5_000, -1, 2**31 - 1]),
                    "committed_offset": chance.choice([-1, 0, 2**40, 2**63 - 1]),
                    "committed_leader_epoch": chance.choice([-1, 0, 7]),
                    "committed_metadata": ""
                    if plain
                    else chance.choice(_METADATA if chance.random() < 0.999 else ["z" * 32_767]),
                }
                for _ in range(chance.choice([0, 1, 3, 130, 2_100]))
            ],
        }
        for _ in range(chance.choice([0, 1, 3]))
    ]
    if api == "offset_commit":
        for topic in topics:
            topic["topic_id"] = chance.choice([None, UUID(int=chance.getrandbits(128))])
    fields: dict[str, Any] = {
        "group_id": chance.choice(["g", "", "g" * 300, "группа"]),
        "member_id": chance.choice(["", "m"]),
        "group_instance_id": chance.choice([None, "i"]),
        "topics": topics,
    }
    generation = chance.choice([-1, 5])
    if api == "offset_commit":
        retention = chance.choice([-1, 1_000])
        fields |= {"generation_id_or_member_epoch": generation, "retention_time": retention}
    else:
        fields |= {"transactional_id": "mine", "producer_id": 7, "producer_epoch": 3}
        fields |= {"generation_id": generation}
    message = build(api, version, fields)
    return b"".join(encode_request(api, version, 1, "c", message))[4:]


def read(api: str, version: int, frame: bytes) -> CommitRequest | str:
    memory = memoryview(frame)
    try:
        position = parse_request_header(memory).size
        if api == "offset_commit":
            return to_end(read_commit_request(version, memory, position))
        asked = to_end(read_txn_commit_request(version, memory, position))
    except MalformedMessage:
        return "malformed"
    return asked.commit


def decoded(api: str, version: int, frame: bytes) -> CommitRequest | str:
    """The same, by the decoder of all messages."""
    memory = memoryview(frame)
    try:
        position = parse_request_header(memory).size
        request = parse_request(api, version, memory, position)
    except MalformedMessage:
        return "malformed"
    generation = getattr(request, "generation_id_or_member_epoch", None)
    retention = getattr(request, "retention_time", None)
    retention_ms = -1 if retention is None else retention // timedelta(milliseconds=1)
    return CommitRequest(
        request.group_id,
        getattr(request, "member_id", ""),
        getattr(request, "group_instance_id", None),
        getattr(request, "generation_id", -1) if generation is None else generation,
        None if retention_ms == -1 else retention_ms,
        [piece for topic in request.topics for piece in _pieces(topic, version >= 10)],
    )


def _pieces(topic: Any, has_ids: bool) -> Iterator[TopicOffsets]:
    for first in range(0, max(1, len(topic.partitions)), PIECE_MAX):
        parts = topic.partitions[first : first + PIECE_MAX]
        yield TopicOffsets(
            "" if has_ids else topic.name,
            topic.topic_id if has_ids else None,
            tuple(part.partition_index for part in parts),
            tuple(part.committed_offset for part in parts),
            tuple(getattr(part, "committed_leader_epoch", -1) for part in parts),
            [(part.committed_metadata or "").encode() for part in parts],
            begins=first == 0,
        )


def same(one: CommitRequest | str, other: CommitRequest | str) -> bool:
    """Whether both say the same; no metadata is the same as an empty one for each."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    filled = [
        topic._replace(metadata=topic.metadata or [b""] * len(topic.partitions))
        for topic in one.topics
    ]
    return one._replace(topics=filled) == other


@pytest.mark.parametrize(("api", "version"), _VERSIONS)
def test_what_is_read_is_what_the_decoder_reads(api: str, version: int) -> None:
    chance = random.Random(version)
    for _ in range(so_many(4, 10)):
        frame = a_request(api, version, chance)
        found = read(api, version, frame)
        assert isinstance(found, CommitRequest)
        assert same(found, decoded(api, version, frame))


@pytest.mark.parametrize(("api", "version"), _VERSIONS)
def test_what_is_refused_is_what_the_decoder_refuses(api: str, version: int) -> None:
    chance = random.Random(version)
    for _ in range(so_many(30, 120)):
        frame = bytearray(a_request(api, version, chance))
        if len(frame) > 20_000:
            continue
        for _ in range(chance.randrange(3)):
            frame[chance.randrange(11, len(frame))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
        cut = bytes(frame[: chance.choice([len(frame)] * 3 + [chance.randrange(11, len(frame))])])
        assert same(read(api, version, cut), decoded(api, version, cut)), cut


def test_answers_of_any_length_leave_no_memory_behind() -> None:
    """Clients choose how many partitions there are: nothing may be kept for each number."""
    tracemalloc.start()
    try:
        for count in range(20_000, 20_020):
            to_end(commit_response(9, [TopicResult("t", range(count), None)]))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


def test_more_partitions_than_a_request_may_name() -> None:
    half = {"committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    fields = {"group_id": "g", "member_id": "", "generation_id_or_member_epoch": -1}
    topics = [{"name": "t", "partitions": [{"partition_index": 1} | half]}]
    message = build("offset_commit", 9, fields | {"topics": topics})
    (topic,) = message.topics
    topic = dataclasses.replace(topic, partitions=topic.partitions * (ELEMENTS_MAX // 2))
    message = dataclasses.replace(message, topics=(topic, topic))
    frame = b"".join(encode_request("offset_commit", 9, 1, "c", message))[4:]
    assert read("offset_commit", 9, frame) == "malformed"


@pytest.mark.parametrize(("api", "version"), _VERSIONS)
def test_what_is_answered_is_what_the_encoder_writes(api: str, version: int) -> None:
    chance = random.Random(version)
    kind = "OffsetCommit" if api == "offset_commit" else "TxnOffsetCommit"
    answer = commit_response if api == "offset_commit" else txn_commit_response
    shape = response_shape(api, version)
    for _ in range(so_many(4, 20)):
        results = [
            TopicResult(
                chance.choice([None, UUID(int=7)])
                if version >= 10
                else "t" * chance.randrange(120),
                partitions := [chance.randrange(2**31) for _ in range(chance.choice([0, 1, 200]))],
                chance.choice([None, [chance.choice(list(ErrorCode)) for _ in partitions]]),
            )
            for _ in range(chance.choice([0, 1, 3, 130]))
        ]
        topics = tuple(
            shape(
                f"{kind}ResponseTopic",
                **({"topic_id": topic} if version >= 10 else {"name": topic}),
                partitions=tuple(
                    shape(f"{kind}ResponsePartition", partition_index=index, error_code=code)
                    for index, code in zip(
                        partitions, codes or [ErrorCode.none] * len(partitions), strict=True
                    )
                ),
            )
            for topic, partitions, codes in results
        )
        expected = shape(f"{kind}Response", throttle_time=ZERO, topics=topics)
        encoded = [
            b"".join(encode_response(api, version, 5, each))
            for each in (to_end(answer(version, results)), expected)
        ]
        assert encoded[0] == encoded[1]
