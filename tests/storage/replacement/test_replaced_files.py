"""What becomes of the files of segments that were swapped: their room is given back at once."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.files.files import Files
from drumlin.storage.log.durability import Durability
from drumlin.storage.replacement.segment_swap import SegmentSwap
from storage.replacement.swaps import CONFIG, SWAPS, Swap, cleaned, content, fill, written
from storage.samples import open_logs


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogDirectories]:
    logs = open_logs(tmp_path, config=CONFIG)
    yield logs
    logs.abandon()


def test_old_files_go_with_the_swap(logs: LogDirectories) -> None:
    """Before the next group of segments is begun; a reader keeps what it has."""
    log = fill(logs)
    before = content(log)
    piece = log.read(16, 1000, log.log_end_offset, minimum_one_batch=True).slices[0]
    expected = piece.read()
    view = log.cleaning_view()
    old, new = written(log, view, SWAPS["one against two"])
    with SegmentSwap(log, view, old, new) as swap:
        logs.swap_segments(swap)
    assert not list(log.directory.glob("*.deleted"))
    assert swap.held_bytes == old[0].size
    assert piece.read() == expected
    piece.release()
    assert swap.held_bytes == 0
    cleaned(logs, log, Swap(range(2, 4), lambda at: [at[2]], lambda offset: True))
    assert not list(log.directory.glob("*.deleted"))
    assert content(log).batches == before.batches
    assert {path.stem for path in log.directory.glob("*.snapshot")} == {
        f"{offset:020d}" for offset in (8, 16, 24, 32, 40) if offset != 20
    }


class Keeping(Files):
    """Cannot remove what is called so."""

    suffix: str | None = ".deleted"

    def remove(self, path: str) -> None:
        if self.suffix is not None and path.endswith(self.suffix):
            raise OSError(errno.EBUSY, "busy")
        super().remove(path)


def test_old_files_that_cannot_be_removed_yet(tmp_path: Path) -> None:
    """They go later, of whichever swap they are."""
    files = Keeping()
    logs = open_logs(tmp_path, config=CONFIG, files=files)
    log = fill(logs)
    for _ in range(2):  # of the same names, both waiting
        cleaned(logs, log, SWAPS["one against two"])
        cleaned(logs, log, Swap(range(2, 4), lambda at: [at[2]], lambda offset: True))
    assert len(list(log.directory.glob("*.log*.deleted"))) == 6
    before = content(log)
    files.suffix = None
    logs.remove_doomed()
    assert not list(log.directory.glob("*.deleted"))
    assert content(log) == before
    logs.abandon()


def test_old_files_of_a_swap_that_another_has_settled(logs: LogDirectories) -> None:
    """A truncation does so on the log's thread, which removes no large files."""
    log = fill(logs)
    view = log.cleaning_view()
    swap = SegmentSwap(log, view, *written(log, view, SWAPS["three against one"]))
    swap.prepare()
    logs.swap_segments(swap)
    log.truncate_to(41)
    assert list(log.directory.glob("*.deleted"))
    logs.remove_doomed()
    assert not list(log.directory.glob("*.deleted"))
    swap.finish()


def test_a_log_that_gets_another_folder_keeps_its_recovery_point(logs: LogDirectories) -> None:
    """A cleaning that has waited for the lock of the old one advances that, and no other."""
    log = fill(logs)
    view = log.cleaning_view()
    old, new = written(log, view, SWAPS["one against two"])
    other = Durability(log.path, log.log_directory.files)

    class Waiting:
        def __enter__(self) -> None:
            log.durability = other

        def __exit__(self, *_: object) -> None: ...

    log.durability.lock = Waiting()  # type: ignore[assignment]
    swap = SegmentSwap(log, view, old, new)
    swap.prepare()
    assert other.recovery_point == 0
    swap.abandon()
