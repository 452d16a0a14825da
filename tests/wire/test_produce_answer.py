"""Produce responses written at one go are what the schemas would write."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from drumlin.wire.by_hand.produce_answer import Outcome, Refused, write_produce_answer
from drumlin.wire.by_hand.produce_request import TopicProduce
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO, encode_response
from rig.data.messages import response_shape

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXTS = [None, "", "why", "ö" * 200]


def some_outcome(rng: random.Random) -> Outcome:
    if rng.random() < 0.6:
        return rng.randrange(2**60), rng.choice([-1, 0, 10**12]), rng.randrange(2**60)
    errors = [(n, rng.choice(["", "bad", "ä" * 99])) for n in range(rng.choice([0, 0, 0, 1, 3]))]
    code = rng.choice([each for each in ErrorCode if each is not ErrorCode.none])
    return Refused(code, rng.choice([-1, 0, 5]), errors, rng.choice(_TEXTS))


def by_schemas(version: int, topics: list[TopicProduce], outcomes: list[Outcome]) -> bytes:
    shape = response_shape("produce", version)
    following = iter(outcomes)

    def partition(index: int, outcome: Outcome) -> Any:
        refused = outcome if isinstance(outcome, Refused) else None
        base_offset, time_ms, start = (
            (-1, -1, outcome.log_start_offset) if isinstance(outcome, Refused) else outcome
        )
        errors = refused.record_errors if refused and version >= 8 else ()
        return shape(
            "PartitionProduceResponse",
            index=index,
            error_code=ErrorCode.none if refused is None else refused.code,
            base_offset=base_offset,
            log_append_time=None if time_ms < 0 else _EPOCH + timedelta(milliseconds=time_ms),
            log_start_offset=start,
            record_errors=tuple(
                shape("BatchIndexAndErrorMessage", batch_index=each, batch_index_error_message=why)
                for each, why in errors
            ),
            error_message=None if refused is None else refused.message,
        )

    responses = tuple(
        shape(
            "TopicProduceResponse",
            name=name.decode() if version < 13 else None,
            topic_id=UUID(bytes=name) if version >= 13 else None,
            partition_responses=tuple(partition(index, next(following)) for index, _ in parts),
        )
        for name, parts in topics
        if parts
    )
    message = shape("ProduceResponse", responses=responses, throttle_time=ZERO)
    return b"".join(encode_response("produce", version, 77, message))


@pytest.mark.parametrize("version", range(3, 14))
def test_answers_are_written_as_by_the_schemas(version: int) -> None:
    rng = random.Random(version)
    for _ in range(12):
        topics: list[TopicProduce] = []
        outcomes: list[Outcome] = []
        for _ in range(rng.choice([0, 1, 1, 2, 3, 3, 130])):
            name = rng.randbytes(15) + b"\x01" if version >= 13 else b"t" * rng.choice([1, 249])
            indexes = rng.sample(range(500), rng.choice([0, 1, 1, 3, 3, 140]))
            topics.append((name, [(index, None) for index in indexes]))
            outcomes += [some_outcome(rng) for _ in indexes]
        assert write_produce_answer(version, 77, topics, outcomes) == by_schemas(
            version, topics, outcomes
        )
