"""A moment without descriptors, or without memory: what could not be done then is done later."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pytest

from drumlin.config.topic import LogConfig
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.files.files import Files
from drumlin.wire.error_codes import KafkaError
from storage.samples import IN_MEMORY, TOPIC_ID, append, create, offsets, open_logs, read_all

#: Every call of the door that may need a descriptor or memory.
_ACQUIRING = (
    "open",
    "create",
    "sync_directory",
    "list_directory",
    "read_file",
    "read_at",
    "write_file",
    "sync_file",
)
_EMFILE = OSError(errno.EMFILE, os.strerror(errno.EMFILE))


class Short(Files):
    """Its n-th acquisition fails, or all from it on, as long as the shortage lasts."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.fails_at = 0
        self.only_once = False
        self.seen = 0

    def begin(self, error: Exception, at: int = 0, *, only_once: bool = False) -> None:
        self.error, self.fails_at, self.only_once, self.seen = error, at, only_once, 0

    def end(self) -> None:
        self.error = None

    def acquire(self) -> None:
        if self.error is None:
            return
        self.seen += 1
        if self.seen == self.fails_at + 1 or (self.seen > self.fails_at and not self.only_once):
            raise self.error


def _short(name: str) -> Callable[..., Any]:
    original = getattr(Files, name)

    def operation(self: Short, *arguments: Any, **named: Any) -> Any:
        self.acquire()
        return original(self, *arguments, **named)

    return operation


for _name in _ACQUIRING:
    setattr(Short, _name, _short(_name))


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """Where many small files are made: this is not about devices."""
    with TemporaryDirectory(dir=IN_MEMORY) as path:
        yield Path(path)


def _create(logs: LogDirectories, *, is_new: bool = True) -> Any:
    return logs.create_all("t", [0], TOPIC_ID, LogConfig(), is_new=is_new)[0]


def _stopped(paths: Sequence[Path], *, clean: bool) -> None:
    logs = open_logs(*paths)
    for topic in ("t", "u"):
        log = create(logs, topic=topic)
        for _ in range(5):
            append(log)
    if clean:
        logs.close()
    else:
        logs.write_checkpoints()
        logs.abandon()


@pytest.mark.parametrize("error", [_EMFILE, MemoryError()], ids=["EMFILE", "memory"])
@pytest.mark.parametrize("only_once", [True, False])
def test_a_log_that_could_not_be_made_is_made_later(
    in_memory: Path, error: Exception, only_once: bool
) -> None:
    """Whatever it failed at: nothing is left of the attempt."""
    for number in range(20):
        files = Short()
        logs = open_logs(in_memory / str(number), files=files)
        files.begin(error, number, only_once=only_once)
        try:
            first = _create(logs)
        except MemoryError:
            first = None
        if files.seen <= number:
            break
        assert not hasattr(first, "topic")
        assert logs.directories[0].is_online
        files.end()
        again = _create(logs, is_new=False)
        assert again.log_end_offset == 0
        append(again)
        assert offsets(read_all(again)) == [0]
        logs.close()
    assert number > 2


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("error", [_EMFILE, MemoryError()], ids=["EMFILE", "memory"])
def test_a_log_that_could_not_be_loaded_is_loaded_later(
    tmp_path: Path, in_memory: Path, error: Exception, clean: bool
) -> None:
    """Whatever it failed at; and there is never an empty one in its place."""
    _stopped([tmp_path / "a", tmp_path / "b"], clean=clean)
    number = -1
    while True:
        number += 1
        copies = in_memory / str(number)
        shutil.copytree(tmp_path, copies)
        dirs = copies / "a", copies / "b"
        files = Short()
        files.begin(error, number, only_once=True)
        try:
            logs = open_logs(*dirs, files=files)
        except MemoryError:  # the start is refused
            continue
        if files.seen <= number:
            break
        missing = [topic for topic in ("t", "u") if logs.get(topic, 0) is None]
        for topic in missing:
            (made,) = logs.create_all(topic, [0], TOPIC_ID, LogConfig(), is_new=False)
            assert isinstance(made, KafkaError)
        for directory in logs.directories:
            if not directory.is_online:
                assert logs.repair(directory)
                assert logs.bring_back(directory)
            elif directory.not_loaded:
                assert logs.load_again(directory)
                assert not directory.not_loaded
        for topic in ("t", "u"):
            log = logs.get(topic, 0)
            assert log is not None
            assert offsets(read_all(log)) == list(range(5))
            append(log)
        logs.close()
    assert number > 10


def test_a_topic_that_is_made_anew_meanwhile_keeps_its_own_log(tmp_path: Path) -> None:
    """However late the log of its predecessor is loaded."""

    class Meanwhile(Files):
        refused = ""
        made: Any = None

        def read_file(self, path: str) -> bytes:
            if self.refused and path.startswith(self.refused):
                raise _EMFILE
            if "/t-0/" in path and self.made is None and not self.refused:
                (self.made,) = logs.create_all("t", [0], UUID(int=9), LogConfig())
            return super().read_file(path)

    dirs = tmp_path / "a", tmp_path / "b"
    _stopped(dirs, clean=True)
    logs = open_logs(*dirs)
    old = logs.get("t", 0)
    assert old is not None
    old_path = old.path
    logs.close()
    files = Meanwhile()
    files.refused = old_path
    logs = open_logs(*dirs, files=files)
    assert logs.get("t", 0) is None
    files.refused = ""
    (directory,) = (each for each in logs.directories if each.not_loaded)
    assert logs.load_again(directory)
    assert logs.get("t", 0) is files.made
    assert files.made.topic_id == UUID(int=9)
    paths = [log.path for log in logs.with_second_logs() if log.topic == "t"]
    assert paths == [files.made.path, old_path]
    logs.abandon()
