"""Readers and flushers in threads, beside the one that appends, rolls, deletes and truncates."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from drumlin.config.topic import LogConfig
from drumlin.records.plain.record import decode_records
from drumlin.storage.files.files import Files
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from storage.samples import NOW_MS, append, create, offsets, open_logs, read_bytes

CONFIG = LogConfig(
    segment_bytes=2000, index_interval_bytes=200, retention_bytes=8000, file_delete_delay_ms=0
)


class Workers:
    """Threads that repeat something until told to stop; their failures are kept."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def add(self, work: Callable[[], object]) -> None:
        def run() -> None:
            try:
                while not self._stop.is_set():
                    work()
            except BaseException as failure:
                self.failures.append(failure)

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(20)


class Cuts:
    """How often the log was cut, or is being cut."""

    begun = ended = 0


def _read_somewhere(log: PartitionLog, chance: random.Random, cuts: Cuts) -> None:
    cuts_before = cuts.ended
    end_offset = log.log_end_offset
    offset = chance.randint(log.log_start_offset, end_offset)
    try:
        found = offsets(list(decode_records(read_bytes(log, offset, end_offset=end_offset))))
    except KafkaError as error:
        assert error.code is ErrorCode.offset_out_of_range  # deleted meanwhile
        return
    if cuts.begun != cuts_before:
        return  # where the records were, there may be others by now, and more of them
    assert found == sorted(found)
    assert not found or found[-1] < end_offset
    if found and found[0] > offset:
        assert offset < log.log_start_offset


def test_readers_and_flushers_beside_a_writer(tmp_path: Path) -> None:
    logs = open_logs(tmp_path, budget=16)
    log = create(logs, CONFIG)
    workers = Workers()
    cuts = Cuts()
    try:
        for seed in range(2):
            chance = random.Random(seed)
            workers.add(lambda chance=chance: _read_somewhere(log, chance, cuts))  # type: ignore[misc]
        workers.add(log.flush)
        workers.add(logs.remove_doomed)
        workers.add(logs.write_checkpoints)
        for number in range(800):
            append(log, 2, value=bytes(number % 200))
            if number % 50 == 49:
                to_end(logs.delete_old_segments())
            if number % 200 == 199:
                cuts.begun += 1
                log.truncate_to(log.log_end_offset - 7)
                cuts.ended += 1
    finally:
        workers.stop()
        assert not workers.failures
        assert logs.directories[0].is_online
        logs.close()


class Cold(Files):
    """Nothing is in memory until it was read once from the device."""

    def __init__(self) -> None:
        super().__init__()
        self.is_cold = False

    def read_resident_at(self, descriptor: int, length: int, position: int) -> bytes:
        if self.is_cold:
            raise BlockingIOError(errno.EAGAIN, "not in memory")
        return super().read_resident_at(descriptor, length, position)


def test_a_read_that_would_block_says_so(tmp_path: Path) -> None:
    files = Cold()
    logs = open_logs(tmp_path, files=files)
    log = create(logs, CONFIG)
    for number in range(50):
        append(log, 2, timestamp=NOW_MS + number)
    files.is_cold = True
    with pytest.raises(BlockingIOError):
        log.read(3, 1000, log.log_end_offset, minimum_one_batch=True, may_block=False)
    (part,) = log.read(3, 1000, log.log_end_offset, minimum_one_batch=True).slices
    assert not part.is_resident()
    assert not part.keep()
    part.prefetch()
    files.is_cold = False
    assert part.keep()
    kept, files.is_cold = part.read(), True
    assert part.read_resident() == kept
    part.release()
    # What was appended a moment ago needs no look into the file.
    append(log)
    (part,) = log.read(100, 1000, 101, minimum_one_batch=True, may_block=False).slices
    part.release()
    assert logs.directories[0].is_online
    logs.close()
