"""What is found after a crash: torn and garbled tails, lost indexes, files of others."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from drumlin.config.topic import LogConfig
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.files.files import Files
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.turns import to_end
from storage.doors import ForgetfulFiles
from storage.samples import (
    NOW_MS,
    append,
    batch_of,
    create,
    from_producer,
    marker,
    offsets,
    open_logs,
    read_all,
    reopened,
)

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=100)


def filled(path: Path, batches: int = 12, config: LogConfig = CONFIG) -> LogDirectories:
    """A log of three records a batch, over some segments, as a crash leaves it."""
    logs = open_logs(path, config=config)
    log = create(logs, config)
    for number in range(batches):
        append(log, 3, value=b"%d" % number + bytes(20), timestamp=NOW_MS + 10 * number)
    logs.write_checkpoints()
    logs.abandon()
    return logs


def loaded(path: Path, config: LogConfig = CONFIG) -> tuple[LogDirectories, PartitionLog]:
    logs = open_logs(path, config=config)
    log = logs.get("t", 0)
    assert log is not None
    return logs, log


def last_segment(path: Path) -> Path:
    return max(path.glob("t-0/*.log"))


def index_files(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.glob("t-0/*index")}


# -- tails -------------------------------------------------------------------------------------


def test_a_tail_cut_at_any_byte(tmp_path: Path) -> None:
    filled(tmp_path / "whole")
    segment = last_segment(tmp_path / "whole")
    content = segment.read_bytes()
    size = len(batch_of(3, value=b"11" + bytes(20)))
    assert len(content) > size
    for cut in range(1, size + 1):
        path = tmp_path / "cut"
        shutil.copytree(tmp_path / "whole", path)
        last_segment(path).write_bytes(content[:-cut])
        logs, log = loaded(path)
        assert log.log_end_offset == 33
        assert offsets(read_all(log)) == list(range(33))
        assert append(log).base_offset == 33
        logs.abandon()
        shutil.rmtree(path)


def test_a_tail_garbled_at_any_byte(tmp_path: Path) -> None:
    """Whatever is changed in the last batch, save offset and epoch, which no CRC covers."""
    filled(tmp_path / "whole")
    segment = last_segment(tmp_path / "whole")
    content = segment.read_bytes()
    start = len(content) - len(batch_of(3, value=b"11" + bytes(20)))
    for place in [*range(start + 8, start + 12), *range(start + 16, len(content))]:
        path = tmp_path / "garbled"
        shutil.copytree(tmp_path / "whole", path)
        garbled = bytearray(content)
        garbled[place] ^= 0x55
        last_segment(path).write_bytes(garbled)
        logs, log = loaded(path)
        assert log.log_end_offset == 33, place
        assert last_segment(path).stat().st_size == start
        logs.abandon()
        shutil.rmtree(path)


@pytest.mark.parametrize("tail", [b"\x00", bytes(61), bytes(5000), b"garbage" * 100])
def test_anything_behind_the_last_batch_is_cut(tmp_path: Path, tail: bytes) -> None:
    filled(tmp_path)
    with last_segment(tmp_path).open("ab") as file:
        file.write(tail)
    logs, log = loaded(tmp_path)
    assert offsets(read_all(log)) == list(range(36))
    logs.abandon()


def test_segments_behind_a_broken_one_go(tmp_path: Path) -> None:
    filled(tmp_path)
    first, *others = sorted(tmp_path.glob("t-0/*.log"))
    assert others
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    logs, log = loaded(tmp_path)
    assert list(tmp_path.glob("t-0/*.log")) == [first]
    assert 0 < log.log_end_offset < 12
    assert offsets(read_all(log)) == list(range(log.log_end_offset))
    assert all(int(each.stem) <= log.log_end_offset for each in tmp_path.glob("t-0/*.snapshot"))
    logs.abandon()


def test_what_is_below_the_recovery_point_is_trusted(tmp_path: Path) -> None:
    logs = open_logs(tmp_path, config=CONFIG)
    log = create(logs, CONFIG)
    for _ in range(12):
        append(log, 3, value=bytes(20))
    log.flush()
    logs.write_checkpoints()
    logs.abandon()
    first = min(tmp_path.glob("t-0/*.log"))
    content = bytearray(first.read_bytes())
    content[100] ^= 1  # would be found if it were read
    first.write_bytes(content)
    logs, log = loaded(tmp_path)
    assert log.log_end_offset == 36
    logs.abandon()


def test_batches_of_before_kafka_0_11_are_left_alone(tmp_path: Path) -> None:
    filled(tmp_path)
    first = min(tmp_path.glob("t-0/*.log"))
    content = bytearray(first.read_bytes())
    content[16] = 1
    first.write_bytes(content)
    logs = open_logs(tmp_path, config=CONFIG)
    assert logs.get("t", 0) is None
    assert first.read_bytes() == content
    logs.abandon()


# -- indexes -----------------------------------------------------------------------------------


def test_indexes_are_built_again_as_they_were(tmp_path: Path) -> None:
    logs = filled(tmp_path)
    log = logs.get("t", 0)
    assert log is not None
    log.segments.active.rest()  # its latest entries would have been lost
    before = index_files(tmp_path)
    for path in tmp_path.glob("t-0/*index"):
        path.write_bytes(b"x" * 100)
    logs, log = loaded(tmp_path)
    assert index_files(tmp_path) == before
    assert read_all(log, 17)[0].offset == 17
    logs.abandon()


@pytest.mark.parametrize("clean", [True, False])
def test_missing_indexes_are_built_again(tmp_path: Path, clean: bool) -> None:
    filled(tmp_path)
    logs, log = loaded(tmp_path)
    if clean:
        logs.close()
    else:
        log.flush()
        logs.write_checkpoints()
        logs.abandon()
    before = {name: content for name, content in index_files(tmp_path).items() if content}
    for path in tmp_path.glob("t-0/*index"):
        path.unlink()
    logs, log = loaded(tmp_path)
    offset_indexes = {name: content for name, content in before.items() if name.endswith(".index")}
    assert offset_indexes.items() <= index_files(tmp_path).items()
    for offset in range(36):
        assert read_all(log, offset)[0].offset == offset
    logs.abandon()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("has_snapshots", [True, False])
@pytest.mark.parametrize("rolls", [0b000, 0b001, 0b011, 0b110, 0b111])
def test_what_was_aborted_is_found_again_with_the_indexes(
    tmp_path: Path, clean: bool, has_snapshots: bool, rolls: int
) -> None:
    """The segment comes from a backup, say, without its indexes."""
    logs = open_logs(tmp_path)
    log = create(logs)

    def perhaps_roll(number: int) -> None:
        if rolls >> number & 1:
            log.roll(NOW_MS)

    log.append_as_leader(from_producer(0, producer_id=5, is_transactional=True), 0, NOW_MS)
    perhaps_roll(0)
    log.append_as_leader(from_producer(0, producer_id=6, is_transactional=True), 0, NOW_MS)
    log.append_internal(marker(commit=False, producer_id=5), 0, NOW_MS)
    perhaps_roll(1)
    append(log)
    log.append_internal(marker(commit=True, producer_id=6), 0, NOW_MS)
    perhaps_roll(2)
    append(log)
    aborted = log.aborted_transactions(0, 6)
    assert len(aborted) == 1
    for _ in range(2):
        if clean:
            logs.close()
        else:
            log.flush()
            logs.write_checkpoints()
            logs.abandon()
        for path in tmp_path.glob("t-0/*index"):
            path.unlink()
        if not has_snapshots:
            for path in tmp_path.glob("t-0/*.snapshot"):
                path.unlink()
        logs, log = loaded(tmp_path, LogConfig())
        assert log.aborted_transactions(0, 6) == aborted
        assert log.log_end_offset == 6
        assert log.producer_state.first_undecided_offset is None
        assert to_end(logs.logs_to_flush()) == [log] * (len(log.segments) > 1)
    logs.close()


def aborted_then_flushed(path: Path, files: Files) -> PartitionLog:
    log = create(open_logs(path, files=files))
    log.append_as_leader(from_producer(0, is_transactional=True), 0, NOW_MS)
    log.append_internal(marker(commit=False), 0, NOW_MS)
    log.flush()
    log.log_directory.recovery_points.write(lambda: {("t", 0): log.recovery_point})
    return log


def test_what_was_aborted_survives_two_crashes(tmp_path: Path) -> None:
    """The first one has it rewritten, below the recovery point; a segment ends there."""
    files = ForgetfulFiles()
    aborted_then_flushed(tmp_path, files).log_directory.release()
    logs = open_logs(tmp_path, files=files)
    (log,) = logs
    log.roll(NOW_MS)
    append(log)
    files.sync_directory(log.path)  # before the files in it, as it may happen
    logs.abandon()
    files.lose_unsynced()
    logs, log = loaded(tmp_path, LogConfig())
    assert len(log.aborted_transactions(0, 2)) == 1
    logs.abandon()


class StopsAtCreate(Files):
    """The process is killed when the file of a name is to be made."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def create(self, path: str) -> None:
        if path.endswith(self._name):
            raise KeyboardInterrupt
        super().create(path)


@pytest.mark.parametrize("name", [".index", ".timeindex", ".txnindex"])
def test_a_crash_while_indexes_are_built_anew(tmp_path: Path, name: str) -> None:
    log = aborted_then_flushed(tmp_path, Files())
    log.roll(NOW_MS)
    append(log)
    log.flush()
    log.close_files()
    log.log_directory.recovery_points.write(lambda: {("t", 0): log.recovery_point})
    log.log_directory.release()
    for path in tmp_path.glob("t-0/00000000000000000000.*index"):
        path.unlink()
    with pytest.raises(KeyboardInterrupt):
        open_logs(tmp_path, files=StopsAtCreate("00000000000000000000" + name))
    logs, log = loaded(tmp_path, LogConfig())
    assert len(log.aborted_transactions(0, 2)) == 1
    logs.abandon()


def test_an_index_of_aborted_transactions_without_a_log_is_removed(tmp_path: Path) -> None:
    """It would count for the next segment that begins at its offset."""
    log = aborted_then_flushed(tmp_path, Files())
    log.log_directory.release()
    path = tmp_path / "t-0" / "00000000000000000000.txnindex"
    path.rename(path.with_name("00000000000000000002.txnindex"))
    logs, log = loaded(tmp_path, LogConfig())
    log.roll(NOW_MS)
    append(log)
    assert [each.last_offset for each in log.aborted_transactions(0, 3)] == [1]
    assert not log.segments.active.transaction_index.entries()
    logs.abandon()


@pytest.mark.parametrize("damage", ["cut", "zeros", "wrong"])
def test_a_broken_index_after_a_clean_stop(tmp_path: Path, damage: str) -> None:
    filled(tmp_path)
    logs, log = loaded(tmp_path)
    append(log, 3)
    logs.close()
    for path in tmp_path.glob("t-0/*.index"):
        content = path.read_bytes()
        damaged = {
            "cut": content[:-3],
            "zeros": content + bytes(4096),
            "wrong": content[:-8] + struct.pack(">ii", 30, 17) if content else b"",
        }
        if damage != "wrong" or path == max(tmp_path.glob("t-0/*.index")):
            path.write_bytes(damaged[damage])
    logs, log = loaded(tmp_path)
    assert log.log_end_offset == 39
    for offset in range(39):
        assert read_all(log, offset)[0].offset == offset
    logs.abandon()


# -- the rest of a folder ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_broken_small_files_are_passed_over(tmp_path: Path, name: str) -> None:
    logs = filled(tmp_path)
    (tmp_path / "t-0" / name).write_bytes(b"\xff\x00nonsense")
    logs, log = loaded(tmp_path)
    assert log.log_end_offset == 36
    assert log.leader_epochs.epoch_for(35) == 0
    logs.abandon()


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"]
)
@pytest.mark.parametrize(
    "content", [b"", b"0\n5\nt 0 7\n", b"\xff", b"1\n0\n", b"0\n1\nt 0 %d\n" % 2**63]
)
def test_broken_checkpoints_are_passed_over(tmp_path: Path, name: str, content: bytes) -> None:
    filled(tmp_path)
    (tmp_path / name).write_bytes(content)
    logs, log = loaded(tmp_path)
    assert offsets(read_all(log)) == list(range(36))
    logs.abandon()


def test_leftovers_are_removed(tmp_path: Path) -> None:
    filled(tmp_path)
    folder = tmp_path / "t-0"
    ours = "3".zfill(20) + ".log.1.deleted", "0" * 20 + ".log.cleaned", "segment-swap.tmp"
    for name in (*ours, "leader-epoch-checkpoint.7.tmp", "3".zfill(20) + ".snapshot.7.tmp"):
        (folder / name).write_bytes(b"x")
    logs, log = loaded(tmp_path)
    assert not [*folder.glob("*.deleted"), *folder.glob("*.cleaned"), *folder.glob("*.tmp")]
    assert offsets(read_all(log)) == list(range(36))
    logs.abandon()


def test_a_cleaning_that_was_swapped_in_is_completed(tmp_path: Path) -> None:
    filled(tmp_path, batches=20)
    folder = tmp_path / "t-0"
    first, second, third, *_ = sorted(folder.glob("*.log"))
    kept = batch_of(1, base_offset=int(third.stem) - 1)
    (folder / (first.name + ".swap")).write_bytes(kept)
    (folder / (first.stem + ".index.swap")).write_bytes(b"")
    (folder / (first.stem + ".timeindex.swap")).write_bytes(b"")
    logs, log = loaded(tmp_path)
    assert not second.exists()
    assert not list(folder.glob("*.swap"))
    assert offsets(read_all(log)) == list(range(int(third.stem) - 1, 60))
    logs.abandon()


def test_a_swap_beside_unfinished_ones_is_undone(tmp_path: Path) -> None:
    filled(tmp_path, batches=20)
    folder = tmp_path / "t-0"
    first, second, *_ = sorted(folder.glob("*.log"))
    (folder / (first.name + ".cleaned")).write_bytes(batch_of(1))
    (folder / (second.name + ".swap")).write_bytes(batch_of(1, base_offset=int(second.stem)))
    logs, log = loaded(tmp_path)
    assert offsets(read_all(log)) == list(range(60))
    assert not [*folder.glob("*.swap"), *folder.glob("*.cleaned")]
    logs.abandon()


def test_an_empty_folder_is_an_empty_log(tmp_path: Path) -> None:
    open_logs(tmp_path).abandon()
    (tmp_path / "t-0").mkdir()
    logs, log = loaded(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert append(log).base_offset == 0
    logs.abandon()


def test_a_log_that_ends_before_its_start_begins_anew(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    log = create(logs)
    append(log, 5)
    log.append_as_leader(from_producer(0, 5), 0, NOW_MS)
    log.delete_records_before(7)
    logs.write_checkpoints()
    logs.abandon()
    path = last_segment(tmp_path)
    path.write_bytes(path.read_bytes()[:-10])
    logs, log = loaded(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)
    assert append(log).base_offset == 7
    logs, log = reopened(logs, tmp_path)
    assert offsets(read_all(log)) == [7]
    logs.abandon()


def test_an_index_without_a_log_is_removed_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path)
    first, second, *_ = sorted(tmp_path.glob("t-0/*.log"))
    first.unlink()
    logs, log = loaded(tmp_path)
    assert log.log_start_offset == int(second.stem)
    assert not list(tmp_path.glob(f"t-0/{first.stem}.*index"))
    assert f"{first.stem}.index is removed" in caplog.text
    logs.abandon()


def test_producers_whose_records_are_gone_are_known_after_a_clean_stop(tmp_path: Path) -> None:
    """A crash took the snapshot at the last roll along, before it was written."""
    logs = open_logs(tmp_path)
    log = create(logs)
    log.append_as_leader(from_producer(0), 0, NOW_MS)
    log.roll(NOW_MS)
    logs, log = reopened(logs, tmp_path)
    log.delete_records_before(1)
    logs.close()
    logs, log = loaded(tmp_path, LogConfig())
    (producer,) = log.producer_state.freeze().entries()
    assert (producer.producer_id, producer.last_sequence) == (7, 0)
    logs.abandon()


def test_snapshots_of_clean_stops_do_not_pile_up(tmp_path: Path) -> None:
    filled(tmp_path)
    for number in range(5):
        logs, log = loaded(tmp_path)
        log.append_as_leader(from_producer(number, value=bytes(20)), 0, NOW_MS)
        log.delete_records_before(log.log_end_offset)  # has a stop write a snapshot
        logs.close()
    logs, log = loaded(tmp_path)
    found = {int(each.stem) for each in tmp_path.glob("t-0/*.snapshot")}
    assert log.log_end_offset in found
    assert found <= {log.log_end_offset, *(each.base_offset for each in log.segments)}
    assert [each.producer_id for each in log.producer_state.freeze().entries()] == [7]
    logs.abandon()


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_replica_believes_the_checkpoint_alone(tmp_path: Path, *, was_clean: bool) -> None:
    """What was appended since may not be on other brokers: it counts once the leader says so.

    Nor does what was not on the device count after a crash.
    """
    logs = open_logs(tmp_path)
    log = create(logs)
    append(log, 5)
    log.expect_replicas()
    log.high_watermark = 3
    if was_clean:
        logs.close()
    else:
        log.flush()
        logs.write_checkpoints()
        append(log, 4)
        logs.abandon()
    logs, log = loaded(tmp_path)
    log.expect_replicas()
    assert log.high_watermark == 3
    log.truncate_to(0)
    assert log.high_watermark == 0
    logs.abandon()
