"""Producers whose records retention or DeleteRecords has taken: they are known all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumlin.clock import ManualClock
from drumlin.config.topic import LogConfig
from drumlin.turns import to_end
from storage.samples import NOW_MS, append, create, from_producer, open_logs, producers

_FLUSHED = LogConfig(flush_messages=1)
_A_WEEK_MS = 7 * 24 * 3600 * 1000


@pytest.mark.parametrize("config", [LogConfig(), _FLUSHED], ids=["default", "flush.messages=1"])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_producers_outlive_all_their_records(
    tmp_path: Path, config: LogConfig, is_restarted: bool
) -> None:
    clock = ManualClock(NOW_MS)
    logs = open_logs(tmp_path, config=config, clock=clock)
    log = create(logs, config)
    for sequence in range(10):
        log.append_as_leader(from_producer(sequence, epoch=3), 0, NOW_MS)
    if config is _FLUSHED:
        log.flush()
    if is_restarted:
        logs.close()
        logs = open_logs(tmp_path, config=config, clock=clock)
        log = logs.get("t", 0) or log
    clock.advance_ms(_A_WEEK_MS + 1)
    to_end(logs.delete_old_segments())
    assert log.log_start_offset == 10
    for each in to_end(logs.logs_to_flush()):
        each.flush()
    logs.close()
    logs = open_logs(tmp_path, config=config, clock=clock)
    again = logs.get("t", 0)
    assert again is not None
    assert producers(again) == [(7, 3, 9)]
    assert again.append_as_leader(from_producer(9, epoch=3), 0, NOW_MS).is_duplicate
    assert append(again).base_offset == 10
    logs.close()


@pytest.mark.parametrize("config", [LogConfig(), _FLUSHED], ids=["default", "flush.messages=1"])
def test_producers_outlive_records_that_were_deleted(tmp_path: Path, config: LogConfig) -> None:
    logs = open_logs(tmp_path, config=config)
    log = create(logs, config)
    log.append_as_leader(from_producer(0, producer_id=5, epoch=3), 0, NOW_MS)
    log.append_as_leader(from_producer(0, producer_id=6, is_transactional=True), 0, NOW_MS)
    if config is _FLUSHED:
        log.flush()
    log.delete_records_before(2)
    logs.close()
    logs = open_logs(tmp_path, config=config)
    again = logs.get("t", 0)
    assert again is not None
    assert producers(again) == [(5, 3, 0), (6, 0, 0)]
    assert again.producer_state.has_open_transaction(6, 0)
    logs.close()
