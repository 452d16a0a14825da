"""How long the way of a cleaning is: as docs/architecture.md shows it."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import pytest

from compaction.promises import CONFIG, call
from compaction.round.test_cleaner_cases import put
from drumlin.clock import ManualClock
from drumlin.compaction.pool.pool import CleanerPool
from drumlin.compaction.round import rewriter
from drumlin.compaction.settings import CleanerSettings
from drumlin.storage.files.files import Files
from rig.documents.ways import assert_as_told, noted, way_of
from storage.samples import IN_MEMORY, NOW_MS, create, open_sole_logs


def test_a_piece_of_a_segment(monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> None:
    """More than the buffer holds, so that it is written before the segment's end, too."""
    monkeypatch.setattr(rewriter, "_OUTPUT_BYTES", 400)
    config = dataclasses.replace(CONFIG, segment_bytes=1 << 20)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        clock = ManualClock(NOW_MS)
        logs = open_sole_logs(Path(folder), config=config, clock=clock)
        log = create(logs, config)
        for number in range(20):
            put(log, log.log_end_offset, b"%d" % number, b"same")
        log.roll(NOW_MS)
        pool = CleanerPool(logs, call, CleanerSettings(backoff_ms=1), clock)
        with noted(CleanerPool._work.__code__, (Files, "write_at"), monkeypatch) as ways:
            pool.start()
            assert pool.run(log, 60)
            pool.stop()
        logs.abandon()
    longest = max((way for way in ways if any(each.co_name == "rewrite" for each in way)), key=len)
    assert_as_told("cleaning, a piece of a segment", way_of(longest), pytestconfig)
