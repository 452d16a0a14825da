"""A log that is deleted while it moves to another log dir: nothing of it is left there."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from drumlin.storage.files.folder_marker import LEAVING
from drumlin.storage.replacement.log_move import LogMove
from drumlin.wire.error_codes import KafkaError
from storage.replacement.test_log_move import CONFIG, fill, folders, opened
from storage.samples import append, create, open_logs


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


def test_a_note_in_the_folder_of_a_successor_does_not_keep_it_from_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic is deleted, and created again in the same log dir, as its old folder is marked;
    then the broker is started without the log dir to which the log of the first topic was moved.
    """
    dirs = tmp_path / "one", tmp_path / "two"
    fill(dirs)
    logs, log = opened(dirs)
    source, target = logs.directories
    move = LogMove(log, target)
    move.begin()
    files = source.files
    replace_file = files.replace_file

    def replace_log(path: str, *rest: Any) -> None:
        if path.endswith(LEAVING):
            logs.delete("t", 0)
            logs.wanted_places["t", 0] = source
            append(logs.create("t", 0, UUID(int=9), CONFIG, is_new=True))
        replace_file(path, *rest)

    monkeypatch.setattr(files, "replace_file", replace_log)
    log.is_moving = True
    with pytest.raises((OSError, KafkaError)):
        move.complete()
        move.adopt()
    move.abandon()
    logs.close()
    assert (dirs[0] / "t-0" / LEAVING).exists()
    away = dirs[1].rename(tmp_path / "away")
    dirs[1].write_text("in its place")
    logs = open_logs(*dirs, config=CONFIG)
    successor = logs.get("t", 0)
    assert successor is not None
    assert successor.log_end_offset == 1
    logs.close()
    dirs[1].unlink()
    away.rename(dirs[1])
    open_logs(*dirs, config=CONFIG).close()
    assert not (dirs[0] / "t-0" / LEAVING).exists()
