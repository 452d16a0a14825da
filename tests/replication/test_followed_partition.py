"""A follower on real logs, without a network: what each answer of the leader changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from drumlin.broker.hosting.hosted_partitions import log_end_at
from drumlin.config.topic import LogConfig
from drumlin.metadata.image import LogEnd
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.replication.waiting_room import Waiter
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.log.truncation import Truncation
from drumlin.turns import to_end
from drumlin.wire.by_hand.fetch_response import EpochEnd, PartitionFetch
from drumlin.wire.error_codes import ErrorCode, KafkaError
from replication.leader import Led, answer_of
from rig.time.stepped import Stepped
from storage.samples import (
    NOW_MS,
    TOPIC_ID,
    append,
    from_producer,
    marker,
    offsets,
    open_logs,
    read_all,
    read_bytes,
)

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)
LEADER = 1


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogDirectories]:
    logs = open_logs(tmp_path)
    yield logs
    logs.abandon()


@pytest.fixture
def led(logs: LogDirectories) -> Led:
    return Led(create(logs, "leader"), 0)


@pytest.fixture
def partition(logs: LogDirectories) -> FollowedPartition:
    return FollowedPartition(create(logs, "follower"), LEADER, 0)


def create(logs: LogDirectories, topic: str) -> PartitionLog:
    return logs.create(topic, 0, TOPIC_ID, CONFIG)


def take(partition: FollowedPartition, answer: PartitionFetch) -> None:
    carry_out(partition, to_end(partition.take(partition.position, answer, NOW_MS)))


def carry_out(partition: FollowedPartition, truncation: Truncation | None) -> None:
    if truncation is None:
        return
    truncation.prepare()
    assert partition.cut(truncation)
    truncation.rebuild()
    partition.finish(truncation)


def fetch(partition: FollowedPartition, led: Led, max_bytes: int = 1 << 20) -> PartitionFetch:
    """One round, with all that comes of it."""
    asked = partition.position
    answer = answer_of(led, asked, max_bytes)
    if answer.error_code is ErrorCode.offset_out_of_range:
        log = led.log
        carry_out(partition, partition.reset(asked, log.log_start_offset, log.log_end_offset))
    else:
        assert answer.error_code is ErrorCode.none
        take(partition, answer)
    return answer


def catch_up(partition: FollowedPartition, led: Led) -> None:
    for _ in range(100):
        fetch(partition, led)
        if partition.position.offset == led.log.log_end_offset and are_equal(partition, led):
            return
    raise AssertionError("it does not come to an end")


def are_equal(partition: FollowedPartition, led: Led) -> bool:
    start = max(led.log.log_start_offset, partition.log.log_start_offset)
    return read_all(partition.log, start) == read_all(led.log, start)


# -- records and marks -------------------------------------------------------------------------


def test_the_high_watermark_is_the_leaders_as_far_as_the_log_reaches(
    partition: FollowedPartition, led: Led
) -> None:
    for _ in range(4):
        append(led.log, 5)
    led.high_watermark = 15
    fetch(partition, led, max_bytes=300)
    end = partition.log.log_end_offset
    assert 0 < end < 15
    assert partition.high_watermark == end
    fetch(partition, led)
    assert (partition.high_watermark, partition.log.log_end_offset) == (15, 20)


def test_the_high_watermark_does_not_go_back(partition: FollowedPartition, led: Led) -> None:
    append(led.log, 5)
    fetch(partition, led)
    led.high_watermark = 2
    append(led.log, 5)
    fetch(partition, led)
    assert partition.high_watermark == 5


def test_the_leaders_log_start_offset_is_taken_over(partition: FollowedPartition, led: Led) -> None:
    for _ in range(4):
        append(led.log, 5)
    fetch(partition, led)
    led.log.delete_records_before(7)
    fetch(partition, led)
    assert partition.log.log_start_offset == 7
    assert partition.position.log_start_offset == 7


def test_it_deletes_nothing_beyond_its_high_watermark(
    partition: FollowedPartition, led: Led
) -> None:
    append(led.log, 5)
    fetch(partition, led)
    answer = answer_of(led, partition.position)
    take(partition, answer._replace(log_start_offset=50, high_watermark=60))
    assert partition.log.log_start_offset == partition.log.log_end_offset == 5


def test_what_comes_before_a_bad_batch_counts(partition: FollowedPartition, led: Led) -> None:
    append(led.log, 5)
    append(led.log, 5)
    led.change = lambda records: records[:-1] + b"\xff"
    with pytest.raises(KafkaError) as refused:
        fetch(partition, led)
    assert refused.value.code is ErrorCode.corrupt_message
    assert (partition.high_watermark, partition.log.log_end_offset) == (5, 5)
    led.change = None
    catch_up(partition, led)


def test_an_answer_to_what_was_asked_before_changes_nothing(
    partition: FollowedPartition, led: Led
) -> None:
    append(led.log, 5)
    asked = partition.position
    answer = answer_of(led, asked)
    partition.follow(2, 1)
    assert to_end(partition.take(asked, answer, NOW_MS)) is None
    assert partition.log.log_end_offset == partition.high_watermark == 0
    partition.follow(LEADER, 0)
    take(partition, answer)
    asked_at_5 = partition.position
    assert to_end(partition.take(asked, answer, NOW_MS)) is None
    assert partition.position == asked_at_5


def test_nothing_is_appended_after_an_interruption(partition: FollowedPartition, led: Led) -> None:
    for _ in range(200):
        append(led.log, 1)
    asked = partition.position
    work = Stepped(partition.take(asked, answer_of(led, asked), NOW_MS))
    next(work)
    end = partition.log.log_end_offset
    assert 0 < end < 200
    partition.interrupt()
    assert work.to_end() is None
    assert partition.log.log_end_offset == end
    assert partition.high_watermark == 0


# -- those who wait ----------------------------------------------------------------------------


class Told:
    """A fetch that waits here."""

    def __init__(self, partition: FollowedPartition, needed: int, *, for_stable: bool) -> None:
        self.times = 0
        partition.waiting.enter(Waiter(needed, self._tell), for_stable=for_stable)

    def _tell(self) -> None:
        self.times += 1


@pytest.mark.parametrize("for_stable", [False, True])
def test_consumers_wait_for_the_high_watermark(
    partition: FollowedPartition, led: Led, for_stable: bool
) -> None:
    append(led.log, 5)
    led.high_watermark = 0
    told = Told(partition, 1, for_stable=for_stable)
    fetch(partition, led)
    assert told.times == 0
    led.high_watermark = 5
    fetch(partition, led)
    assert told.times == 1


def test_they_are_told_of_bytes_that_came_before(partition: FollowedPartition, led: Led) -> None:
    append(led.log, 5, value=bytes(50))
    led.high_watermark = 0
    fetch(partition, led)
    led.high_watermark = 5
    told = Told(partition, 250, for_stable=False)
    fetch(partition, led)
    assert told.times == 1


def test_committed_readers_wait_for_the_end_of_a_transaction(
    partition: FollowedPartition, led: Led
) -> None:
    led.log.append_as_leader(from_producer(0, 3, is_transactional=True), 0, NOW_MS)
    told, stable = (Told(partition, 1, for_stable=each) for each in (False, True))
    fetch(partition, led)
    assert (told.times, stable.times) == (1, 0)
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 0)
    led.log.append_internal(marker(commit=True), 0, NOW_MS)
    fetch(partition, led)
    assert stable.times == 1
    assert partition.last_stable_offset == 4


@pytest.mark.parametrize("what", ["start", "epoch", "close", "truncation"])
def test_waiting_fetches_are_answered_when_all_is_different(
    partition: FollowedPartition, led: Led, what: str
) -> None:
    for _ in range(3):
        append(led.log, 5)
    fetch(partition, led)
    told = Told(partition, 1 << 30, for_stable=True)
    match what:
        case "start":
            led.log.delete_records_before(7)
            fetch(partition, led)
        case "epoch":
            partition.follow(3, 1)
        case "close":
            partition.close()
        case "truncation":
            answer = answer_of(led, partition.position)
            take(partition, answer._replace(diverging=EpochEnd(0, 12)))
    assert told.times == 1


# -- truncation --------------------------------------------------------------------------------


def test_what_the_leader_does_not_have_is_removed(
    partition: FollowedPartition, led: Led, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for log in (led.log, partition.log):
        append(log, 5)
    append(partition.log, 5, leader_epoch=1, value=b"lost")
    append(led.log, 4, leader_epoch=2)
    led.epoch = 2
    partition.follow(LEADER, 2)
    fetch(partition, led)
    assert partition.log.log_end_offset == 5
    catch_up(partition, led)
    (said,) = caplog.messages
    assert "is truncated to 5" in said
    assert partition.log.leader_epochs.entries == led.log.leader_epochs.entries


def test_a_log_without_records_tells_no_leader_epoch(led: Led) -> None:
    append(led.log, 5, leader_epoch=3)
    assert log_end_at(led.log, 5) == LogEnd(3, 5)
    led.log.high_watermark = 5
    led.log.delete_records_before(5)
    assert log_end_at(led.log, 5) == LogEnd(-1, 5)


def test_who_may_lead_in_its_stead_removes_nothing_for_a_leader(
    partition: FollowedPartition, led: Led
) -> None:
    for log in (led.log, partition.log):
        append(log, 5)
    append(partition.log, 5, leader_epoch=1)
    append(led.log, 4, leader_epoch=2)
    led.epoch = 2
    partition.follow(LEADER, 2)
    partition.may_lead_instead = True
    with pytest.raises(KafkaError) as refused:
        fetch(partition, led)
    assert refused.value.code is ErrorCode.eligible_leaders_not_available
    assert (partition.log.log_end_offset, partition.is_busy) == (10, False)
    with pytest.raises(KafkaError):
        partition.reset(partition.position, 0, 7)
    with pytest.raises(KafkaError):
        partition.reset(partition.position, 20, 30)
    assert partition.log.log_end_offset == 10
    partition.may_lead_instead = False  # the leader has said that it lives
    catch_up(partition, led)
    assert are_equal(partition, led)


def test_an_epoch_without_records_is_no_difference(partition: FollowedPartition, led: Led) -> None:
    """It led for a moment, and nothing was written."""
    for log in (led.log, partition.log):
        append(log, 5)
    partition.log.start_leader_epoch(3)
    led.log.start_leader_epoch(4)
    led.epoch = 4
    partition.follow(LEADER, 4)
    append(led.log, 5, leader_epoch=4)
    catch_up(partition, led)
    assert partition.log.leader_epochs.entries == led.log.leader_epochs.entries


def test_a_leader_that_contradicts_itself_makes_it_pause(
    partition: FollowedPartition, led: Led
) -> None:
    append(led.log, 5)
    fetch(partition, led)
    answer = answer_of(led, partition.position)
    with pytest.raises(KafkaError):
        take(partition, answer._replace(diverging=EpochEnd(0, 50)))
    assert not partition.is_busy
    with pytest.raises(KafkaError):
        partition.reset(partition.position, 0, 50)


def test_records_that_were_lost_are_fetched_again(partition: FollowedPartition, led: Led) -> None:
    """After a failure the log continues behind what it has lost: as a follower it must not."""
    for _ in range(4):
        append(led.log, 5)
    fetch(partition, led)
    log = partition.log
    log.truncate_to(10)
    log.roll(NOW_MS)
    log.append_as_follower(memoryview(b""), NOW_MS)
    log.epoch_due_at = 5
    carry_out(partition, partition.begin())
    assert log.log_end_offset == 5
    assert log.epoch_due_at is None
    catch_up(partition, led)


def test_an_epoch_that_was_due_does_not_begin_in_what_is_followed(
    partition: FollowedPartition, led: Led
) -> None:
    append(led.log, 5)
    partition.log.epoch_due_at = 0
    assert partition.begin() is None
    catch_up(partition, led)
    partition.log.start_leader_epoch(7)
    assert partition.log.leader_epochs.entries == ((0, 0), (7, 5))


def test_an_interruption_ends_a_truncation(partition: FollowedPartition, led: Led) -> None:
    append(led.log, 5)
    fetch(partition, led)
    answer = answer_of(led, partition.position)._replace(diverging=EpochEnd(0, 2))
    work = partition.take(partition.position, answer, NOW_MS)
    truncation = to_end(work)
    assert truncation is not None
    assert partition.is_busy
    truncation.prepare()
    partition.interrupt()
    assert not partition.is_wanted(truncation)
    assert partition.log.log_end_offset == 5
    partition.log.flush()
    assert partition.log.recovery_point == 5

    truncation = to_end(partition.take(partition.position, answer, NOW_MS))
    assert truncation is not None
    truncation.prepare()
    assert partition.cut(truncation)
    partition.interrupt()  # it leads, say: all must be done by now
    assert not partition.log.is_being_cut
    append(partition.log, 3)
    assert offsets(read_all(partition.log)) == [0, 1, 2]


# -- resets ------------------------------------------------------------------------------------


def test_a_follower_that_is_far_behind_begins_anew(partition: FollowedPartition, led: Led) -> None:
    append(partition.log, 5)
    for _ in range(10):
        append(led.log, 5)
    led.log.delete_records_before(22)
    catch_up(partition, led)
    log = partition.log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (22, 50, 50)
    assert read_bytes(log, 22) == read_bytes(led.log, 22)


def test_a_new_follower_of_an_emptied_log(partition: FollowedPartition, led: Led) -> None:
    append(led.log, 5)
    led.log.delete_records_before(5)
    fetch(partition, led)
    assert partition.log.log_end_offset == partition.log.log_start_offset == 5
    append(led.log, 5)
    catch_up(partition, led)


def test_a_follower_without_epochs_that_is_ahead(partition: FollowedPartition, led: Led) -> None:
    append(led.log, 5)
    append(partition.log, 9)
    partition.log.leader_epochs.clear()
    fetch(partition, led)
    assert partition.log.log_end_offset == 0  # the batch of nine holds the leader's end
    catch_up(partition, led)


# -- what the leader's log does not reach back to ----------------------------------------------


def test_diverged_records_before_the_leaders_log_start_go(
    partition: FollowedPartition, led: Led, caplog: pytest.LogCaptureFixture
) -> None:
    """All that was like this in the leader's log, or not, has been deleted there."""
    caplog.set_level("INFO")
    for log in (led.log, partition.log):
        append(log, 5)
    append(partition.log, 7, leader_epoch=1, value=b"lost")
    for _ in range(3):
        append(led.log, 4, leader_epoch=2)
    led.log.delete_records_before(10)
    led.epoch = 2
    partition.follow(LEADER, 2)
    fetch(partition, led)
    log = partition.log
    assert (log.log_start_offset, log.log_end_offset) == (0, 12)
    assert partition.position.offset == 10
    catch_up(partition, led)
    assert (log.log_start_offset, log.log_end_offset) == (10, 17)
    assert "is fetched anew from 10, beside the old log" in caplog.text


def test_it_begins_anew_where_no_epoch_tells_whether_its_records_are_the_leaders(
    partition: FollowedPartition, led: Led
) -> None:
    append(partition.log, 8, value=b"lost")
    append(led.log, 8, leader_epoch=1)
    led.log.roll(NOW_MS)
    led.log.delete_records_before(8)
    led.log.config = replace(CONFIG, retention_ms=0)
    assert led.log.delete_old_segments(NOW_MS + 1000)
    led.log.start_leader_epoch(2)
    assert led.log.leader_epochs.entries == ((2, 8),)
    led.epoch = 2
    partition.follow(LEADER, 2)
    fetch(partition, led)
    assert partition.log.segments.first.base_offset == partition.log.log_end_offset == 8
    append(led.log, 3, leader_epoch=2)
    catch_up(partition, led)


def test_it_gets_all_of_a_leader_whose_log_ends_before_its_own_begins(
    partition: FollowedPartition, led: Led
) -> None:
    """Only an unclean election leads to this; then all that there is is in that leader's log."""
    append(led.log, 5)
    partition.log.truncate_fully_and_start_at(20)
    append(partition.log, 5, leader_epoch=1)
    led.epoch = 2
    led.log.start_leader_epoch(2)
    partition.follow(LEADER, 2)
    catch_up(partition, led)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, 5)


def test_the_same_of_an_empty_log(partition: FollowedPartition, led: Led) -> None:
    append(led.log, 5)
    partition.log.truncate_fully_and_start_at(20)
    catch_up(partition, led)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, 5)


def test_an_epoch_in_which_it_led_and_wrote_nothing_is_no_record(
    partition: FollowedPartition, led: Led
) -> None:
    partition.log.start_leader_epoch(3)
    assert partition.begin() is None
    assert partition.position.last_fetched_epoch == -1
