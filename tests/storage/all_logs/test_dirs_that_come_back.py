"""A crash has caught a log on its way to another log dir, and one of the two is offline then."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.directory.partition_metadata import NO_TOPIC_ID
from drumlin.storage.files.folder_marker import LEAVING
from drumlin.storage.files.partition_names import deleted_directory_name
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.log_move import LogMove
from drumlin.wire.error_codes import KafkaError
from storage.replacement.test_log_move import CONFIG, Two, content, dirs, fill, opened
from storage.samples import append, open_logs, revive

__all__ = ["dirs"]  # a fixture


def interrupted(dirs: Two) -> Any:
    """A crash comes when the copy in the second dir is complete; what is in the log."""
    fill(dirs)
    logs, log = opened(dirs)
    move = LogMove(log, logs.directories[1])
    move.begin()
    log.is_moving = True
    move.complete()
    log.is_moving = False
    before = content(log)
    logs.abandon()
    return before


@contextmanager
def second_dir_away(dirs: Two) -> Iterator[None]:
    away = dirs[1].rename(dirs[1].with_name("away"))
    dirs[1].write_text("in its place")
    yield
    dirs[1].unlink()
    away.rename(dirs[1])


def outlives_the_other(dirs: Two, logs: LogDirectories, log: PartitionLog, before: Any) -> None:
    """What was served while the other dir was away is the log, when it is back and at a start."""
    assert revive(logs, logs.directories[1])
    assert logs.with_second_logs() == [log]
    logs.close()
    logs, log = opened(dirs)
    assert content(log) == before
    logs.abandon()


@pytest.mark.parametrize("is_old_there", [True, False])
def test_a_log_that_may_be_in_a_dir_that_is_offline_waits_for_it(
    dirs: Two, is_old_there: bool
) -> None:
    before = interrupted(dirs)
    if not is_old_there:
        (dirs[0] / "t-0").rename(dirs[0] / deleted_directory_name("t", 0))
    with second_dir_away(dirs):
        logs = open_logs(*dirs, config=CONFIG)
        logs.load_again(logs.directories[0])
        assert logs.get("t", 0) is None
        with pytest.raises(KafkaError):
            logs.create("t", 0, NO_TOPIC_ID, CONFIG, is_new=False)
        logs.write_checkpoints()
    assert revive(logs, logs.directories[1])
    log = logs.get("t", 0)
    assert log is not None
    assert log.log_directory is logs.directories[1]
    assert content(log) == before
    assert logs.with_second_logs() == [log]
    append(log)
    for _ in range(2):
        logs.close()
        logs, log = opened(dirs)
        assert log.log_end_offset == before[1] + 1
        assert log.log_directory is logs.directories[1]
        logs.remove_doomed()
        assert [path.name for path in dirs[0].glob("t-0*")] == []
    logs.abandon()


def test_a_log_that_does_not_leave_after_all_is_loaded(dirs: Two) -> None:
    before = interrupted(dirs)
    (copy,) = dirs[1].glob("t-0*")
    shutil.rmtree(copy)
    with second_dir_away(dirs):
        logs = open_logs(*dirs, config=CONFIG)
        assert logs.get("t", 0) is None
    assert revive(logs, logs.directories[1])
    assert logs.load_again(logs.directories[0])
    log = logs.get("t", 0)
    assert log is not None
    assert content(log) == before
    logs.abandon()


@pytest.mark.parametrize("is_renamed", [True, False])
def test_what_is_served_counts_whatever_comes_back(dirs: Two, is_renamed: bool) -> None:
    interrupted(dirs)
    (dirs[0] / "t-0" / LEAVING).unlink()  # as before there were such files
    if is_renamed:
        (copy,) = dirs[1].glob("t-0*")
        copy.rename(dirs[1] / "t-0")
    with second_dir_away(dirs):
        logs, log = opened(dirs)
        append(log)
        before = content(log)
    outlives_the_other(dirs, logs, log, before)


def test_an_old_folder_that_comes_back_is_dropped(dirs: Two) -> None:
    interrupted(dirs)
    one, two = dirs
    with second_dir_away((two, one)):  # the copy counts, and is used
        logs, log = opened((two, one))
        append(log)
        before = content(log)
    outlives_the_other(dirs, logs, log, before)
