"""The first cleanings of a machine, on which the kernels have still to be compiled."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from compaction.promises import CONFIG, call, cleaner_of
from compaction.random_logs import RandomLog
from compaction.test_cleaner_cases import new_world, offsets, six_segments
from drumlin.compaction import pass_selection
from drumlin.compaction.errors import KernelsAwaited
from drumlin.compaction.pool import CleanerPool
from drumlin.compaction.settings import CleanerSettings
from drumlin.records.kernels import compaction_kernels, loader
from drumlin.records.kernels.machine_code import CompactionKernels
from rig.waiting import wait_until
from storage.samples import IN_MEMORY, create


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as path:
        yield Path(path)


class Compiler(loader.KernelSet[CompactionKernels]):
    """Takes as long as it is told."""

    def __init__(self) -> None:
        super().__init__("none", lambda _: None, "nothing is done")  # type: ignore[arg-type, return-value]
        self.is_done = threading.Event()
        self.is_asked = threading.Event()

    def require(self) -> CompactionKernels | None:
        self.is_asked.set()
        assert self.is_done.wait(60)
        self.loaded = compaction_kernels.require()
        return self.loaded


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiler]:
    compiler = Compiler()
    monkeypatch.setattr(pass_selection, "compaction_kernels", compiler)
    monkeypatch.setattr(loader, "_LOADED_WITHIN_S", 0.01)
    yield compiler
    compiler.is_done.set()


def started(world: RandomLog) -> CleanerPool:
    pool = CleanerPool(world.logs, call, CleanerSettings(backoff_ms=1), world.clock)
    pool.start()
    return pool


def large_from(monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
    monkeypatch.setattr(pass_selection, "_SMALL_BYTES", 0)
    monkeypatch.setattr(pass_selection, "_PLAIN_BYTES_MAX", size_bytes)


def large_and_small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RandomLog, RandomLog]:
    """A log that is too large for plain Python, and one that is not."""
    world = new_world(folder)
    other = RandomLog(world.logs, create(world.logs, CONFIG, topic="other"), 2)
    for _ in range(3):
        six_segments(world)
    six_segments(other)
    large_from(monkeypatch, world.log.size_bytes - 1)
    return world, other


def test_few_records_do_not_wait_for_a_compiler(folder: Path, compiler: Compiler) -> None:
    """Nor is one begun for them."""
    world = new_world(folder)
    six_segments(world)
    pool = started(world)
    assert pool.run(world.log, 60)
    pool.stop()
    assert len(offsets(world.log)) == 8
    assert not compiler.is_asked.is_set()
    world.logs.abandon()


def test_a_large_log_waits_and_others_do_not(
    folder: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, other = large_and_small(folder, monkeypatch)
    pool = started(world)
    wait_until(lambda: len(offsets(other.log)) == 8, "the small log to be cleaned")
    assert compiler.is_asked.is_set()
    before = len(offsets(world.log))

    def reason() -> str | None:
        world.clock.advance_ms(1000)
        return pool.status(world.log).waits_because

    assert "compiled" in (wait_until(reason, "the large one to be looked at") or "")
    assert len(offsets(world.log)) == before
    compiler.is_done.set()

    def is_clean() -> bool:
        world.clock.advance_ms(1000)
        return len(offsets(world.log)) == 8

    wait_until(is_clean, "the large one to be cleaned")
    assert pool.totals.failures == 0
    pool.stop()
    world.logs.abandon()


def test_who_asks_for_a_cleaning_waits_alone(
    folder: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, other = large_and_small(folder, monkeypatch)
    pool = started(world)
    asking = threading.Thread(target=lambda: pool.run(world.log, 60))
    asking.start()
    assert pool.run(other.log, 60)
    assert asking.is_alive()
    compiler.is_done.set()
    asking.join(60)
    assert len(offsets(world.log)) == 8
    pool.stop()
    world.logs.abandon()


def test_who_waits_does_not_keep_the_broker_from_stopping(
    folder: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = new_world(folder)
    six_segments(world)
    large_from(monkeypatch, 0)
    pool = started(world)
    asking = threading.Thread(target=lambda: pool.run(world.log, 60))
    asking.start()
    assert compiler.is_asked.wait(30)
    pool.stop()
    asking.join(30)
    assert not asking.is_alive()
    assert not compiler.is_done.is_set()
    world.logs.abandon()


def test_where_there_is_no_compiler_plain_python_cleans(
    folder: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = new_world(folder)
    six_segments(world)
    large_from(monkeypatch, 0)
    monkeypatch.setattr(compiler, "require", lambda: None)
    compiler.has_failed = True
    assert cleaner_of(world).clean(world.log, world.logs.swap_segments) is not None
    assert len(offsets(world.log)) == 8
    world.logs.abandon()


def test_no_thread_to_load_them_in_is_no_fault_of_the_log(
    folder: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = new_world(folder)
    six_segments(world)
    large_from(monkeypatch, 0)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    pass_selection.prepare_kernels(world.log.size_bytes)
    with pytest.raises(KernelsAwaited):
        cleaner_of(world).clean(world.log, world.logs.swap_segments)
    large_from(monkeypatch, 1 << 20)
    assert cleaner_of(world).clean(world.log, world.logs.swap_segments) is not None
    world.logs.abandon()
