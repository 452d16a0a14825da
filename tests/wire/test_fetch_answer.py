"""Fetch responses are written as the encoder of the declared message writes them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.wire.by_hand.fetch_answer import Answer, Joined, fetch_answers
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import encode_response, schema_versions
from drumlin.wire.uvarint import uvarint
from rig.data.messages import response_shape
from rig.depth import so_many

_VERSIONS = range(4, schema_versions("fetch")[1] + 1)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_ABORTED = st.none() | st.lists(st.tuples(_INT64, _INT64), max_size=130)
_RECORDS = st.binary(max_size=300) | st.just(bytes(20_000))
_ERRORS = st.sampled_from([each.value for each in ErrorCode])
_ANSWERS = st.tuples(_ERRORS, _INT64, _INT64, _INT64, _ABORTED, _RECORDS, st.none())
_TOPICS = st.lists(
    st.tuples(st.text(max_size=150), st.lists(st.tuples(_INT32, _ANSWERS), max_size=3)), max_size=3
)


class Slice:
    """Records that were not copied."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __len__(self) -> int:
        return len(self.content)


def topic_id_of(name: str) -> UUID:
    return UUID(bytes=(name.encode() + bytes(16))[:15] + b"x")


def written(
    version: int, correlation_id: int, session_id: int, error: int, topics: Any
) -> list[Any]:
    answers = fetch_answers(version)
    pieces: list[Any] = []
    for name, partitions in topics:
        topic = name.encode() if version < 13 else topic_id_of(name).bytes
        pieces.append(answers.topic(topic, len(partitions)))
        sliced = [(i, (*a[:5], Slice(a[5]) if a[5] else b"", a[6])) for i, a in partitions]
        answers.partitions(pieces, sliced)
        pieces.append(answers.topic_end)
    return answers.frame(correlation_id, len(topics), pieces, session_id=session_id, error=error)


def expected(version: int, correlation_id: int, session_id: int, error: int, topics: Any) -> bytes:
    shape = response_shape("fetch", version)

    def partition(index: int, answer: Answer) -> Any:
        number, high_watermark, last_stable_offset, log_start, aborted, records, parts = answer
        more = {}
        if parts is not None:
            more["diverging_epoch"] = shape("EpochEndOffset", epoch=parts[0], end_offset=parts[1])
        transactions = None
        if aborted is not None:
            transactions = tuple(
                shape("AbortedTransaction", producer_id=each[0], first_offset=each[1])
                for each in aborted
            )
        return shape(
            "PartitionData",
            partition_index=index,
            error_code=ErrorCode(number),
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log_start,
            aborted_transactions=transactions,
            records=records,
            **more,
        )

    response = shape(
        "FetchResponse",
        throttle_time=timedelta(0),
        error_code=ErrorCode(error),
        session_id=session_id,
        responses=tuple(
            shape(
                "FetchableTopicResponse",
                topic=name,
                topic_id=topic_id_of(name),
                partitions=tuple(partition(*each) for each in partitions),
            )
            for name, partitions in topics
        ),
    )
    return b"".join(encode_response("fetch", version, correlation_id, response))


@pytest.mark.parametrize("version", _VERSIONS)
@given(_INT32, _INT32, _ERRORS, _TOPICS)
@settings(
    max_examples=so_many(15, 100),
)
def test_all_versions(
    version: int, correlation_id: int, session_id: int, error: int, topics: Any
) -> None:
    parts = written(version, correlation_id, session_id, error, topics)
    content = b"".join(each.content if isinstance(each, Slice) else each for each in parts)
    assert content == expected(version, correlation_id, session_id, error, topics)
    assert all(len(each) for each in parts)


@pytest.mark.parametrize("version", [12, 18])
@given(st.tuples(st.integers(0, 2**31 - 1), _INT64))
def test_where_logs_part(version: int, parts: tuple[int, int]) -> None:
    topics = [("t", [(3, (0, 7, 7, 0, None, b"", parts))])]
    assert b"".join(written(version, 1, 0, 0, topics)) == expected(version, 1, 0, 0, topics)


@given(st.integers(0, 2**32 - 1))
def test_lengths(value: int) -> None:
    encoded = uvarint(value)
    assert sum((byte & 0x7F) << 7 * place for place, byte in enumerate(encoded)) == value
    assert [byte >= 0x80 for byte in encoded] == [True] * (len(encoded) - 1) + [False]


def test_very_many_pieces_are_joined_on_the_way() -> None:
    joined, pieces = Joined(), [b"%d," % each for each in range(10_000)]
    for first in range(0, len(pieces), 100):
        joined.add(pieces[first : first + 100])
    parts = joined.parts(b"head", b"end")
    assert b"".join(parts) == b"head" + b"".join(pieces) + b"end"
    assert joined.size == sum(map(len, pieces))
    assert max(map(len, parts)) < joined.size / 5
