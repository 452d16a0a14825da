"""A log that is deleted while it moves to another log dir: nothing of it is left there."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumlin.storage.replacement.log_move import LogMove
from drumlin.wire.error_codes import KafkaError
from storage.replacement.test_log_move import CONFIG, fill, folders, opened
from storage.samples import create


def test_a_log_that_is_deleted_is_not_moved(tmp_path: Path) -> None:
    dirs = tmp_path / "one", tmp_path / "two"
    fill(dirs)
    logs, log = opened(dirs)
    move = LogMove(log, logs.directories[1])
    move.begin()
    move.copy(1000)
    logs.delete("t", 0)
    with pytest.raises(KafkaError):
        move.copy(1000)
    move.abandon()
    assert folders(dirs)[1] == []


def test_nothing_of_a_deleted_log_is_noted_for_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic is deleted, and created again in the other log dir, as its move changes over."""
    dirs = tmp_path / "one", tmp_path / "two"
    fill(dirs)
    logs, log = opened(dirs)
    source, target = logs.directories
    move = LogMove(log, target)
    move.begin()
    key = "t", 0
    source.cleaner_offsets.set(key, 20, only_if=lambda: True)
    clean_up_to = source.cleaner_offsets.get

    def replace_log(key: tuple[str, int]) -> int | None:
        found = clean_up_to(key)
        logs.delete(*key)
        logs.wanted_places[key] = target
        create(logs, CONFIG)
        return found

    monkeypatch.setattr(source.cleaner_offsets, "get", replace_log)
    log.is_moving = True
    with pytest.raises(KafkaError):
        move.complete()
    move.abandon()
    again = logs.get(*key)
    assert again is not None
    assert (again.log_directory, again.log_end_offset) == (target, 0)
    for checkpoint in (
        target.recovery_points,
        target.log_start_offsets,
        target.cleaner_offsets,
        target.kept_deletions,
        target.delete_horizons,
        target.high_watermarks,
    ):
        assert not checkpoint.get(key), checkpoint.path
    logs.close()
