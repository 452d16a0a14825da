"""What is found again in the batches: leader epochs, also where cleaning has left gaps; indexes."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import assign_offsets
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.files.files import Files
from drumlin.storage.log.partition_log import PartitionLog
from storage.samples import NOW_MS, batch_of, create, open_logs, reopened

COMPACTED = LogConfig(segment_bytes=1000, index_interval_bytes=100, cleanup_policy="compact")


def cleaned(path: Path, *batches: tuple[int, int]) -> tuple[LogDirectories, PartitionLog]:
    """A follower's log with batches at offsets, in leader epochs; two fit into a segment."""
    logs = open_logs(path, config=COMPACTED)
    log = create(logs, COMPACTED)
    for offset, epoch in batches:
        batch = memoryview(batch_of(1, value=bytes(350)))
        assign_offsets(batch, 0, offset, epoch)
        log.append_as_follower(batch, NOW_MS)
    return logs, log


@pytest.mark.parametrize("recovery_point", [0, 2, 42])
def test_an_epoch_that_begins_with_a_segment_after_cleaned_offsets(
    tmp_path: Path, recovery_point: int
) -> None:
    """Where its first record was is not known, so diverged ones may have been there."""
    logs, log = cleaned(tmp_path, (0, 1), (1, 1), (40, 3), (41, 3), (60, 4), (80, 5))
    assert [each.base_offset for each in log.segments] == [0, 40, 60]
    known = log.leader_epochs.entries
    assert known == ((1, 0), (3, 2), (4, 42), (5, 61))
    if recovery_point:
        log.flush()
        log.log_directory.recovery_points.set(("t", 0), recovery_point, only_if=lambda: True)
    logs, log = reopened(logs, tmp_path, COMPACTED)
    assert log.leader_epochs.entries == known
    assert log.end_offset_for_epoch(1) == (1, 2)
    logs.abandon()


def test_an_epoch_after_a_segment_without_batches(tmp_path: Path) -> None:
    logs, _ = cleaned(tmp_path, (0, 1), (1, 1), (40, 1), (41, 1), (60, 3))
    (emptied,) = tmp_path.glob("t-0/*40.log")
    emptied.write_bytes(b"")
    logs, log = reopened(logs, tmp_path, COMPACTED)
    assert log.leader_epochs.entries == ((1, 0), (3, 2))
    logs.abandon()


def test_an_empty_checkpoint_of_kafkas_is_usual(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It makes the file before there is anything to be in it; what the log has counts."""
    logs, log = cleaned(tmp_path, (0, 1), (1, 3))
    known = log.leader_epochs.entries
    logs.close()
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_bytes(b"")
    logs = open_logs(tmp_path, config=COMPACTED)
    (log,) = logs
    assert log.leader_epochs.entries == known
    assert not caplog.records
    logs.abandon()


def test_an_epoch_of_records_that_others_took_the_place_of_is_forgotten(tmp_path: Path) -> None:
    """They were cut, and the file says so later than the log."""
    logs, log = cleaned(tmp_path, (0, 1), (1, 1), (2, 1), (3, 1))
    log.flush()
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n2 3\n")
    logs, log = reopened(logs, tmp_path, COMPACTED)
    assert log.leader_epochs.entries == ((1, 0),)
    logs.abandon()


def test_indexes_that_a_recovery_has_built_are_flushed(tmp_path: Path) -> None:
    class Noting(Files):
        def sync(self, descriptor: int) -> None:
            synced.add(Path(f"/proc/self/fd/{descriptor}").readlink().name)
            super().sync(descriptor)

    synced: set[str] = set()
    logs, log = cleaned(tmp_path, (0, 1), (1, 1), (2, 1), (3, 1))
    logs, log = reopened(logs, tmp_path, COMPACTED, Noting())
    assert len(log.segments) == 2
    assert log.awaits_flush
    synced.clear()
    log.flush()
    assert {f"{0:020d}.index", f"{0:020d}.timeindex"} <= synced
    logs.abandon()
