"""How much room a cleaning needs beside the log: one segment."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compaction.promises import CONFIG, clean
from compaction.test_cleaner_cases import new_world, offsets, put
from drumlin.storage.files import Files
from storage.samples import IN_MEMORY, NOW_MS

_INDEX_BYTES = 4096


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as path:
        yield Path(path)


class Weighed(Files):
    """Knows the most that the files of a folder had at any time, but for those that wait for
    `file.delete.delay.ms` to be removed."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.most_bytes = 0

    def weigh(self) -> int:
        sizes = [
            path.stat().st_size for path in self._folder.glob("*/*") if path.suffix != ".deleted"
        ]
        self.most_bytes = max(self.most_bytes, sum(sizes))
        return sum(sizes)

    def write_at(self, descriptor: int, data: Any, position: int) -> None:
        super().write_at(descriptor, data, position)
        self.weigh()

    def rename(self, old: str, new: str) -> None:
        self.weigh()
        super().rename(old, new)
        self.weigh()


def test_a_cleaning_needs_no_more_than_one_segment_beside_the_log(folder: Path) -> None:
    """However many segments are rewritten, and though nearly all of their records stay."""
    files = Weighed(folder)
    world = new_world(folder, files=files)
    for number in range(20):
        for part in range(8):
            put(world.log, world.log.log_end_offset, b"%d %d" % (number, part), b"same")
        world.log.roll(NOW_MS)
    before = files.weigh()
    assert before > 10 * CONFIG.segment_bytes
    files.most_bytes = 0
    assert clean(world) is not None
    assert len(offsets(world.log)) == 20 * 8 + 1
    assert files.weigh() < before
    assert before < files.most_bytes <= before + CONFIG.segment_bytes + _INDEX_BYTES
    world.logs.abandon()
