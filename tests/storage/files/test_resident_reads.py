"""Reads that must not wait for a device: what they cost, and that they know what they read from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drumlin.config.topic import LogConfig
from drumlin.storage.files.files import Files
from storage.samples import IN_MEMORY, append, create, open_logs


class CountingFiles(Files):
    """Counts the reads that a search makes."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def read_resident_at(self, descriptor: int, length: int, position: int) -> bytes | bytearray:
        self.reads += 1
        return super().read_resident_at(descriptor, length, position)


@pytest.mark.parametrize("batch_bytes", [100, 3_000, 20_000])
def test_reading_in_order_searches_little(tmp_path: Path, batch_bytes: int) -> None:
    """Batch by batch, long before the end of the log."""
    files = CountingFiles()
    logs = open_logs(tmp_path, files=files)
    log = create(logs, LogConfig())
    for _ in range(600):
        append(log, value=bytes(batch_bytes))
    for offset in range(300):
        (part,) = log.read(offset, 1, 600, minimum_one_batch=True, may_block=False).slices
        part.release()
    # One for each batch; and the indexes, and a walk to the first.
    assert files.reads <= 300 + 10
    logs.close()


def test_reads_end_where_the_file_does(tmp_path: Path) -> None:
    files = Files()
    path = str(tmp_path / "x")
    files.write_file(path, b"0123456789")
    descriptor = files.open(path)
    assert files.read_resident_at(descriptor, 4, 2) == b"2345"
    assert files.read_resident_at(descriptor, 100, 8) == b"89"
    assert files.read_resident_at(descriptor, 100, 10) == b""
    assert files.is_resident_at(descriptor, 9)
    files.close(descriptor)


@pytest.mark.skipif(IN_MEMORY is None, reason="no file system in memory")
def test_what_is_known_of_a_file_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next file with the same descriptor may lie on a device."""
    files = Files()
    path = f"{IN_MEMORY}/drumlin-{os.getpid()}"
    files.write_file(path, b"content")
    descriptor = files.open(path)
    try:
        assert files.read_resident_at(descriptor, 7, 0) == b"content"
    finally:
        files.close(descriptor)
        files.remove(path)
    files.write_file(str(tmp_path / "x"), b"another")
    assert files.open(str(tmp_path / "x")) == descriptor

    def asks_the_device(*_: object) -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "preadv", asks_the_device)
    assert not files.is_resident_at(descriptor, 0)
    files.close(descriptor)
