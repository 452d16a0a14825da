"""Appending, rolling, reading, searching, cutting: one log on one working disk."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from random import Random

import pytest

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import (
    BatchHeader,
    encode_empty_batch,
    parse_header,
    seal,
    write_header,
)
from drumlin.records.plain.record import Record, decode_records, encode_batch
from drumlin.records.validation.validation import PreparedBatch
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.producer_state import ProducerState
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.depth import seeds
from storage.samples import (
    NOW_MS,
    append,
    batch_of,
    create,
    from_producer,
    offsets,
    prepared,
    read_all,
    read_bytes,
)


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


# -- appending ---------------------------------------------------------------------------------


def test_offsets_follow_each_other(log: PartitionLog) -> None:
    assert append(log, 3)[:2] == (0, 2)
    assert append(log, 2)[:2] == (3, 4)
    assert offsets(read_all(log)) == [0, 1, 2, 3, 4]


def test_base_offset_and_epoch_are_written_into_the_batch(log: PartitionLog) -> None:
    append(log, 3)
    append(log, 2, leader_epoch=5)
    assert read_bytes(log, 3) == batch_of(2, base_offset=3, leader_epoch=5)
    assert log.leader_epochs.entries == ((0, 0), (5, 3))


def test_an_offset_is_given_once_whatever_becomes_of_what_is_known_of_producers(
    log: PartitionLog,
) -> None:
    class Starved(ProducerState):
        __slots__ = ()

        def update(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
            raise MemoryError

    log.producer_state = Starved()
    for append_one in (
        lambda: log.append_as_leader(from_producer(0), 0, NOW_MS),
        lambda: log.append_internal(from_producer(1).buffer, 0, NOW_MS),
    ):
        with pytest.raises(MemoryError):
            append_one()
    log.producer_state = ProducerState()
    append(log)
    assert offsets(read_all(log)) == [0, 1, 2]


def test_a_batch_larger_than_a_segment_is_refused(logs: LogDirectories) -> None:
    log = create(logs, LogConfig(segment_bytes=100))
    with pytest.raises(KafkaError) as refused:
        append(log, value=bytes(100))
    assert refused.value.code is ErrorCode.record_list_too_large
    assert log.log_end_offset == log.size_bytes == 0


def test_sequences_begin_again_at_zero(log: PartitionLog) -> None:
    """After 2^31 - 1, also within a batch."""
    for sequence, count in ((2**31 - 3, 2), (2**31 - 1, 1), (0, 2), (2, 1)):
        log.append_as_leader(from_producer(sequence, count), 0, NOW_MS)
    log.append_as_leader(from_producer(2**31 - 2, 3, producer_id=8), 0, NOW_MS)
    log.append_as_leader(from_producer(1, producer_id=8), 0, NOW_MS)
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(from_producer(3, producer_id=8), 0, NOW_MS)
    assert refused.value.code is ErrorCode.out_of_order_sequence_number
    assert log.log_end_offset == 10


def test_an_epoch_without_records_ends_where_the_one_before_it_does(log: PartitionLog) -> None:
    """Whoever asks is told of that one: by it the two logs may agree."""
    for epoch in (1, 1, 5):
        append(log, leader_epoch=epoch)
        log.leader_epochs.assign(epoch, log.log_end_offset - 1)
    found = [log.end_offset_for_epoch(each) for each in (0, 1, 3, 5, 6)]
    assert [tuple(each) for each in found] == [(0, 0), (1, 2), (1, 2), (5, 3), (-1, -1)]


def test_a_batch_as_large_as_a_segment_fits(logs: LogDirectories) -> None:
    """A client's, a coordinator's and a leader's."""
    size = len(batch_of())
    log = create(logs, LogConfig(segment_bytes=size))
    append(log)
    log.append_internal(memoryview(batch_of()), 0, NOW_MS)
    log.append_as_follower(memoryview(batch_of(base_offset=2)), NOW_MS)
    assert bases(log) == [0, 1, 2]


# -- rolling -----------------------------------------------------------------------------------


def test_rolls_by_size(logs: LogDirectories) -> None:
    size = len(batch_of())
    log = create(logs, LogConfig(segment_bytes=3 * size))
    for _ in range(7):
        append(log)
    assert bases(log) == [0, 3, 6]
    assert offsets(read_all(log)) == list(range(7))


def test_rolls_when_the_index_is_full(logs: LogDirectories) -> None:
    log = create(logs, LogConfig(index_interval_bytes=0, segment_index_bytes=3 * 12))
    for number in range(7):
        append(log, timestamp=NOW_MS + number)
    # The first batch of a segment has no entry; the time index keeps one for its end.
    assert bases(log) == [0, 3, 6]
    log = create(logs, LogConfig(index_interval_bytes=0, segment_index_bytes=3 * 12), topic="u")
    for _ in range(7):
        append(log)
    assert bases(log) == [0, 5], "the time index has one entry, as they are of one time"


def test_rolls_by_the_age_of_its_records(logs: LogDirectories) -> None:
    log = create(logs, LogConfig(segment_ms=1000))
    append(log, timestamp=5)
    append(log, timestamp=1005)
    assert bases(log) == [0]
    append(log, timestamp=1006)
    assert bases(log) == [0, 2]


def test_rolls_by_its_own_age_where_records_have_no_time(logs: LogDirectories) -> None:
    log = create(logs, LogConfig(segment_ms=1000))
    append(log, timestamp=-1)
    append(log, timestamp=-1, now_ms=NOW_MS + 1000)
    assert bases(log) == [0]
    append(log, timestamp=-1, now_ms=NOW_MS + 1001)
    assert bases(log) == [0, 2]


def test_jitter_takes_from_the_age(logs: LogDirectories) -> None:
    log = create(logs, LogConfig(segment_ms=1000, segment_jitter_ms=1000))
    append(log, timestamp=0)
    append(log, timestamp=1001)
    assert bases(log) == [0, 1]


def test_relative_offsets_do_not_overflow(logs: LogDirectories) -> None:
    log = create(logs)
    follow = batch_of(base_offset=2**31 + 5)
    log.append_as_follower(memoryview(follow), NOW_MS)  # the empty segment gives way
    assert bases(log) == [2**31 + 5]
    far = batch_of(base_offset=2**32 + 10)
    log.append_as_follower(memoryview(far), NOW_MS)
    assert bases(log) == [2**31 + 5, 2**32 + 10]
    assert len(list(log.directory.glob("*.log"))) == 2


def test_rolling_an_empty_log_changes_nothing(log: PartitionLog) -> None:
    log.roll(NOW_MS)
    assert bases(log) == [0]
    append(log)
    log.roll(NOW_MS)
    log.roll(NOW_MS)
    assert bases(log) == [0, 1]


def test_a_log_that_was_deleted_takes_no_file_of_the_next_one_of_its_name(
    logs: LogDirectories,
) -> None:
    old = create(logs)
    append(old, 2)
    old.mark_deleted()
    taken = Path(old.path) / f"{old.log_end_offset:020d}.log"
    taken.write_bytes(b"records of another log")
    with pytest.raises(KafkaError, match="was deleted"):
        old.roll(NOW_MS)
    assert taken.read_bytes() == b"records of another log"


# -- reading -----------------------------------------------------------------------------------


def test_reads_whole_batches_up_to_the_bound(log: PartitionLog) -> None:
    for _ in range(4):
        append(log, 3)
    content = read_bytes(log, 4, end_offset=9)
    assert offsets(list(decode_records(content))) == [3, 4, 5, 6, 7, 8]
    assert read_bytes(log, 9, end_offset=9) == b""


def test_the_last_batch_may_be_cut_but_not_the_first(log: PartitionLog) -> None:
    for _ in range(3):
        append(log, 2)
    size = log.size_bytes // 3
    assert len(read_bytes(log, 0, max_bytes=size + 10)) == size + 10
    assert len(read_bytes(log, 0, max_bytes=10)) == size
    assert read_bytes(log, 0, max_bytes=10, minimum_one_batch=False) == b""


def test_reading_at_the_end_returns_nothing(log: PartitionLog) -> None:
    append(log)
    assert read_bytes(log, 1) == b""
    append(log)
    assert offsets(list(decode_records(read_bytes(log, 1)))) == [1]


@pytest.mark.parametrize("offset", [-1, 2, 5])
def test_offsets_outside_are_refused(log: PartitionLog, offset: int) -> None:
    append(log)
    with pytest.raises(KafkaError) as refused:
        log.read(offset, 100, 1, minimum_one_batch=True)
    assert refused.value.code is ErrorCode.offset_out_of_range


def test_a_missing_offset_reads_the_next_higher_one(log: PartitionLog) -> None:
    for base_offset in (0, 10, 20):
        log.append_as_follower(memoryview(batch_of(2, base_offset=base_offset)), NOW_MS)
    log.roll(NOW_MS)
    log.append_as_follower(memoryview(batch_of(2, base_offset=30)), NOW_MS)
    assert offsets(list(decode_records(read_bytes(log, 5)))) == [10, 11, 20, 21]
    assert offsets(list(decode_records(read_bytes(log, 25)))) == [30, 31]


def test_a_slice_outlives_its_segment(log: PartitionLog) -> None:
    append(log, 5)
    (part,) = log.read(0, 1000, 5, minimum_one_batch=True).slices
    log.truncate_fully_and_start_at(100)
    assert offsets(list(decode_records(part.read()))) == [0, 1, 2, 3, 4]
    part.release()


def test_slices_say_what_is_in_memory(log: PartitionLog) -> None:
    append(log, value=bytes(300_000))
    (part,) = log.read(0, 1, 1, minimum_one_batch=True).slices
    part.prefetch()
    assert part.is_resident()
    assert len(part) == part.size == log.size_bytes


# -- searching ---------------------------------------------------------------------------------


def test_finds_offsets_by_time(logs: LogDirectories) -> None:
    log = create(logs, LogConfig(index_interval_bytes=0, segment_bytes=1000))
    for number in range(50):
        append(log, 2, timestamp=1000 + 10 * number)
    found = log.offset_for_timestamp(1201)
    assert found is not None
    assert found[:2] == (41, 1201)
    found = log.offset_for_timestamp(1202)
    assert found is not None
    assert found[:2] == (42, 1210)
    assert log.offset_for_timestamp(5000) is None
    for number in range(50):  # the last of a segment, too
        found = log.offset_for_timestamp(1001 + 10 * number)
        assert found is not None
        assert found[:2] == (2 * number + 1, 1001 + 10 * number)
    log.delete_records_before(60)
    found = log.offset_for_timestamp(0)
    assert found is not None
    assert found[:2] == (60, 1300)


def test_a_search_by_time_takes_little_memory_for_very_many_records(log: PartitionLog) -> None:
    count = 30_000
    append(log, count, value=b"")  # a millisecond later each
    for search in (
        lambda: log.offset_for_timestamp(NOW_MS + count - 1),
        lambda: log.max_timestamp_offset(),
    ):
        tracemalloc.start()
        try:
            found = search()
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert found is not None
        assert found.offset == count - 1
        assert peak_bytes < 60 * count  # the batch itself has some 20 bytes for each


def test_finds_the_first_record_with_the_largest_time(log: PartitionLog) -> None:
    assert log.max_timestamp_offset() is None
    for timestamp in (5, 90, 7, 90, 3):
        append(log, timestamp=timestamp, leader_epoch=2)
    assert log.max_timestamp_offset() == (1, 90, 2)


def test_without_any_time_the_largest_is_that_of_the_first_record(logs: LogDirectories) -> None:
    log = create(logs, LogConfig(segment_bytes=300))
    for _ in range(6):
        batch = memoryview(encode_batch([Record(each, -1, None, b"v" * 30) for each in range(3)]))
        log.append_as_leader(PreparedBatch(batch, parse_header(batch)), 2, NOW_MS)
    assert len(log.segments) > 2
    for start_offset in range(18):
        log.delete_records_before(start_offset)
        assert log.max_timestamp_offset() == (start_offset, -1, 2)
    append(log, timestamp=7)
    assert log.max_timestamp_offset() == (18, 7, 0)
    log.delete_records_before(19)
    assert log.max_timestamp_offset() is None


@pytest.mark.parametrize("seed", seeds(10, 30))
def test_finds_the_largest_time_among_the_records_that_are_left(
    logs: LogDirectories, seed: int
) -> None:
    random = Random(seed)
    log = create(logs, LogConfig(index_interval_bytes=300, segment_bytes=2000))
    timestamps: list[int] = []
    for _ in range(60):
        times = [random.randrange(random.choice((5, 1000))) for _ in range(random.randint(1, 4))]
        records = [Record(each, time, None, b"v") for each, time in enumerate(times)]
        batch = memoryview(encode_batch(records, compression=random.choice(("none", "gzip"))))
        log.append_as_leader(PreparedBatch(batch, parse_header(batch)), 0, NOW_MS)
        timestamps += times
    assert len(log.segments) > 2
    for start_offset in range(len(timestamps)):
        log.delete_records_before(start_offset)
        largest = max(timestamps[start_offset:])
        first = timestamps.index(largest, start_offset)
        assert log.max_timestamp_offset() == (first, largest, 0)
    log.delete_records_before(len(timestamps))
    assert log.max_timestamp_offset() is None


# -- cutting -----------------------------------------------------------------------------------


def test_the_largest_time_of_what_is_left_is_that_of_a_record(log: PartitionLog) -> None:
    """A batch of which a cleaning has left nothing has a time, but no record."""
    log.append_as_follower(memoryview(batch_of(2, timestamp=100)), NOW_MS)
    emptied = bytearray(encode_empty_batch(2, 2, 0))
    header = parse_header(emptied)._replace(max_timestamp=500, base_timestamp=500)
    write_header(emptied, 0, header)
    seal(emptied, 0, header.size)
    log.append_as_follower(memoryview(emptied), NOW_MS)
    log.append_as_follower(memoryview(batch_of(1, base_offset=3, timestamp=50)), NOW_MS)
    found = log.max_timestamp_offset()
    assert found is not None
    assert found[:2] == (1, 101)
    log.delete_records_before(2)
    found = log.max_timestamp_offset()
    assert found is not None
    assert found[:2] == (3, 50)


def test_truncation_removes_whole_batches(logs: LogDirectories) -> None:
    log = create(logs, LogConfig(segment_bytes=500, index_interval_bytes=0))
    for epoch in range(10):
        append(log, 3, leader_epoch=epoch)
    log.flush()
    log.truncate_to(16)
    assert log.log_end_offset == 15
    assert log.recovery_point <= 15
    assert offsets(read_all(log)) == list(range(15))
    assert log.leader_epochs.latest_epoch == 4
    append(log, 1, leader_epoch=12)
    assert offsets(read_all(log)) == list(range(16))


def test_a_log_can_start_anew_anywhere(log: PartitionLog) -> None:
    append(log, 3)
    log.truncate_fully_and_start_at(77)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (77, 77, 0)
    assert append(log).base_offset == 77


def test_deleted_records_are_out_of_range(log: PartitionLog) -> None:
    append(log, 10)
    log.delete_records_before(4)
    log.delete_records_before(2)
    assert log.log_start_offset == 4
    with pytest.raises(KafkaError):
        log.read(3, 100, 10, minimum_one_batch=True)


def test_a_follower_takes_batches_as_they_are(logs: LogDirectories, log: PartitionLog) -> None:
    append(log, 3)
    append(log, 2, leader_epoch=1)
    copy = create(logs, topic="copy")
    copy.append_as_follower(memoryview(bytearray(read_bytes(log))), NOW_MS)
    assert read_bytes(copy) == read_bytes(log)
    assert copy.leader_epochs.entries == log.leader_epochs.entries
    with pytest.raises(KafkaError):
        copy.append_as_follower(memoryview(bytearray(read_bytes(log))), NOW_MS)


def test_log_append_time_is_the_batches_time(log: PartitionLog) -> None:
    batch = prepared(2, timestamp=5)
    result = log.append_as_leader(batch.__class__(batch.buffer, batch.header, 99), 0, NOW_MS)
    assert result.log_append_time_ms == 99
    assert log.segments.active.largest_timestamp == (99, 1)
