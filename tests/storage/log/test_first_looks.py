"""What is read from files at the first request: by a thread, while the log changes.

Each test has a thread look at a file and stop in the midst of it; meanwhile the log is written to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from drumlin.clock import ManualClock
from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import BatchHeader
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.files.files import Files
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.producer_state import ProducerState
from drumlin.storage.segment.transaction_index import TransactionIndex
from drumlin.turns import to_end
from rig.data.sole_partition import sole_partition
from storage.doors import FailingFiles
from storage.samples import (
    NOW_MS,
    append,
    create,
    from_producer,
    marker,
    offsets,
    open_logs,
    read_all,
)

DAY_MS = 24 * 3600 * 1000


class Meanwhile(Files):
    """Does something after the first read in a thread, before the thread gets its bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.do: Callable[[], object] | None = None

    def read_at(self, descriptor: int, length: int, position: int) -> bytes:
        data = super().read_at(descriptor, length, position)
        if threading.current_thread().name == "looks":
            do, self.do = self.do, None
            if do is not None:
                do()
        return data


def look(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work, name="looks")
    thread.start()
    thread.join()


def restarted(
    tmp_path: Path, files: Files, clock: ManualClock, config: LogConfig | None = None
) -> tuple[LogDirectories, PartitionLog]:
    logs = open_logs(tmp_path, config=config, files=files, clock=clock)
    log = logs.get("t", 0)
    assert log is not None
    active = log.segments.active  # what the first append asks is known; not so of the others
    active.truncate_to_position(active.size)
    active.transaction_index._packed = None
    return logs, log


# -- times -------------------------------------------------------------------------------------


def test_retention_leaves_what_came_while_it_looked_at_the_times(tmp_path: Path) -> None:
    clock, config, files = ManualClock(NOW_MS), LogConfig(retention_ms=DAY_MS), Meanwhile()
    logs = open_logs(tmp_path, config=config, clock=clock)
    append(create(logs, config))
    logs.close()
    clock.advance_ms(2 * DAY_MS)
    logs, log = restarted(tmp_path, files, clock, config)
    files.do = lambda: append(log, timestamp=clock.wall_ms())
    look(logs.prepare_retention)
    assert files.do is None
    to_end(logs.delete_old_segments())
    assert offsets(read_all(log)) == [0, 1]
    found = log.offset_for_timestamp(clock.wall_ms())
    assert found is not None
    assert found.offset == 1
    logs.close()


def test_times_of_what_is_cut_meanwhile_are_not_remembered(tmp_path: Path) -> None:
    clock, files = ManualClock(NOW_MS), Meanwhile()
    logs = open_logs(tmp_path, clock=clock)
    log = create(logs)
    append(log)
    append(log, timestamp=NOW_MS + DAY_MS)
    logs.close()
    logs, log = restarted(tmp_path, files, clock)
    files.do = lambda: log.truncate_to(1)
    look(lambda: log.segments.active.largest_timestamp)
    assert files.do is None
    active = log.segments.active
    assert active.largest_timestamp.timestamp == NOW_MS
    active.truncate_to_position(active.size)  # the first is known after a truncation
    files.do = lambda: log.truncate_fully_and_start_at(0)
    look(lambda: log.segments.active.first_timestamp)
    assert files.do is None
    append(log, timestamp=NOW_MS + 5)
    assert log.segments.active.first_timestamp == NOW_MS + 5
    logs.close()


# -- indexes -----------------------------------------------------------------------------------


def begin(log: PartitionLog, producer_id: int) -> None:
    batch = from_producer(0, producer_id=producer_id, is_transactional=True)
    log.append_as_leader(batch, 0, NOW_MS)


def abort(log: PartitionLog, producer_id: int) -> None:
    log.append_internal(marker(commit=False, producer_id=producer_id), 0, NOW_MS)


@pytest.mark.parametrize("aborted_before", [0, 1])
def test_what_is_aborted_while_a_thread_looks_is_not_forgotten(
    tmp_path: Path, aborted_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(NOW_MS)
    logs = open_logs(tmp_path, clock=clock)
    log = create(logs)
    append(log)
    if aborted_before:
        begin(log, 4)
        abort(log, 4)
    logs.close()
    logs, log = restarted(tmp_path, Files(), clock)
    begin(log, 5)
    read = TransactionIndex._read

    def read_slowly(index: TransactionIndex) -> bytearray:
        found = read(index)
        if threading.current_thread().name == "looks":
            elsewhere = threading.Thread(target=abort, args=(log, 5))
            elsewhere.start()
            elsewhere.join()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(TransactionIndex, "_read", read_slowly)
        look(lambda: log.aborted_transactions(0, 1))
    expected = [4, 5][1 - aborted_before :]

    def aborted() -> list[int]:
        return [each.producer_id for each in log.aborted_transactions(0, log.log_end_offset)]

    assert aborted() == expected
    begin(log, 6)
    abort(log, 6)
    assert aborted() == [*expected, 6]
    logs.close()
    logs, log = restarted(tmp_path, Files(), clock)
    assert aborted() == [*expected, 6]
    logs.close()


def test_an_index_that_is_cut_while_a_thread_looks_stays_cut(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1000, index_interval_bytes=0)
    clock, files = ManualClock(NOW_MS), Meanwhile()
    logs = open_logs(tmp_path, config=config, clock=clock)
    log = create(logs, config)
    while len(log.segments) < 3:
        append(log)
    logs.close()
    logs, log = restarted(tmp_path, files, clock, config)
    first = log.segments.first
    files.do = lambda: log.truncate_to(2)
    look(first.time_index.load)  # the other index was looked at when the log was loaded
    assert files.do is None
    assert log.segments.active is first
    for _ in range(3):
        append(log)
    logs.close()
    logs, log = restarted(tmp_path, Files(), clock, config)
    assert log.segments.first.time_index.is_sound()
    assert log.segments.first.offset_index.is_sound()
    for offset in range(5):
        assert read_all(log, offset)[0].offset == offset
    logs.close()


def test_a_position_in_what_is_being_cut_is_not_remembered(tmp_path: Path) -> None:
    """Records of other sizes come to lie where the old ones were."""
    files = Between()
    logs = open_logs(tmp_path, files=files)
    log = create(logs)
    for _ in range(4):
        append(log, value=bytes(1000))
    log.close_files()

    def read_a_batch() -> None:
        for part in log.read(1, 1, 4, minimum_one_batch=True).slices:
            part.release()

    files.before_truncate = read_a_batch
    log.truncate_to(1)
    append(log, 3, value=bytes(10))
    assert offsets(read_all(log, 2)) == [2, 3]
    logs.close()


class Between(Files):
    """Does something in another thread before a file is cut, once."""

    before_truncate: Callable[[], object] | None = None

    def truncate(self, descriptor: int, size: int) -> None:
        do, self.before_truncate = self.before_truncate, None
        if do is not None:
            look(do)
        super().truncate(descriptor, size)


# -- the last stable offset --------------------------------------------------------------------


def test_no_thread_sees_an_open_transaction_below_the_last_stable_offset(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    log = create(logs)
    partition = sole_partition(log)
    seen: list[int] = []

    class Watched(ProducerState):
        """Looks, as another thread may, right before the transaction is noted."""

        __slots__ = ()

        def update(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
            look(lambda: seen.append(partition.last_stable_offset))
            super().update(header, base_offset, timestamp)
            look(lambda: seen.append(partition.last_stable_offset))

    log.producer_state = Watched()
    begin(log, 5)
    assert seen == [0, 0]
    assert partition.last_stable_offset == 0
    abort(log, 5)
    assert partition.last_stable_offset == 2
    logs.close()


def test_a_transaction_that_begins_during_a_look_is_not_passed(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    log = create(logs)
    partition = sole_partition(log)

    class Beginning(ProducerState):
        """Has a transaction begin after the first look at what is undecided."""

        __slots__ = ("_first", "was_asked")

        @property  # type: ignore[misc]
        def first_undecided_offset(self) -> int | None:
            first: int | None = self._first
            if not self.was_asked:
                self.was_asked = True
                begin(log, 5)
            return first

        @first_undecided_offset.setter
        def first_undecided_offset(self, offset: int | None) -> None:
            self._first = offset

    state = Beginning()
    state.was_asked = False
    log.producer_state = state
    assert partition.last_stable_offset == 0
    assert log.log_end_offset == 1
    logs.close()


class Counting(Files):
    """Knows what was read in which thread."""

    def __init__(self) -> None:
        super().__init__()
        self.read_in: set[str] = set()

    def read_at(self, descriptor: int, length: int, position: int) -> bytes:
        self.read_in.add(threading.current_thread().name)
        return super().read_at(descriptor, length, position)


def test_retention_after_a_start_reads_nothing_on_the_loop(tmp_path: Path) -> None:
    """However many segments have come of age while the broker was down."""
    clock = ManualClock(NOW_MS)
    config = LogConfig(retention_ms=DAY_MS)
    logs = open_logs(tmp_path, config=config, clock=clock)
    log = create(logs, config)
    for _ in range(5):
        append(log)
        log.roll(NOW_MS)
    append(log, timestamp=NOW_MS + DAY_MS)
    logs.close()
    files = Counting()
    logs = open_logs(tmp_path, config=config, clock=clock, files=files)
    clock.advance_ms(DAY_MS + 1)
    files.read_in.clear()
    look(logs.prepare_retention)
    to_end(logs.delete_old_segments())
    (log,) = logs
    assert (log.log_start_offset, len(log.segments)) == (5, 1)
    assert files.read_in == {"looks"}
    logs.abandon()


@pytest.mark.parametrize("look", ["prepare_retention", "prepare_rolls"])
def test_a_device_that_fails_while_times_are_read_has_failed(tmp_path: Path, look: str) -> None:
    """Whoever meets the error first tells it: nobody else may ask for a long time."""
    files = FailingFiles()
    config = LogConfig(retention_ms=1, cleanup_policy=frozenset({"compact", "delete"}))
    logs = open_logs(tmp_path, config=config, files=files)
    append(create(logs, config))
    logs.close()
    logs = open_logs(tmp_path, config=config, files=files)
    (log,) = logs
    log.segments.active.truncate_to_position(log.size_bytes)  # what was read of it is forgotten
    files.fail("read_at")
    getattr(logs, look)()
    assert not logs.directories[0].is_online
    logs.abandon()
