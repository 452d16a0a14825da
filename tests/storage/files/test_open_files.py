"""The budget of descriptors: what is closed, and what must not be."""

from __future__ import annotations

import errno
import gc
import os
import threading
from pathlib import Path

import pytest

from drumlin.storage.files.files import Files
from drumlin.storage.files.open_files import LogFile, OpenFiles
from drumlin.wire.error_codes import KafkaError
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


def _files(tmp_path: Path, count: int, open_files: OpenFiles) -> list[LogFile]:
    found = []
    for number in range(count):
        path = tmp_path / str(number)
        path.write_bytes(b"%03d" % number)
        found.append(open_files.file(str(path)))
    return found


def _content(file: LogFile) -> bytes:
    with file as descriptor:
        return os.pread(descriptor, 10, 0)


def test_no_more_files_than_the_budget_are_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    open_files = OpenFiles(Files(), budget=5)
    files = _files(tmp_path, 20, open_files)
    for _ in range(3):
        for number, file in enumerate(files):
            assert _content(file) == b"%03d" % number
            assert open_files.open_count <= 5
    assert sum("ulimit -n" in message for message in caplog.messages) == 1


def test_what_is_used_again_and_again_stays_open(tmp_path: Path) -> None:
    open_files = OpenFiles(Files(), budget=4)
    hot, *others = _files(tmp_path, 20, open_files)
    _content(hot)
    for file in others:
        _content(hot)
        _content(file)
        assert hot.is_open


def test_who_opens_a_file_does_not_wait_until_all_are_looked_at(tmp_path: Path) -> None:
    """However many were used since the last look, as where everything is read."""
    open_files = OpenFiles(Files(), budget=300)
    files = _files(tmp_path, 301, open_files)
    for _ in range(2):
        for file in files[:300]:
            _content(file)
    assert all(file.was_used for file in files[:300])
    _content(files[300])
    assert sum(file.was_used for file in files[:300]) > 200
    assert sum(file.is_open for file in files[:300]) == 299


def test_a_file_in_use_is_not_closed(tmp_path: Path) -> None:
    open_files = OpenFiles(Files(), budget=2)
    held, *others = _files(tmp_path, 10, open_files)
    with held as descriptor:
        for file in others:
            _content(file)
        held.close()
        assert os.pread(descriptor, 3, 0) == b"000"
    held.close()
    assert not held.is_open


def test_a_discarded_file_closes_with_its_last_user(tmp_path: Path) -> None:
    open_files = OpenFiles(Files(), budget=4)
    (file,) = _files(tmp_path, 1, open_files)
    first, second = file.acquire(), file.acquire()
    assert first == second
    file.discard()
    (tmp_path / "0").unlink()
    assert os.pread(first, 3, 0) == b"000"
    file.release()
    assert file.is_open
    file.release()
    assert not file.is_open


def test_a_discarded_file_is_never_opened_again(tmp_path: Path) -> None:
    """Its name may have become another file's."""
    open_files = OpenFiles(Files(), budget=4)
    (file,) = _files(tmp_path, 1, open_files)
    file.discard()
    (tmp_path / "0").write_bytes(b"another file's content")
    with pytest.raises(FileNotFoundError):
        _content(file)
    assert open_files.open_count == 0


def test_a_deleted_log_reads_nothing_of_the_one_made_anew(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    old = create(logs)
    append(old)
    old.close_files()
    logs.delete("t", 0)
    new = create(logs)
    append(new, value=b"of the new topic")
    new.append_as_leader(from_producer(0, is_transactional=True), 0, NOW_MS)
    new.append_internal(marker(commit=False), 0, NOW_MS)
    assert old.aborted_transactions(0, 100) == [], "it had none, and that was known"
    for look in (
        lambda: read_all(old),
        lambda: old.offset_for_timestamp(NOW_MS),
    ):
        with pytest.raises(KafkaError, match="was deleted"):
            look()
    assert not list(old.aborted_transactions(0, 1))  # it knows its own, and there were none
    assert logs.directories[0].is_online
    logs.close()


@pytest.mark.parametrize("kind", ["slice", "walk"])
def test_the_collector_may_come_while_files_are_opened(tmp_path: Path, kind: str) -> None:
    """What it finds holds a file that is to be closed, and is finalized wherever it comes."""

    class Collecting(Files):
        collects = False

        def open(self, path: str, *, create: bool = False) -> int:
            if self.collects:
                self.collects = False
                gc.collect()
            return super().open(path, create=create)

    files = Collecting()
    logs = open_logs(tmp_path, files=files)
    doomed, other = create(logs, topic="doomed"), create(logs, topic="other")
    for log in (doomed, other):
        append(log)
        append(log)
        log.close_files()
    held: list[object] = []
    if kind == "slice":
        held.append(doomed.read(0, 1000, 1, minimum_one_batch=True).slices[0])
    else:
        walk = doomed.segments.active.walk(0)
        next(walk)
        held.append(walk)
        del walk
    gc.collect()
    held.append(held)  # a cycle, such as a fetch that was cancelled leaves behind
    del held
    log_file = doomed.segments.active.log_file
    logs.delete("doomed", 0)
    assert log_file.is_open
    files.collects = True
    reader = threading.Thread(target=read_all, args=(other,), daemon=True)
    reader.start()
    reader.join(20)
    assert not reader.is_alive()
    assert not files.collects
    assert not log_file.is_open
    logs.close()


def test_closes_others_when_the_process_is_short(tmp_path: Path) -> None:
    class Short(Files):
        failures = 1

        def open(self, path: str, *, create: bool = False) -> int:
            if path.endswith("/9") and self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "too many")
            return super().open(path, create=create)

    open_files = OpenFiles(Short(), budget=100)
    files = _files(tmp_path, 10, open_files)
    assert [_content(file) for file in files][-1] == b"009"
    assert open_files.open_count < 10


@pytest.mark.parametrize("open_count", [0, 1, 7, 8, 20])
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_shortage_is_an_error_as_long_as_it_lasts(
    tmp_path: Path, open_count: int, code: int
) -> None:
    """However few files there are that could be closed instead."""

    class Short(Files):
        is_short = False

        def open(self, path: str, *, create: bool = False) -> int:
            if self.is_short:
                raise OSError(code, os.strerror(code), path)
            return super().open(path, create=create)

    door = Short()
    open_files = OpenFiles(door)
    *others, wanted = _files(tmp_path, open_count + 1, open_files)
    for file in others:
        _content(file)
    door.is_short = True
    for _ in range(3):
        with pytest.raises(OSError, match=os.strerror(code)):
            _content(wanted)
    door.is_short = False
    assert _content(wanted) == b"%03d" % open_count
    assert [_content(file) for file in others] == [b"%03d" % each for each in range(open_count)]


def test_threads_never_read_a_wrong_file(tmp_path: Path) -> None:
    open_files = OpenFiles(Files(), budget=3)
    files = _files(tmp_path, 12, open_files)
    wrong = []

    def work(start: int) -> None:
        for turn in range(1500):
            number = (start + turn * 7) % len(files)
            if _content(files[number]) != b"%03d" % number:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_many_logs_on_few_descriptors(tmp_path: Path) -> None:
    logs = open_logs(tmp_path, budget=8)
    many = [create(logs, topic=f"t{number}") for number in range(20)]
    for turn in range(3):
        for log in many:
            append(log, 2)
            assert offsets(read_all(log)) == list(range(2 * turn + 2))
    logs.close()
    logs = open_logs(tmp_path, budget=8)
    assert sorted(log.log_end_offset for log in logs) == [6] * 20
    logs.abandon()
