"""What the loop asks of a log does not wait for a device: it is known, or BlockingIOError says so.

And it is not proportional to the number of segments.
"""

from __future__ import annotations

import errno
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from drumlin.clock import ManualClock
from drumlin.config.topic import LogConfig
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.files.files import Files
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.turns import to_end
from rig.time.stepped import Stepped
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


class ColdDisk(Files):
    """Nothing is in memory, and the loop must not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.is_cold = False
        self.calls: Counter[str] = Counter()

    def _note(self, call: str) -> None:
        if self.is_cold and threading.current_thread() is threading.main_thread():
            self.calls[call] += 1

    def read_at(self, descriptor: int, length: int, position: int) -> bytes:
        self._note("read")
        return super().read_at(descriptor, length, position)

    def read_resident_at(self, descriptor: int, length: int, position: int) -> bytes | bytearray:
        if self.is_cold:
            raise BlockingIOError(errno.EAGAIN, "not in memory")
        return super().read_resident_at(descriptor, length, position)

    def exists(self, path: str) -> bool:
        self._note("exists")
        return super().exists(path)

    def open(self, path: str, *, create: bool = False) -> int:
        self._note("open")
        return super().open(path, create=create)


def restarted(
    logs: LogDirectories, tmp_path: Path, config: LogConfig | None = None
) -> tuple[LogDirectories, PartitionLog, ColdDisk]:
    logs.close()
    files = ColdDisk()
    logs = open_logs(tmp_path, config=config, files=files, clock=ManualClock(NOW_MS))
    log = logs.get("t", 0)
    assert log is not None
    files.is_cold = True
    return logs, log, files


def in_a_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def abort_one(log: PartitionLog, producer_id: int = 7) -> None:
    batch = from_producer(0, producer_id=producer_id, is_transactional=True)
    log.append_as_leader(batch, 0, NOW_MS)
    log.append_internal(marker(commit=False, producer_id=producer_id), 0, NOW_MS)


@pytest.mark.parametrize("count", [1, 50])
def test_the_first_appends_after_a_start_read_nothing(tmp_path: Path, count: int) -> None:
    config = LogConfig(index_interval_bytes=0)
    logs = open_logs(tmp_path, config=config)
    log = create(logs, config)
    abort_one(log)
    for number in range(count):
        append(log, timestamp=NOW_MS + number)
    logs, log, files = restarted(logs, tmp_path, config)
    append(log)
    append(log)
    abort_one(log, 8)
    log.roll(NOW_MS)
    append(log)
    assert not files.calls["read"]
    files.is_cold = False
    assert len(read_all(log)) == count + 5
    assert len(log.aborted_transactions(0, log.log_end_offset)) == 2
    logs.abandon()


def test_what_was_aborted_is_read_by_who_may_wait(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    log = create(logs)
    for producer_id in (3, 4):
        abort_one(log, producer_id)
        log.roll(NOW_MS)
    append(log)
    logs, log, files = restarted(logs, tmp_path)
    (part,) = log.read(0, 1 << 20, 5, minimum_one_batch=True).slices
    files.calls.clear()
    with pytest.raises(BlockingIOError):
        log.aborted_transactions(0, 5, may_block=False)
    with pytest.raises(BlockingIOError):
        log.aborted_in(part, 0, 5, may_block=False)
    in_a_thread(lambda: log.aborted_transactions(0, 5))
    found = log.aborted_transactions(0, 5, may_block=False)
    assert [each.producer_id for each in found] == [3, 4]
    assert log.aborted_transactions(4, 5, may_block=False) == []
    assert not files.calls
    part.release()
    logs.abandon()


def test_a_reader_far_behind_looks_for_no_index_that_is_not_there(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    log = create(logs)
    for number in range(120):
        append(log)
        if number == 100:
            abort_one(log)
        log.roll(NOW_MS)
    logs, log, files = restarted(logs, tmp_path)
    (part,) = log.read(0, 1 << 20, 122, minimum_one_batch=True).slices
    in_a_thread(lambda: log.aborted_transactions(0, 122))
    files.calls.clear()
    in_a_thread(lambda: log.aborted_in(part, 0, 122))
    found = log.aborted_transactions(0, 122, may_block=False)
    assert [each[:3] for each in found] == [(7, 101, 102)]
    assert log.aborted_transactions(103, 122, may_block=False) == []
    assert not files.calls
    part.release()
    logs.abandon()


def test_an_index_is_first_looked_at_by_who_may_wait(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=0)
    logs = open_logs(tmp_path, config=config)
    log = create(logs, config)
    for _ in range(20):
        append(log)
    log.roll(NOW_MS)
    append(log)
    logs, log, files = restarted(logs, tmp_path, config)
    with pytest.raises(BlockingIOError):
        log.read(10, 1 << 20, 21, minimum_one_batch=True, may_block=False)
    assert not files.calls["read"]
    logs.abandon()


class Renaming(Files):
    """Another reader comes in between whenever a transaction index is renamed."""

    def __init__(self) -> None:
        super().__init__()
        self.come: Callable[[], None] = lambda: None

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        if source.endswith(".txnindex"):
            self.come()


def test_a_reader_in_the_midst_of_retention_is_told_what_was_aborted(tmp_path: Path) -> None:
    config = LogConfig(retention_ms=DAY_MS)
    logs = open_logs(tmp_path, config=config)
    log = create(logs, config)
    log.append_as_leader(from_producer(0, is_transactional=True), 0, NOW_MS)
    log.append_internal(marker(commit=False), 0, NOW_MS)
    log.roll(NOW_MS)
    append(log, timestamp=NOW_MS + 2 * DAY_MS)
    logs.close()
    files = Renaming()
    logs = open_logs(tmp_path, config=config, files=files, clock=ManualClock(NOW_MS + 2 * DAY_MS))
    found = logs.get("t", 0)
    assert found is not None
    logs.prepare_retention()
    index = found.segments.first.transaction_index
    told: list[object] = []

    def ask() -> None:
        try:
            told.append(len(index.entries()))
        except FileNotFoundError as error:
            told.append(error)

    reader = threading.Thread(target=ask)

    def come() -> None:
        reader.start()
        reader.join(0.3)  # it may have to wait for the new name to be known

    files.come = come
    to_end(logs.delete_old_segments())
    reader.join()
    assert told[0] != 0
    logs.abandon()


def test_retention_leaves_what_nobody_has_looked_at(tmp_path: Path) -> None:
    """Thousands of segments may come of age at once: they go a few at a time."""
    config = LogConfig(retention_ms=DAY_MS, file_delete_delay_ms=0)
    logs = open_logs(tmp_path, config=config)
    log = create(logs, config)
    for _ in range(60):
        append(log)
        log.roll(NOW_MS)
    append(log, timestamp=NOW_MS + DAY_MS)
    logs, log, files = restarted(logs, tmp_path, config)
    clock = log.log_directory.clock
    assert isinstance(clock, ManualClock)
    clock.advance_ms(DAY_MS + 1)
    to_end(logs.delete_old_segments())
    assert len(log.segments) == 61, "no times are known"
    in_a_thread(logs.prepare_retention)
    files.calls.clear()
    counts = [len(log.segments) for _ in Stepped(logs.delete_old_segments())]
    assert counts[-1] == 1
    assert len(counts) > 6, "many in a turn"
    assert not files.calls["read"]
    files.is_cold = False
    assert offsets(read_all(log)) == [60]
    assert log.log_start_offset == 60
    assert len(list(log.directory.glob("*.deleted"))) == 3 * 60
    logs.abandon()


def test_the_size_of_a_log_is_that_of_its_segments(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    log = create(logs)

    def check() -> None:
        assert log.size_bytes == sum(segment.size for segment in log.segments)

    check()
    for number in range(30):
        append(log, value=bytes(number))
        if number % 4 == 0:
            check()
            log.roll(NOW_MS)
        check()
    log.delete_records_before(11)
    log.delete_old_segments(NOW_MS)
    check()
    log.truncate_to(21)
    check()
    append(log)
    log.roll(NOW_MS)
    check()
    log.truncate_fully_and_start_at(99)
    check()
    assert log.size_bytes == 0
    logs.abandon()
