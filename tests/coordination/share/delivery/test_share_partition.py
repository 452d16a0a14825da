"""A share partition in single cases: limits, throttling, locks, renewal, loading, roll-back."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from drumlin.coordination.share.delivery.acknowledgement import Acknowledgement, check_request
from drumlin.coordination.share.delivery.fetched_batches import (
    Acquired,
    AcquireMode,
    Fetched,
    InclusiveRange,
    Limits,
)
from drumlin.coordination.share.delivery.settings import Settings
from drumlin.coordination.share.delivery.share_partition import SharePartition
from drumlin.coordination.share.state.state import StateBatch, StoredRecordState
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.stepped import Stepped

_GAP, _ACCEPT, _RELEASE, _REJECT, _RENEW = range(5)
_PLENTY = Limits(500, 500)


def batches(*sizes: int) -> list[InclusiveRange]:
    found, start = [], 0
    for size in sizes:
        found.append(InclusiveRange(start, start + size - 1))
        start += size
    return found


def partition(settings: Settings | None = None) -> SharePartition:
    chosen = settings or Settings()
    return SharePartition(lambda: chosen, 0)


def acquire(
    share: SharePartition,
    log: list[InclusiveRange],
    member: str = "a",
    limits: Limits = _PLENTY,
    now: float = 0.0,
) -> list[tuple[int, int, int]]:
    """Fetch as a broker does, from the first record that may be had."""
    offset = share.next_fetch_offset
    found = [each for each in log if each.last_offset >= offset]
    if not found:
        return []
    return [tuple(each) for each in share.acquire(member, Fetched(offset, found), limits, now)]


def say(share: SharePartition, first: int, last: int, *types: int, member: str = "a") -> None:
    share.commit(share.acknowledge(member, [Acknowledgement(first, last, types)], 0.0))


def test_batches_are_acquired_whole_and_put_together_to_about_the_batch_size() -> None:
    share, log = partition(), batches(*[10] * 6)
    assert acquire(share, log, limits=Limits(1, 500)) == [(0, 9, 1)]
    assert acquire(share, log, limits=Limits(15, 5)) == [(10, 19, 1), (20, 29, 1)]
    assert acquire(share, log, limits=Limits(25, 15)) == [(30, 49, 1), (50, 59, 1)]
    assert acquire(share, log) == []


def test_with_a_strict_limit_not_one_record_more_is_acquired() -> None:
    share, log = partition(), batches(10, 10)
    strict = Limits(4, 500, AcquireMode.RECORD_LIMIT)
    assert acquire(share, log, limits=strict) == [(0, 3, 1)]
    assert acquire(share, log, "b", limits=strict) == [(4, 7, 1)]
    assert share.end_offset == 10
    assert acquire(share, log, limits=strict) == [(8, 9, 1), (10, 11, 1)]


def test_there_is_a_limit_of_records_in_flight_but_what_is_released_may_be_had_again() -> None:
    share, log = partition(Settings(max_record_locks=20)), batches(*[10] * 5)
    assert acquire(share, log) == [(0, 19, 1)]
    assert not share.can_acquire
    say(share, 12, 13, _RELEASE)
    assert share.can_acquire
    assert acquire(share, log, "b") == [(12, 13, 2)]
    say(share, 0, 9, _ACCEPT)
    assert (share.start_offset, share.in_flight) == (10, 10)
    assert acquire(share, log, "b") == [(20, 29, 1)]


def test_what_becomes_of_records_by_what_is_said_of_them() -> None:
    share, log = partition(), batches(10)
    acquire(share, log)
    change = share.acknowledge(
        "a", [Acknowledgement(0, 3, [_ACCEPT, _RELEASE, _REJECT, _GAP])], 0.0
    )
    states = [each.delivery_state for each in share.state(change)]
    assert states == [
        StoredRecordState.ACKNOWLEDGED,
        StoredRecordState.AVAILABLE,
        StoredRecordState.ARCHIVED,
        StoredRecordState.ARCHIVED,
    ]
    share.commit(change)
    assert acquire(share, log, "b") == [(1, 1, 2)]


def test_often_delivered_records_come_in_ever_smaller_parts_and_at_last_alone() -> None:
    share, log = partition(Settings(delivery_count_limit=5)), batches(16)
    sizes = []
    while share.next_fetch_offset < share.end_offset or not sizes:
        given = acquire(share, log)
        sizes.append(sum(last - first + 1 for first, last, _ in given))
        for first, last, _ in given:
            say(share, first, last, _RELEASE)
    assert sizes == [16, 16, 16, 8, *[1] * 8, 8, *[1] * 8]
    assert share.start_offset == 16  # all of them were given up


def test_a_bad_record_is_singled_out_and_its_neighbours_survive() -> None:
    share, log = partition(), batches(16)
    accepted: set[int] = set()
    while share.start_offset < 16:
        given = acquire(share, log)
        assert given, "stuck"
        for first, last, _ in given:
            # The reader fails at record 7, and then all that it had with it is released.
            fails = any(f <= 7 <= upto for f, upto, _ in given)
            say(share, first, last, _RELEASE if fails else _ACCEPT)
            accepted |= set() if fails else set(range(first, last + 1))
    assert accepted == set(range(16)) - {7}


def test_a_lock_that_times_out_gives_records_to_others_and_their_member_is_refused() -> None:
    share, log = partition(Settings(lock_duration_s=30.0)), batches(10)
    acquire(share, log, now=5.0)
    assert share.next_deadline() == 35.0
    assert share.expire(34.0) == ()
    assert share.expire(35.0) == (StateBatch(0, 9, 0, 1),)
    with pytest.raises(KafkaError) as refused:
        share.acknowledge("a", [Acknowledgement(0, 9, [_ACCEPT])], 36.0)
    assert refused.value.code is ErrorCode.invalid_record_state
    assert acquire(share, log, "b", now=36.0) == [(0, 9, 2)]


def test_a_renewed_lock_begins_anew_for_what_was_renewed() -> None:
    share, log = partition(), batches(10)
    acquire(share, log)
    assert not share.acknowledge("a", [Acknowledgement(2, 3, [_RENEW])], 20.0)
    assert share.expire(30.0) == (StateBatch(0, 1, 0, 1), StateBatch(4, 9, 0, 1))
    assert acquire(share, log, "b", now=31.0) == [(0, 1, 2), (4, 9, 2)]
    assert share.expire(50.0) == (StateBatch(2, 3, 0, 1),)


def test_a_group_may_forbid_renewing() -> None:
    share, log = partition(Settings(may_renew=False)), batches(10)
    acquire(share, log)
    with pytest.raises(KafkaError) as refused:
        share.acknowledge("a", [Acknowledgement(0, 9, [_RENEW])], 20.0)
    assert refused.value.code is ErrorCode.invalid_record_state
    assert share.next_deadline() == 30.0


def test_what_cannot_be_written_is_as_before_and_its_lock_times_out() -> None:
    share, log = partition(), batches(10)
    acquire(share, log)
    change = share.acknowledge("a", [Acknowledgement(0, 4, [_ACCEPT])], 1.0)
    with pytest.raises(KafkaError):
        share.acknowledge("a", [Acknowledgement(4, 5, [_ACCEPT])], 1.0)
    assert share.expire(31.0) == (StateBatch(5, 9, 0, 1),)
    assert acquire(share, log, "b", now=31.0) == [(5, 9, 2)]
    share.roll_back(change, 32.0)
    assert share.expire(32.0) == (StateBatch(0, 4, 0, 1),)
    assert acquire(share, log, "b", now=32.0) == [(0, 4, 2)]


def test_a_refused_request_changes_nothing() -> None:
    share, log = partition(), batches(10, 10)
    acquire(share, log, limits=Limits(1, 1))
    acquire(share, log, "b", limits=Limits(1, 1))
    with pytest.raises(KafkaError):
        share.acknowledge(
            "a", [Acknowledgement(0, 3, [_ACCEPT]), Acknowledgement(10, 10, [_ACCEPT])], 1.0
        )
    say(share, 0, 9, _ACCEPT)
    assert share.start_offset == 10


def test_what_lies_between_kept_batches_was_lost_with_a_broker_and_comes_again() -> None:
    kept = [StateBatch(5, 9, 2, 1), StateBatch(15, 16, 0, 2), StateBatch(17, 19, 4, 5)]
    share = SharePartition.load(Settings, 0, kept)
    log = batches(10, 10, 10)
    assert (share.start_offset, share.end_offset) == (0, 20)
    assert acquire(share, log, limits=Limits(2, 500)) == [(0, 4, 1)]
    assert acquire(share, log, limits=Limits(7, 500)) == [(10, 14, 1), (15, 16, 3)]
    say(share, 0, 4, _ACCEPT)
    say(share, 10, 16, _ACCEPT)
    assert share.start_offset == share.end_offset == 20
    assert acquire(share, log) == [(20, 29, 1)]


@pytest.mark.parametrize("end_offset", [0, 3, 5, 7, 10])
def test_what_a_log_has_lost_is_not_done(end_offset: int) -> None:
    """Other records get those offsets: they are delivered like any others."""
    kept = [StateBatch(0, 4, 0, 1), StateBatch(5, 9, 2, 1)]
    share = SharePartition.load(Settings, 0, kept, end_offset)
    assert share.end_offset <= end_offset
    log = batches(10, 10)
    acquired = acquire(share, log) + acquire(share, log)
    offsets = {each for first, last, _ in acquired for each in range(first, last + 1)}
    assert offsets >= set(range(end_offset, 20))


def test_aborted_records_are_passed_over() -> None:
    share, log = partition(), batches(10, 10, 10)
    fetched = Fetched(0, log, [log[1]])
    assert share.acquire("a", fetched, _PLENTY, 0.0) == [Acquired(0, 9, 1), Acquired(20, 29, 1)]
    say(share, 0, 9, _ACCEPT)
    assert share.start_offset == 20


def test_what_the_log_has_deleted_is_nobodys() -> None:
    share, log = partition(), batches(10, 10)
    acquire(share, log)
    change = share.acknowledge("a", [Acknowledgement(0, 9, [_ACCEPT])], 1.0)
    share.move_start(5)
    assert share.state(change) == (StateBatch(5, 9, 2, 1),)
    share.move_start(15)
    share.commit(change)
    assert (share.start_offset, share.end_offset) == (15, 20)
    assert not share.acknowledge("a", [Acknowledgement(10, 14, [_ACCEPT])], 2.0)
    say(share, 10, 19, _ACCEPT)
    assert share.start_offset == 20
    share.move_start(40)
    assert (share.start_offset, share.end_offset, share.next_fetch_offset) == (40, 40, 40)


def _steps_of(work: Coroutine[Any, Any, Any] | Stepped[Any]) -> tuple[int, Any]:
    steps, stepped = 0, work if isinstance(work, Stepped) else Stepped(work)
    while True:
        try:
            next(stepped)
            steps += 1
        except StopIteration as done:
            return steps, done.value


def _single(first: int, last: int, *types: int) -> list[Acknowledgement]:
    return [Acknowledgement(each, each, types) for each in range(first, last + 1)]


def test_very_many_acknowledgements_are_taken_in_turns() -> None:
    share, log = partition(), batches(*[1] * 500)
    acquire(share, log, limits=Limits(500, 1))
    work = share.acknowledging("a", _single(0, 499, _ACCEPT), lambda: 0.0)
    steps, change = _steps_of(work)
    assert steps == 500
    share.commit(change)
    assert share.start_offset == 500


@pytest.mark.parametrize("how", ["refused", "given up"])
def test_who_breaks_off_has_said_nothing_and_its_locks_time_out(how: str) -> None:
    """Also those that were due while it spoke."""
    share, log = partition(Settings(lock_duration_s=30)), batches(*[1] * 10)
    acquire(share, log, limits=Limits(10, 1))
    now = 0.0
    work = Stepped(share.acknowledging("a", _single(0, 9, _ACCEPT), lambda: now))
    for _ in range(5):
        next(work)
    now = 31.0
    assert [each[:2] for each in share.expire(now)] == [(each, each) for each in range(5, 10)]
    if how == "given up":
        work.close()
    else:
        with pytest.raises(KafkaError) as refused:
            next(work)
        assert refused.value.code is ErrorCode.invalid_record_state
    assert [each[:2] for each in share.expire(now)] == [(each, each) for each in range(5)]
    assert acquire(share, log, "b", limits=Limits(10, 1)) == [(each, each, 2) for each in range(10)]


def test_what_is_said_twice_at_the_same_time_is_taken_once() -> None:
    share, log = partition(), batches(*[1] * 4)
    acquire(share, log, limits=Limits(4, 1))
    first = Stepped(share.acknowledging("a", _single(0, 3, _ACCEPT), lambda: 0.0))
    next(first)
    with pytest.raises(KafkaError):
        share.acknowledge("a", _single(0, 0, _RELEASE), 0.0)
    share.commit(share.acknowledge("a", _single(3, 3, _RELEASE), 0.0))
    with pytest.raises(KafkaError):
        list(first)
    assert acquire(share, log, "b", limits=Limits(4, 1)) == [(3, 3, 2)]
    say(share, 0, 2, _ACCEPT)
    assert share.start_offset == 3


def test_locks_that_are_renewed_while_others_have_their_turn() -> None:
    """What is lost by then is not locked again."""
    share, log = partition(Settings(lock_duration_s=30)), batches(*[1] * 4)
    acquire(share, log, limits=Limits(2, 1), now=0.0)
    acquire(share, log, limits=Limits(2, 1), now=10.0)
    now = 20.0
    work = Stepped(share.acknowledging("a", _single(0, 3, _RENEW), lambda: now))
    for _ in range(4):
        next(work)
    now = 35.0
    share.expire(now)
    with pytest.raises(StopIteration):
        next(work)
    assert acquire(share, log, "b", limits=Limits(2, 1), now=now) == [(0, 0, 2), (1, 1, 2)]
    assert share.expire(60.0) == ()
    assert [each[:2] for each in share.expire(65.0)] == [(each, each) for each in range(4)]


def test_of_very_many_locks_some_time_out_at_a_time() -> None:
    share, log = partition(), batches(*[1] * 10)
    acquire(share, log, limits=Limits(10, 1))
    assert [len(share.expire(100.0, 4)) for _ in range(4)] == [4, 4, 2, 0]
    assert share.next_fetch_offset == 0


@pytest.mark.parametrize("runs", ["acquired one by one", "parted by what is said"])
def test_one_acknowledgement_of_very_many_runs_is_taken_in_turns(runs: str) -> None:
    count = 2000
    is_parted = runs == "parted by what is said"
    share, log = partition(), batches(count) if is_parted else batches(*[1] * count)
    acquire(share, log, limits=Limits(count, 1))
    types = [_ACCEPT, _RELEASE] * (count // 2) if is_parted else [_RELEASE]
    said = [Acknowledgement(0, count - 1, types)]
    steps, _ = _steps_of(check_request(said, knows_renew=True, says_renew=False))
    assert steps >= len(types) / 200
    steps, change = _steps_of(share.acknowledging("a", said, lambda: 0.0))
    assert steps >= count / 200
    assert len(change.runs) == count
    steps, batches_ = _steps_of(share.stating(change))
    assert steps >= count / 200 - 1
    assert len(batches_) == count
    steps, _ = _steps_of(share.committing(change))
    assert steps >= count / 200 - 1
    # Of what is available in so many pieces, one member gets some.
    got = acquire(share, log, "b", limits=Limits(count, 1))
    assert 0 < len(got) < count / 2
    again = acquire(share, log, "b", limits=Limits(count, 1))
    assert again[0][0] > got[-1][1]


def test_what_a_member_has_is_taken_back_and_rolled_back_in_turns() -> None:
    count = 2000
    share, log = partition(), batches(*[1] * count)
    acquire(share, log, limits=Limits(count, 1))
    steps, change = _steps_of(share.releasing("a", 0.0))
    assert steps >= count / 200 - 1
    steps, _ = _steps_of(share.rolling_back(change, 0.0))
    assert steps >= count / 200 - 1
    half = Stepped(share.releasing("a", 0.0))
    next(half)
    share.move_start(count // 2 + 50)
    _, change = _steps_of(half)
    rolling = Stepped(share.rolling_back(change, 0.0))
    next(rolling)
    rolling.close()
    assert not change
    share.commit(share.release("a", 1.0))
    assert acquire(share, log, "b", limits=Limits(10, 1))[0] == (
        count // 2 + 50,
        count // 2 + 50,
        2,
    )


def test_a_member_leaves_in_the_middle_of_an_acknowledgement() -> None:
    """The acknowledgement is refused, as the rest of its records is released; none stays locked."""
    share, log = partition(Settings(lock_duration_s=30)), batches(*[1] * 4)
    acquire(share, log, limits=Limits(4, 1), now=0.0)
    said = [Acknowledgement(each, each, [_ACCEPT]) for each in range(4)]
    work = Stepped(share.acknowledging("a", said, lambda: 2.0))
    next(work)
    next(work)
    share.commit(share.release("a", 1.0))
    with pytest.raises(KafkaError) as refused:
        list(work)
    assert refused.value.code is ErrorCode.invalid_record_state
    assert share.next_deadline() is not None
    assert share.expire(2.0)
    again = acquire(share, log, "b", limits=Limits(4, 1), now=2.0)
    assert again == [(each, each, 2) for each in range(4)]


def test_records_are_not_parted_more_finely_than_can_be_kept() -> None:
    """All of it is refused before anything is parted."""
    count = 20_002
    share, log = partition(), batches(count)
    acquire(share, log, limits=Limits(count, count))
    with pytest.raises(KafkaError) as refused:
        say(share, 0, count - 1, *[_ACCEPT, _RELEASE] * (count // 2))
    assert refused.value.code is ErrorCode.invalid_request
    assert len(list(share.runs)) == 1
    say(share, 0, count - 1, *[_ACCEPT] * count)
    assert share.start_offset == count
