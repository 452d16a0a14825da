"""A share partition in single cases: limits, throttling, locks, renewal, loading, roll-back."""

from __future__ import annotations

import pytest

from drumlin.coordination.share_partitions.acknowledgement import Acknowledgement
from drumlin.coordination.share_partitions.fetched import (
    Acquired,
    AcquireMode,
    Fetched,
    Limits,
    OffsetRange,
)
from drumlin.coordination.share_partitions.settings import Settings
from drumlin.coordination.share_partitions.share_partition import SharePartition
from drumlin.coordination.shares.state import StateBatch
from drumlin.wire.errors import ErrorCode, KafkaError

_ACCEPT, _RELEASE, _REJECT, _RENEW = 1, 2, 3, 4
_PLENTY = Limits(500, 500)


def batches(*sizes: int) -> list[OffsetRange]:
    found, start = [], 0
    for size in sizes:
        found.append(OffsetRange(start, start + size - 1))
        start += size
    return found


def partition(settings: Settings | None = None) -> SharePartition:
    chosen = settings or Settings()
    return SharePartition(lambda: chosen, 0)


def acquire(
    share: SharePartition,
    log: list[OffsetRange],
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
