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


# -- partitions of all sessions together ---------------------------------------------------------


@pytest.fixture
def narrow(clock: ManualClock) -> FetchSessions:
    """Room for ten partitions."""
    return FetchSessions(100, clock, max_partitions=10)


def is_known(sessions: FetchSessions, context: FetchContext, epoch: int = 1) -> bool:
    try:
        sessions.open(context.session_id, epoch, {}, (), False)
    except KafkaError as error:
        assert error.code is ErrorCode.fetch_session_id_not_found
        return False
    return True


def test_whoever_adds_partitions_for_ever_loses_the_session(narrow: FetchSessions) -> None:
    small, greedy = start(narrow, 0, 1), start(narrow, 0)
    for epoch in range(1, 8):
        narrow.open(greedy.session_id, epoch, wanted(epoch), (), False)
    with pytest.raises(KafkaError) as error:
        narrow.open(greedy.session_id, 8, wanted(8), (), False)
    assert error.value.code is ErrorCode.fetch_session_id_not_found
    assert not is_known(narrow, greedy, 8)
    assert is_known(narrow, small)
    assert start(narrow, *range(8)).session_id != NO_SESSION  # there is room again


def test_a_fetch_too_large_for_a_session_is_answered_without_one(narrow: FetchSessions) -> None:
    other = start(narrow, 0)
    assert start(narrow, *range(11)).session_id == NO_SESSION
    assert is_known(narrow, other)


def test_the_largest_session_gives_way_to_a_smaller_one(narrow: FetchSessions) -> None:
    large, small = start(narrow, *range(7)), start(narrow, 0, 1)
    asking = start(narrow, 0, 1, 2)
    assert asking.session_id != NO_SESSION
    assert [is_known(narrow, each) for each in (large, small, asking)] == [False, True, True]


def test_nobody_gives_way_to_a_larger_one(narrow: FetchSessions) -> None:
    others = [start(narrow, *range(3)) for _ in range(3)]
    assert start(narrow, *range(4)).session_id == NO_SESSION
    assert all(is_known(narrow, each) for each in others)


def test_stale_sessions_give_way_to_larger_ones(narrow: FetchSessions, clock: ManualClock) -> None:
    stale = start(narrow, *range(3))
    clock.advance_ms(121_000)
    fresh = start(narrow, *range(3))
    assert start(narrow, *range(7)).session_id != NO_SESSION
    assert [is_known(narrow, each) for each in (stale, fresh)] == [False, True]


def test_partitions_that_are_forgotten_leave_room(narrow: FetchSessions) -> None:
    context = start(narrow, *range(10))
    narrow.open(context.session_id, 1, {}, [key(each) for each in range(1, 10)], False)
    assert start(narrow, *range(9)).session_id != NO_SESSION
    narrow.open(context.session_id, FINAL_EPOCH, {}, (), False)
    assert start(narrow, 0).session_id != NO_SESSION
