"""A checkpoint whose file could not be written is written with the next round, changed or not."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from drumlin.storage.directory.checkpoints import Checkpoint
from drumlin.storage.files.files import Files
from storage.doors import FailingFiles

KEY = "t", 0


def test_what_could_not_be_written_is_written_by_the_next_round(tmp_path: Path) -> None:
    files = FailingFiles()
    checkpoint = Checkpoint(str(tmp_path), "a-checkpoint", files)
    checkpoint.set(KEY, 10, only_if=lambda: True)
    files.fail("write_at", code=errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        checkpoint.set(KEY, 20, only_if=lambda: True)
    files.heal()
    checkpoint.write(lambda: {KEY: 20})
    assert Checkpoint(str(tmp_path), "a-checkpoint", Files()).get(KEY) == 20
