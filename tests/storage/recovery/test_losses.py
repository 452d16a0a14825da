"""Logs that lack records which they had: it is said, consumers can tell, no offset comes twice."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import HEADER_SIZE, iterate_headers
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.leader_epochs import EpochEnd, EpochEntry
from drumlin.storage.log.log_batches import batches_of
from drumlin.storage.log.log_state import UNKNOWN_YET
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.recovery.losses import close_losses
from drumlin.wire.error_codes import ErrorCode, KafkaError
from storage.samples import (
    NOW_MS,
    append,
    batch_of,
    create,
    offsets,
    open_logs,
    read_all,
    read_bytes,
)

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=100)
COMPACTED = LogConfig(
    segment_bytes=1000, index_interval_bytes=100, cleanup_policy=frozenset({"compact"})
)
BATCH_BYTES = len(batch_of(3, value=bytes(20)))
END = 60


def stopped(path: Path, *, clean: bool = True) -> list[Path]:
    """The segments, the last one first, of a log of which all is on the device."""
    logs = open_logs(path, config=CONFIG)
    log = create(logs, CONFIG)
    for number in range(END // 3):
        append(log, 3, value=bytes(20), timestamp=NOW_MS + 10 * number)
    logs.close()
    if not clean:
        (path / ".kafka_cleanshutdown").unlink()
    return sorted(path.glob("t-0/*.log"), reverse=True)


def loaded(path: Path, config: LogConfig = CONFIG) -> tuple[LogDirectories, PartitionLog]:
    logs = open_logs(path, config=config)
    log = logs.get("t", 0)
    assert log is not None
    return logs, log


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut_between_batches(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // BATCH_BYTES // 2 * BATCH_BYTES])


def cut_in_a_batch(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: -BATCH_BYTES // 2])


def fill_with_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


Fault = Callable[[Path], None]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "fault", [remove, empty, cut_between_batches, cut_in_a_batch, fill_with_zeros]
)
def test_an_end_that_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, clean: bool, fault: Fault
) -> None:
    last = stopped(tmp_path, clean=clean)[0]
    fault(last)
    logs, log = loaded(tmp_path)
    kept = offsets(read_all(log))
    lost_from = kept[-1] + 1
    assert kept == list(range(lost_from))
    assert int(last.stem) <= lost_from < END
    assert f"t-0 has lost the records from offset {lost_from} to {END - 1}" in caplog.text
    logs.abandon()  # a crash, before anybody was told
    logs, log = loaded(tmp_path)
    assert log.epoch_due_at == lost_from
    log.start_leader_epoch(1)
    close_losses([log])
    (header,) = (header for _, header in iterate_headers(read_bytes(log, lost_from)))
    assert (header.record_count, header.leader_epoch, header.end_offset) == (0, 1, END)
    for _ in range(2):
        assert log.end_offset_for_epoch(0) == EpochEnd(0, lost_from)
        caplog.clear()
        assert append(log, 1, leader_epoch=1).base_offset >= END
        assert log.end_offset_for_epoch(0) == EpochEnd(0, lost_from)
        logs.abandon()
        logs, log = loaded(tmp_path)
        assert log.epoch_due_at is None
        assert "lost" not in "".join(each.message for each in caplog.records if each.levelno > 20)
    assert offsets(read_all(log)) == [*range(lost_from), END, END + 1]
    logs.close()


def test_a_crash_before_a_lost_end_is_filled(tmp_path: Path) -> None:
    last = stopped(tmp_path)[0]
    remove(last)
    logs, log = loaded(tmp_path)
    log.start_leader_epoch(1)
    log.durability.save_leader_epochs(log.leader_epochs)
    logs.abandon()
    logs, log = loaded(tmp_path)
    assert log.epoch_due_at == int(last.stem)
    log.start_leader_epoch(2)
    close_losses([log])
    assert log.end_offset_for_epoch(0) == EpochEnd(0, int(last.stem))
    assert read_bytes(log, int(last.stem))
    logs.abandon()


def test_an_end_that_was_never_on_the_device_is_not_missed(tmp_path: Path) -> None:
    """What an unclean stop may lose by right: the epoch that begins after each of them tells."""
    logs = open_logs(tmp_path)
    log = create(logs)
    append(log, 3)
    log.flush()
    logs.write_checkpoints()
    append(log, 3)
    logs.abandon()
    (path,) = tmp_path.glob("t-0/*.log")
    path.write_bytes(path.read_bytes()[:-1])
    logs, log = loaded(tmp_path)
    assert (log.log_end_offset, log.epoch_due_at) == (3, None)
    logs.abandon()


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_lost_everything_begins_where_it_ended(tmp_path: Path, clean: bool) -> None:
    for path in stopped(tmp_path, clean=clean):
        path.unlink()
    logs, log = loaded(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (END, END)
    assert log.epoch_due_at == 0
    assert append(log).base_offset == END
    logs.close()
    logs, log = loaded(tmp_path)
    assert offsets(read_all(log)) == [END]
    logs.abandon()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("fault", [remove, empty, cut_between_batches])
def test_a_gap_between_segments(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, clean: bool, fault: Fault
) -> None:
    paths = stopped(tmp_path, clean=clean)
    fault(paths[2])
    logs, log = loaded(tmp_path)
    following = int(paths[1].stem)
    lost_from = int(paths[2].stem)
    if fault is cut_between_batches:
        lost_from += 3 * (paths[2].stat().st_size // BATCH_BYTES)
    assert f"t-0 has lost the records from offset {lost_from} to {following - 1}" in caplog.text
    assert log.epoch_due_at == log.log_end_offset == END
    assert offsets(read_all(log)) == [*range(lost_from), *range(following, END)]
    assert read_all(log, lost_from)[0].offset == following
    logs.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("number", [0, 2, -1])
def test_states_are_not_exact_where_records_are_lost(
    tmp_path: Path, clean: bool, number: int
) -> None:
    remove(stopped(tmp_path, clean=clean)[number])
    for _ in range(2):
        logs, log = loaded(tmp_path)
        assert log.exact_from == UNKNOWN_YET
        log.start_leader_epoch(log.leader_epochs.latest_epoch + 1)
        close_losses([log])
        logs.abandon()  # a crash: the next start finds nothing missing
    logs, log = loaded(tmp_path)
    log.settle_exact_states()
    assert log.exact_from == END
    logs.close()
    logs, log = loaded(tmp_path)
    assert log.exact_from == END
    logs.close()


@pytest.mark.parametrize("fault", [remove, empty])
def test_a_gap_at_the_beginning(tmp_path: Path, fault: Fault) -> None:
    """A reader of that place gets an error, as after retention: the log begins after it."""
    *_, second, first = stopped(tmp_path)
    fault(first)
    logs, log = loaded(tmp_path)
    assert log.log_start_offset == int(second.stem)
    with pytest.raises(KafkaError) as refused:
        log.read(0, 100, END, minimum_one_batch=True)
    assert refused.value.code is ErrorCode.offset_out_of_range
    logs.close()


def test_gaps_that_a_cleaning_leaves_are_nothing_unusual(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = stopped(tmp_path)
    remove(paths[2])
    logs, log = loaded(tmp_path, COMPACTED)
    assert log.epoch_due_at is None
    log.log_directory.cleaner_offsets.set(("t", 0), int(paths[1].stem), only_if=lambda: True)
    logs.close()
    logs, log = loaded(tmp_path)  # its policy is another one now
    assert log.epoch_due_at is None
    assert "lost" not in caplog.text
    logs.abandon()


@pytest.mark.parametrize("fault", [empty, cut_between_batches])
def test_a_compacted_segment_that_its_index_knows_to_be_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: Fault
) -> None:
    fault(stopped(tmp_path)[2])
    logs, log = loaded(tmp_path, COMPACTED)
    assert "t-0 has lost the records from offset" in caplog.text
    assert log.epoch_due_at == END
    logs.close()


def test_a_gap_that_an_epoch_tells_of_is_known(tmp_path: Path) -> None:
    paths = stopped(tmp_path)
    remove(paths[0])
    lost_from = int(paths[0].stem)
    logs, log = loaded(tmp_path)
    log.start_leader_epoch(1)
    append(log, 3, leader_epoch=1)
    logs.close()
    logs, log = loaded(tmp_path)
    assert log.epoch_due_at is None
    assert log.leader_epochs.entries == (EpochEntry(0, 0), EpochEntry(1, lost_from))
    logs.abandon()


# -- bytes that are no batches -----------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("tail", [b"x", bytes(70), b"garbage" * 100])
def test_bytes_behind_the_last_batch_of_a_sealed_segment(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, clean: bool, tail: bytes
) -> None:
    path = stopped(tmp_path, clean=clean)[2]
    content = path.read_bytes() + tail
    path.write_bytes(content)
    logs, log = loaded(tmp_path)
    assert offsets(read_all(log)) == list(range(END))
    assert f"{path}: the last {len(tail)} bytes" in caplog.text
    assert log.epoch_due_at is None
    logs.close()
    assert path.read_bytes() == content


@pytest.mark.parametrize("tail", [b"x", bytes(100), b"garbage" * 100])
def test_bytes_behind_the_last_batch_of_a_clean_stop(tmp_path: Path, tail: bytes) -> None:
    """What is appended next must not follow them."""
    logs = open_logs(tmp_path, config=CONFIG)
    append(create(logs, CONFIG), 3)
    logs.close()
    with (tmp_path / "t-0/00000000000000000000.log").open("ab") as file:
        file.write(tail)
    logs, log = loaded(tmp_path)
    append(log, 3)
    logs.close()
    logs, log = loaded(tmp_path)
    assert offsets(read_all(log)) == list(range(6))
    logs.close()


@pytest.mark.parametrize("length", [-1, 0, 5, 10_000, 2**31 - 1])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_wrong_length_in_a_sealed_segment(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, length: int, number: int
) -> None:
    """No offset after it is skipped, by consumers or by a coordinator that loads its state."""
    path = stopped(tmp_path)[2]
    content = bytearray(path.read_bytes())
    position = number * BATCH_BYTES % len(content)
    struct.pack_into(">i", content, position + 8, length)
    path.write_bytes(content)
    offset = int(path.stem) + 3 * position // BATCH_BYTES
    logs, log = loaded(tmp_path)
    for _ in range(2):
        with pytest.raises(KafkaError) as refused:
            log.read(offset, 100, END, minimum_one_batch=True)
        assert refused.value.code is ErrorCode.corrupt_message
    assert len([each for each in caplog.records if "CORRUPT_MESSAGE" in each.message]) == 1
    assert str(path) in caplog.text
    with pytest.raises(KafkaError, match="corrupt_message"):
        list(batches_of(log))
    if number != 0:
        with pytest.raises(KafkaError, match="corrupt_message"):
            log.offset_for_timestamp(NOW_MS + 10 * offset // 3)
    behind = int(segment_behind(path).stem)
    assert offsets(read_all(log, behind)) == list(range(behind, END))
    logs.abandon()


def segment_behind(path: Path) -> Path:
    return min(each for each in path.parent.glob("*.log") if each > path)


def test_a_length_that_is_damaged_while_the_broker_runs(tmp_path: Path) -> None:
    """It knows the position, and need not look for the batch: a loader must end all the same."""
    logs = open_logs(tmp_path, config=CONFIG)
    log = create(logs, CONFIG)
    for _ in range(END // 3):
        append(log, 3, value=bytes(20))
    path = min(tmp_path.glob("t-0/*.log"))
    with path.open("r+b") as file:
        file.seek(BATCH_BYTES + 8)
        file.write(struct.pack(">i", 5))
    with pytest.raises((CorruptRecord, KafkaError)):
        list(batches_of(log))
    logs.abandon()


@pytest.mark.parametrize("content", [b"\xff" * 64, struct.pack(">ii", 3, HEADER_SIZE) * 5])
def test_an_index_that_leads_astray_hides_nothing(tmp_path: Path, content: bytes) -> None:
    path = stopped(tmp_path)[2]
    path.with_suffix(".index").write_bytes(content)
    logs, log = loaded(tmp_path)
    assert log.epoch_due_at is None
    for offset in range(END):
        assert read_all(log, offset)[0].offset == offset
    logs.abandon()


def test_a_gap_between_segments_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, _, third, *_ = stopped(tmp_path)
    cut_between_batches(third)
    logs, log = loaded(tmp_path)
    assert log.epoch_due_at == END
    assert "has lost the records from offset" in caplog.text
    kept = offsets(read_all(log))
    for _ in range(2):
        logs.abandon()
        caplog.clear()
        logs, log = loaded(tmp_path)
        assert log.epoch_due_at is None
        assert not caplog.records
        assert offsets(read_all(log)) == kept
    logs.abandon()


@pytest.mark.parametrize("clean", [True, False])
def test_an_end_of_several_segments_that_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, clean: bool
) -> None:
    last, *others = stopped(tmp_path, clean=clean)[:3]
    for path in (last, *others):
        empty(path)
    logs, log = loaded(tmp_path)
    lost_from = int(others[-1].stem)
    assert log.epoch_due_at == lost_from
    log.start_leader_epoch(1)
    close_losses([log])
    assert append(log, 1, leader_epoch=1).base_offset == END
    logs.abandon()
    caplog.clear()
    logs, log = loaded(tmp_path)
    assert log.epoch_due_at is None
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
    assert log.end_offset_for_epoch(0) == EpochEnd(0, lost_from)
    assert offsets(read_all(log)) == [*range(lost_from), END]
    logs.abandon()


def test_a_folder_that_was_put_there_is_looked_at(tmp_path: Path) -> None:
    """A clean stop has left the others; of this one nobody knows how it was left."""
    logs = open_logs(tmp_path, config=CONFIG)
    log = create(logs, CONFIG)
    for _ in range(3):
        append(log)
    logs.close()
    shutil.copytree(tmp_path / "t-0", tmp_path / "u-0")
    (tmp_path / "u-0" / "partition.metadata").unlink()
    path = tmp_path / "u-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    logs = open_logs(tmp_path, config=CONFIG)
    found = {each.topic: each.log_end_offset for each in logs}
    assert found == {"t": 3, "u": 2}
    logs.close()
