"""Reading the whole log of an internal topic, as coordinators do when they load it."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumlin.records.batch.batch import iterate_headers
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.storage.log.log_batches import batches_of
from storage.samples import append, create, open_logs


def test_offsets_that_go_back_are_an_error(tmp_path: Path) -> None:
    """Base offsets are not covered by the CRC: a batch may be sound, and its place wrong."""
    logs = open_logs(tmp_path)
    log = create(logs)
    for _ in range(3):
        append(log)
    (piece,) = batches_of(log)
    positions = [position for position, _ in iterate_headers(piece)]
    (path,) = tmp_path.rglob("*.log")
    with path.open("r+b") as file:
        file.seek(positions[-1])
        file.write(bytes(8))
    with pytest.raises(CorruptRecord, match=f"{log.name}: after"):
        list(batches_of(log))
    logs.abandon()
