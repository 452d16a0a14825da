"""Fetch sessions (KIP-227) as a consumer meets them."""

from dataclasses import dataclass
from typing import Any

import pytest

from drumlin.broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchContext,
    FetchKey,
    FetchSessions,
    Wanted,
)
from drumlin.clock import ManualClock
from drumlin.wire.errors import ErrorCode, KafkaError


@dataclass
class Answer:
    high_watermark: int = 0
    log_start_offset: int = 0
    records: bytes = b""
    error_code: ErrorCode = ErrorCode.none


def key(partition: int) -> FetchKey:
    return FetchKey("t", None, partition)


def wanted(*partitions: int, fetch_offset: int = 0) -> dict[FetchKey, Wanted]:
    return {key(p): Wanted(fetch_offset, 1000, -1, -1, -1) for p in partitions}


def selected(context: FetchContext, **answers: Answer) -> list[int]:
    given: dict[FetchKey, Any] = {each: Answer() for each in context.wanted}
    for name, answer in answers.items():
        given[key(int(name[1:]))] = answer
    return [each.partition for each, _ in context.select(given)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def sessions(clock: ManualClock) -> FetchSessions:
    return FetchSessions(2, clock)


def start(sessions: FetchSessions, *partitions: int) -> FetchContext:
    context = sessions.open(NO_SESSION, INITIAL_EPOCH, wanted(*partitions), (), False)
    assert selected(context) == list(partitions)
    return context


def test_a_session_answers_everything_first_and_then_only_what_is_new(
    sessions: FetchSessions,
) -> None:
    session_id = start(sessions, 0, 1, 2).session_id
    assert session_id != NO_SESSION
    context = sessions.open(session_id, 1, {}, (), False)
    assert list(context.wanted) == [key(0), key(1), key(2)]
    assert selected(context) == []
    context = sessions.open(session_id, 2, {}, (), False)
    assert selected(context, p1=Answer(high_watermark=5)) == [1]
    context = sessions.open(session_id, 3, {}, (), False)
    assert selected(context, p1=Answer(high_watermark=5)) == []


def test_whoever_got_data_goes_to_the_back(sessions: FetchSessions) -> None:
    session_id = start(sessions, 0, 1, 2).session_id
    context = sessions.open(session_id, 1, {}, (), False)
    assert selected(context, p0=Answer(records=b"x")) == [0]
    context = sessions.open(session_id, 2, {}, (), False)
    assert list(context.wanted) == [key(1), key(2), key(0)]


def test_an_error_is_repeated_and_its_end_is_told(sessions: FetchSessions) -> None:
    session_id = start(sessions, 0).session_id
    failed = Answer(high_watermark=-1, error_code=ErrorCode.kafka_storage_error)
    for epoch in (1, 2):
        assert selected(sessions.open(session_id, epoch, {}, (), False), p0=failed) == [0]
    assert selected(sessions.open(session_id, 3, {}, (), False)) == [0]
    assert selected(sessions.open(session_id, 4, {}, (), False)) == []


def test_partitions_are_added_changed_and_forgotten(sessions: FetchSessions) -> None:
    session_id = start(sessions, 0, 1).session_id
    changed = wanted(1, 2, fetch_offset=7)
    context = sessions.open(session_id, 1, changed, [key(0)], False)
    assert [(k.partition, w.fetch_offset) for k, w in context.wanted.items()] == [(1, 7), (2, 7)]
    assert selected(context) == [2]


def test_forgetting_everything_ends_the_session(sessions: FetchSessions) -> None:
    session_id = start(sessions, 0).session_id
    assert sessions.open(session_id, 1, {}, [key(0)], False).session_id == NO_SESSION
    with pytest.raises(KafkaError) as error:
        sessions.open(session_id, 2, {}, (), False)
    assert error.value.code is ErrorCode.fetch_session_id_not_found


def test_wrong_epochs_and_ids(sessions: FetchSessions) -> None:
    session_id = start(sessions, 0).session_id
    for given_id, epoch, by_id, code in [
        (session_id, 2, False, ErrorCode.invalid_fetch_session_epoch),
        (session_id + 1, 1, False, ErrorCode.fetch_session_id_not_found),
        (session_id, 1, True, ErrorCode.fetch_session_topic_id_error),
    ]:
        with pytest.raises(KafkaError) as error:
            sessions.open(given_id, epoch, {}, (), by_id)
        assert error.value.code is code


def test_the_final_epoch_closes_and_a_new_full_fetch_replaces(sessions: FetchSessions) -> None:
    first = start(sessions, 0).session_id
    again = sessions.open(first, INITIAL_EPOCH, wanted(0), (), False)
    assert again.session_id not in (NO_SESSION, first)
    assert len(sessions) == 1
    closed = sessions.open(again.session_id, FINAL_EPOCH, wanted(0), (), False)
    assert closed.session_id == NO_SESSION
    assert len(sessions) == 0


def test_a_full_cache_gives_no_session_until_one_is_stale(
    sessions: FetchSessions, clock: ManualClock
) -> None:
    first = start(sessions, 0).session_id
    start(sessions, 1)
    assert sessions.open(NO_SESSION, INITIAL_EPOCH, wanted(2), (), False).session_id == NO_SESSION
    clock.advance_ms(121_000)
    assert start(sessions, 2).session_id != NO_SESSION
    with pytest.raises(KafkaError):
        sessions.open(first, 1, {}, (), False)


def test_a_larger_one_takes_the_place_of_a_smaller_old_one(
    sessions: FetchSessions, clock: ManualClock
) -> None:
    small, other = start(sessions, 0).session_id, start(sessions, 0, 1, 2).session_id
    clock.advance_ms(121_000)
    for session_id in (small, other):
        sessions.open(session_id, 1, {}, (), False)  # both are in use
    assert start(sessions, 3, 4).session_id != NO_SESSION
    assert sessions.open(other, 2, {}, (), False).session_id == other
    with pytest.raises(KafkaError):
        sessions.open(small, 2, {}, (), False)
