"""How long a topic may be missing: counted from the first answer that says so."""

from __future__ import annotations

import asyncio
import time

import pytest

from drumlin.peer.options import PeerOptions
from drumlin.peer.retry import UNKNOWN_TOPIC_PATIENCE_S, Deadline, retrying
from drumlin.wire.errors import ErrorCode, KafkaError

OPTIONS = PeerOptions(retry_backoff_ms=2, retry_backoff_max_ms=10)


def run(first_takes_s: float, answers_missing: int, **options: float) -> int:
    """How many attempts it took until the topic was there."""
    attempts = 0

    async def attempt() -> int:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await asyncio.sleep(first_takes_s)
        if attempts <= answers_missing:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, "topic 't' does not exist")
        return attempts

    async def before_retry(error: BaseException) -> None:
        pass

    async def all_of_it() -> int:
        deadline = Deadline(60_000)
        return await retrying(
            attempt, deadline=deadline, options=OPTIONS, before_retry=before_retry, **options
        )

    return asyncio.run(all_of_it())


def test_an_answer_that_is_long_in_coming_does_not_use_up_the_time() -> None:
    """A broker under load creates the topic while it answers, and says that it is missing."""
    assert run(UNKNOWN_TOPIC_PATIENCE_S + 0.1, 1) == 2


def test_what_is_still_missing_is_not_there() -> None:
    began = time.monotonic()
    with pytest.raises(KafkaError, match="does not exist"):
        run(0, 1_000_000, missing_s=0.2)
    assert 0.2 <= time.monotonic() - began < 5
