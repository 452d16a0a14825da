"""What is no ordinary file, or may not be read, in the place of one: one log suffers, no other."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from drumlin.clock import SystemClock
from drumlin.config.topic import LogConfig
from drumlin.storage.all_logs.log_directories import LogDirectories, UnusableLogDirectory
from drumlin.storage.all_logs.read_only import look_at_log, open_read_only
from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.storage.directory.meta_properties import FILE_NAME as META_PROPERTIES
from drumlin.storage.files.files import Files
from drumlin.wire.error_codes import ErrorCode, KafkaError
from storage.doors import FailingFiles
from storage.samples import append, create, offsets, open_logs, read_all

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=100)


def stopped(path: Path, files: Files | None = None) -> None:
    logs = open_logs(path, config=CONFIG, files=files)
    for topic in ("t", "other"):
        log = create(logs, CONFIG, topic)
        for _ in range(15):
            append(log, 3, value=bytes(20))
    logs.close()


def directory(path: Path) -> None:
    path.mkdir()


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def link_to_nothing(path: Path) -> None:
    path.symlink_to(path.with_name("nothing"))


Fault = Callable[[Path], None]


def one_dir(logs: LogDirectories) -> LogDirectory:
    (found,) = logs.directories
    return found


@pytest.mark.parametrize("fault", [directory, fifo, link_to_itself, link_to_nothing])
@pytest.mark.parametrize(
    "pattern", ["0*0.log", "*[1-9].log", "leader-epoch-checkpoint", "partition.metadata"]
)
def test_an_odd_file_takes_out_its_log_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, pattern: str, fault: Fault
) -> None:
    stopped(tmp_path)
    path = max((tmp_path / "t-0").glob(pattern))
    before = path.read_bytes()
    path.unlink()
    fault(path)
    logs = open_logs(tmp_path, config=CONFIG)
    assert one_dir(logs).is_online
    other = logs.get("other", 0)
    assert other is not None
    assert offsets(read_all(other)) == list(range(45))
    if logs.get("t", 0) is None:
        assert str(path) in caplog.text
    else:  # a small file that is not there can be done without
        assert fault is link_to_nothing
        assert not path.name.endswith(".log")
    logs.close()
    if not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        path.rmdir()
    path.write_bytes(before)
    logs = open_logs(tmp_path, config=CONFIG)
    log = logs.get("t", 0)
    assert log is not None
    assert offsets(read_all(log)) == list(range(45))
    logs.abandon()


@pytest.mark.parametrize("fault", [directory, fifo])
def test_an_odd_file_of_the_dir_itself_is_named(tmp_path: Path, fault: Fault) -> None:
    stopped(tmp_path)
    path = tmp_path / META_PROPERTIES
    path.unlink()
    fault(path)
    with pytest.raises(UnusableLogDirectory, match=str(path)):
        open_logs(tmp_path)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EISDIR, errno.ELOOP])
def test_a_file_that_is_refused_while_the_log_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    files = FailingFiles()
    logs = open_logs(tmp_path, files=files)
    log = create(logs)
    append(log)
    files.fail("write_at", "read_at", code=code)
    for _ in range(3):
        with pytest.raises(KafkaError) as refused:
            append(log)
        assert refused.value.code is ErrorCode.kafka_storage_error
    assert one_dir(logs).is_online
    assert caplog.text.count("append to t-0") == 1
    files.heal()
    append(log)
    assert offsets(read_all(log)) == [0, 1]
    logs.close()


# -- what is not ours ------------------------------------------------------------------------------

_STRANGERS = [
    "00000000000000000000 (copy).log",
    "00000000000000000000.log~",
    "5.log",
    ".log",
    "notes.log",
    "0000000000000000000000005.log",
    "99999999999999999999.log",
    "\u0660" * 20 + ".log",
    "00000000000000000000 (copy).index",
    "copy.timeindex",
    "5.txnindex",
    "copy.snapshot",
    "-0000000000000000001.snapshot",
    "copy.cleaned",
    "copy.log.swap",
    "00000000000000000005.txt.swap",
    "mine.deleted",
    "draft.tmp",
    "leader-epoch-checkpoint (copy)",
]


@pytest.mark.parametrize("name", _STRANGERS)
def test_a_file_that_is_not_ours_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """However much its name looks like one of ours."""
    stopped(tmp_path)
    stranger = tmp_path / "t-0" / name
    stranger.write_bytes(b"somebody's own")
    for is_clean in (True, False):
        caplog.clear()
        logs = open_logs(tmp_path, config=CONFIG)
        log = logs.get("t", 0)
        assert log is not None
        assert offsets(read_all(log)) == list(range(45))
        (said,) = [each for each in caplog.records if each.levelname == "WARNING"]
        assert name in said.getMessage()
        if is_clean:
            logs.abandon()
        else:
            logs.close()
    directory = open_read_only(str(tmp_path), SystemClock())
    assert offsets(read_all(look_at_log(directory, "t", 0, CONFIG))) == list(range(45))
    assert stranger.read_bytes() == b"somebody's own"


@pytest.mark.parametrize(
    "name",
    ["t-00", "t-0\u0660", "my topic-0", "t-4294967296", "kept-delete", "t-1.0a-delete", "x-future"],
)
def test_a_folder_that_is_not_ours_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    stopped(tmp_path)
    stranger = tmp_path / name
    shutil.copytree(tmp_path / "t-0", stranger)
    before = sorted(stranger.iterdir())
    logs = open_logs(tmp_path, config=CONFIG)
    assert {(log.topic, log.partition) for log in logs} == {("t", 0), ("other", 0)}
    assert len(logs.with_second_logs()) == 2
    logs.remove_doomed()
    logs.close()
    assert sorted(stranger.iterdir()) == before
    said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(said) == name[-1].isdigit()
    assert all(str(stranger) in each for each in said)


# -- logs that are not loaded ------------------------------------------------------------------


class Unlucky(Files):
    """Has no descriptor left for one log, while it is loaded."""

    def size_of(self, path: str) -> int:
        if "/t-0/" in path:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().size_of(path)


@pytest.mark.parametrize("clean", [True, False])
def test_what_is_noted_of_a_log_outlasts_a_start_without_it(tmp_path: Path, clean: bool) -> None:
    """Deleted records stay deleted; and what was not left in order is read again when it can be."""
    stopped(tmp_path)
    logs = open_logs(tmp_path, config=CONFIG)
    log = logs.get("t", 0)
    assert log is not None
    log.delete_records_before(20)
    if clean:
        logs.close()
    else:
        append(log, 3)
        logs.write_checkpoints()
        logs.abandon()
        path = max((tmp_path / "t-0").glob("*.log"))
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    logs = open_logs(tmp_path, config=CONFIG, files=Unlucky())
    assert logs.get("t", 0) is None
    logs.close()
    logs = open_logs(tmp_path, config=CONFIG)
    log = logs.get("t", 0)
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset) == (20, 45)
    assert log.high_watermark == 45
    assert log.epoch_due_at == (None if clean else 45)
    logs.abandon()


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_is_not_read_from_its_beginning_after_a_start_without_it(
    tmp_path: Path, clean: bool
) -> None:
    """A bad byte down there would cost all that follows, and their offsets would come twice."""
    logs = open_logs(tmp_path, config=CONFIG)
    log = create(logs, CONFIG)
    for _ in range(15):
        append(log, 3, value=bytes(20))
    log.flush()
    logs.write_checkpoints()
    logs.abandon()
    path = min((tmp_path / "t-0").glob("*.log"))
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    logs = open_logs(tmp_path, config=CONFIG, files=Unlucky())
    assert logs.get("t", 0) is None
    if clean:
        logs.close()
    else:
        logs.abandon()
    epochs_due = []
    for _ in range(2):
        logs = open_logs(tmp_path, config=CONFIG)
        again = logs.get("t", 0)
        assert again is not None
        assert (again.log_start_offset, again.log_end_offset) == (0, 45)
        epochs_due.append(again.epoch_due_at)
        logs.close()
    assert epochs_due == [45 if clean else None, None]  # after a crash all logs have new ones


class RefusingOnce(Files):
    """Refuses the first log file that is opened once it `refuses`."""

    refuses = False

    def open(self, path: str, *, create: bool = False) -> int:
        if self.refuses and path.endswith(".log"):
            self.refuses = False
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return super().open(path, create=create)


def test_a_log_that_could_not_be_flushed_is_not_called_clean(tmp_path: Path) -> None:
    files = RefusingOnce()
    logs = open_logs(tmp_path, config=CONFIG, files=files)
    log = create(logs, CONFIG)
    create(logs, CONFIG, "other")
    append(log, 3)
    append(log, 3)
    log.close_files()
    files.refuses = True
    logs.close()
    (path,) = (tmp_path / "t-0").glob("*.log")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # the power fails, and what was not flushed is garbage
    path.write_bytes(content)
    logs = open_logs(tmp_path, config=CONFIG)
    log_again = logs.get("t", 0)
    assert log_again is not None
    assert (log_again.log_end_offset, log_again.epoch_due_at) == (3, 3)
    other = logs.get("other", 0)
    assert other is not None
    assert other.epoch_due_at is None
    logs.abandon()
