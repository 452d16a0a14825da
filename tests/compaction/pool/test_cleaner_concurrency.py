"""Cleaner threads beside all else that happens to a log: readers see what was promised."""

from __future__ import annotations

import dataclasses
import itertools
import queue
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

import pytest

from compaction.promises import CONFIG, check, check_is_minimal, clean_wholly, reopen
from compaction.random_logs import RandomLog
from drumlin.clock import ManualClock
from drumlin.compaction.pool.pool import CleanerPool
from drumlin.compaction.settings import CleanerSettings
from drumlin.records.batch.batch import iterate_headers
from drumlin.records.plain.record import Record, decode_batch
from drumlin.storage.files.files import Files
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.depth import so_many
from storage.samples import IN_MEMORY, NOW_MS, create, open_sole_logs

T = TypeVar("T")
_STEPS = so_many(150, 300)
_CLEANINGS = so_many(8, 20)
_SETTINGS = CleanerSettings(threads=2, dedupe_buffer_size=4000, backoff_ms=1)


class Owner:
    """The thread that owns the logs: others have it call what they want done."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread = threading.current_thread()

    def call(self, function: Callable[[], T]) -> T:
        assert threading.current_thread() is not self._thread
        result: Future[T] = Future()

        def answer() -> None:
            try:
                result.set_result(function())
            except BaseException as error:
                result.set_exception(error)

        self._asked.put(answer)
        return result.result(60)

    def serve_one(self, timeout_s: float) -> None:
        try:
            answer = self._asked.get(timeout=timeout_s)
        except queue.Empty:
            return
        answer()

    def serve_all(self) -> None:
        while not self._asked.empty():
            self._asked.get()()

    def serve_until_ended(self, *threads: threading.Thread) -> None:
        while any(thread.is_alive() for thread in threads):
            self.serve_one(0.01)


class WatchedFiles(Files):
    """Notes when two cleanings of one log come upon each other."""

    def __init__(self) -> None:
        super().__init__()
        self.clashes: list[str] = []

    def create(self, path: str) -> None:
        if path.endswith(".cleaned") and self.exists(path):
            self.clashes.append(path)
        super().create(path)


class Reader(threading.Thread):
    """Reads a log from its start to its end, again and again, holding on to what it got."""

    def __init__(self, log: PartitionLog) -> None:
        super().__init__(daemon=True)
        self.finish = threading.Event()
        self.failure: BaseException | None = None
        #: Of each pass: where the log began and ended at first, and all that was read.
        self.passes: list[tuple[int, int, list[Record]]] = []
        self._log = log

    def run(self) -> None:
        try:
            while not self.finish.is_set():
                self._read_all()
        except BaseException as error:
            self.failure = error

    def _read_all(self) -> None:
        log = self._log
        start, end = log.log_start_offset, log.log_end_offset
        offset, records = start, []
        while offset < end:
            try:
                found = log.read(offset, 600, end, minimum_one_batch=True).slices
            except KafkaError as error:
                if error.code == ErrorCode.offset_out_of_range or log.is_deleted:
                    return  # records were deleted, or cut off
                raise
            if not found:
                break  # the log was cut, or all up to its end was cleaned away
            (part,) = found
            try:
                if len(self.passes) % 2:
                    self.finish.wait(0.001)  # meanwhile its segment may be swapped
                data = part.read()
            finally:
                part.release()
            for position, header in iterate_headers(data):
                batch = memoryview(data)[position : position + header.size]
                if not header.is_control:
                    records += [r for r in decode_batch(batch) if r.offset >= offset]
                offset = header.end_offset
        self.passes.append((start, end, records))

    def check(self, world: RandomLog, truncated_from: int) -> None:
        assert self.failure is None, self.failure
        by_offset = {each.record.offset: each for each in world.appended}
        for _, end, records in self.passes:
            offsets = [record.offset for record in records]
            assert offsets == sorted(set(offsets))
            for record in records:
                if record.offset < truncated_from:
                    assert record == by_offset[record.offset].record
            self._check_last_values(world, min(end, truncated_from), set(offsets))

    def _check_last_values(self, world: RandomLog, end: int, seen: set[int]) -> None:
        latest = world.latest(world.log.log_end_offset)
        for each in latest.values():
            offset = each.record.offset
            if world.log.log_start_offset <= offset < end and each.record.value is not None:
                assert offset in seen, f"a reader up to {end} has not seen {each}"


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        yield Path(folder)


class Scene:
    """Two logs, the pool, and all that may happen to them, one thing after the other."""

    def __init__(self, path: Path, seed: int) -> None:
        self.owner = Owner()
        self.files = WatchedFiles()
        self.logs = open_sole_logs(path, config=CONFIG, clock=ManualClock(NOW_MS), files=self.files)
        self.world = RandomLog(self.logs, create(self.logs, CONFIG), seed)
        self.other = RandomLog(self.logs, create(self.logs, CONFIG, topic="other"), seed)
        self.pool = CleanerPool(self.logs, self.owner.call, _SETTINGS, self.world.clock)
        self.helpers: list[threading.Thread] = []
        self.truncated_from = 1 << 62

    def append(self) -> None:
        for each in (self.world, self.other):
            each.append_some()
            if each.random.random() < 0.25:
                each.end_transaction()

    def roll(self) -> None:
        self.world.log.roll(self.world.now_ms)
        self.other.log.roll(self.world.now_ms)

    def advance(self) -> None:
        self.world.clock.advance_ms(700)
        self.logs.remove_doomed()

    def delete_records(self) -> None:
        self.world.delete_records()

    def truncate(self) -> None:
        self.world.truncate()
        self.truncated_from = min(self.truncated_from, self.world.log.log_end_offset)

    def change_config(self) -> None:
        chance = self.world.random
        self.world.log.config = dataclasses.replace(
            CONFIG,
            segment_bytes=chance.choice((900, 1200, 3000)),
            file_delete_delay_ms=chance.choice((0, 1000)),
        )

    def force(self) -> None:
        self._help(lambda: self.pool.run(self.world.log, 10))

    def reconfigure(self) -> None:
        if not any(thread.is_alive() for thread in self.helpers):
            settings = _SETTINGS._replace(threads=self.world.random.choice((1, 2, 3)))
            self._help(lambda: self.pool.reconfigure(settings))

    def delete_topic(self) -> None:
        self.logs.delete("other", 0)
        log = create(self.logs, CONFIG, topic="other")
        self.other = RandomLog(self.logs, log, self.world.random.randrange(1 << 30))
        self.logs.remove_doomed()

    def _help(self, function: Callable[[], object]) -> None:
        thread = threading.Thread(target=function, daemon=True)
        thread.start()
        self.helpers.append(thread)

    def step(self, *, truncates: bool) -> None:
        self.owner.serve_all()
        things = [self.append] * 60 + [self.roll] * 6 + [self.advance] * 4
        things += [self.delete_records, self.change_config, self.force, self.reconfigure]
        things += [self.delete_topic] + [self.truncate] * truncates
        self.world.random.choice(things)()
        self.owner.serve_one(0.001)

    def stop(self) -> None:
        self.owner.serve_until_ended(*self.helpers)
        self._help(self.pool.stop)
        self.owner.serve_until_ended(*self.helpers)


@pytest.mark.parametrize("seed", [1, pytest.param(0, marks=pytest.mark.deep)])
def test_cleaners_beside_all_that_goes_on(path: Path, seed: int) -> None:
    scene = Scene(path, seed)
    world, pool = scene.world, scene.pool
    pool.start()
    readers = [Reader(world.log) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in itertools.count():
        scene.step(truncates=seed % 2 == 1)
        is_enough = number >= _STEPS and pool.totals.cleanings >= _CLEANINGS
        if is_enough and all(len(reader.passes) > 2 for reader in readers):
            break
        assert number < 100 * _STEPS, "cleaners or readers get nowhere"
    for reader in readers:
        reader.finish.set()
        reader.join(60)
    scene.stop()
    assert scene.files.clashes == []
    assert pool.uncleanable == {}
    assert world.log.log_directory.is_online
    assert not list(world.log.directory.glob("*.cleaned"))
    for reader in readers:
        reader.check(world, scene.truncated_from)
    world.log.config = CONFIG
    for each in world.appended:
        world.tombstones_seen_ms[each.record.offset] = each.written_ms
    check(world, reached=world.log.segments.active.base_offset)
    clean_wholly(world)
    check(world)
    check_is_minimal(world)
    reopen(world, path)
    check(world)
    world.logs.abandon()
