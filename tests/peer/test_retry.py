"""How long a topic may be missing: counted from the first answer that says so."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from drumlin.peer import retry
from drumlin.peer.options import PeerOptions
from drumlin.peer.retry import UNKNOWN_TOPIC_PATIENCE_S, Deadline, retrying
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.worked_time import WorkedTime

OPTIONS = PeerOptions(retry_backoff_ms=2, retry_backoff_max_ms=10)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> WorkedTime:
    clock = WorkedTime(monkeypatch)
    monkeypatch.setattr(retry, "Deadline", partial(Deadline, clock=clock.monotonic))
    return clock


def run(clock: WorkedTime, takes_s: list[float], answers_missing: int, **options: float) -> int:
    """How many attempts it took until the topic was there; each takes its time."""
    attempts = 0

    async def attempt() -> int:
        nonlocal attempts
        attempts += 1
        clock.work(takes_s.pop(0))
        if attempts <= answers_missing:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, "topic 't' does not exist")
        return attempts

    async def before_retry(error: BaseException) -> None:
        pass

    async def all_of_it() -> int:
        deadline = Deadline(60_000, clock.monotonic)
        return await retrying(
            attempt, deadline=deadline, options=OPTIONS, before_retry=before_retry, **options
        )

    return asyncio.run(all_of_it())


def test_an_answer_that_is_long_in_coming_does_not_use_up_the_time(clock: WorkedTime) -> None:
    """A broker under load creates the topic while it answers, and says that it is missing."""
    assert run(clock, [UNKNOWN_TOPIC_PATIENCE_S + 0.1, 0.0], 1) == 2


def test_what_is_still_missing_is_not_there(clock: WorkedTime) -> None:
    later_attempts = [0.0625, 0.0625, 0.0625, 0.0625]
    takes_s = [0.0, *later_attempts, 0.0]
    with pytest.raises(KafkaError, match="does not exist"):
        run(clock, takes_s, 1_000_000, missing_s=0.25)
    assert takes_s == [0.0], "the time is up after those, and not before"
