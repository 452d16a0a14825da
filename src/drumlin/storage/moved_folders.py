"""Folders of logs that a crash has caught on their way to another log dir, or beside the old one.

A folder with the marker counts, and any other one of its partition does not. A `-future` folder
without it is a copy that was not completed (`log_move.py`, `log_copy.py`): the log is what it was.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from drumlin.storage.folder_marker import MARKER, unmark
from drumlin.storage.partition_names import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    deleted_directory_name,
    is_left_as,
    parse_directory_name,
)

if TYPE_CHECKING:
    from drumlin.storage.files import Files
    from drumlin.storage.log_directory import LogDirectory
    from drumlin.storage.log_state import LogState

_logger = logging.getLogger(__name__)


def complete_moves(directories: Sequence[LogDirectory]) -> None:
    """At a start: complete what was left to do. A dir that fails meanwhile goes offline.

    Markers stay while a dir is offline, as an old folder may be there.
    """
    for step in (_rename_futures, _drop_old_ones, _remove_markers):
        for directory in directories:
            online = [each for each in directories if each.is_online]
            if directory not in online or (step is _remove_markers and online != [*directories]):
                continue
            try:
                step(directory, online)
            except OSError as error:
                directory.go_offline(error, f"complete moves of logs in {directory.path}")


def _rename_futures(directory: LogDirectory, directories: Sequence[LogDirectory]) -> None:
    files = directory.files
    others = [each for each in directories if each is not directory]
    for name in files.list_directory(directory.path):
        if not is_left_as(name, FUTURE_SUFFIX):
            continue
        path = f"{directory.path}/{name}"
        final = _marked(path, files)
        # A log with the marker has gone on without its copy, which could not be removed.
        if final is None or any(_marked(f"{each.path}/{final}", files) for each in others):
            _logger.info("%s is removed: it was not completed", path)
            files.rename(path, path.removesuffix(FUTURE_SUFFIX) + DELETE_SUFFIX)
            continue
        if files.exists(f"{directory.path}/{final}"):
            _delete(directory, final, "a second log beside it is complete")
        files.rename(path, f"{directory.path}/{final}")
        files.sync_directory(directory.path)
        _logger.info("%s is %s/%s now", path, directory.path, final)


def complete_move_of(log: LogState) -> None:
    """Have a log's folder be there, after a failure between two renames."""
    directory, files = log.log_directory, log.log_directory.files
    if files.exists(log.path):
        return
    for name in files.list_directory(directory.path):
        path = f"{directory.path}/{name}"
        if is_left_as(name, FUTURE_SUFFIX) and _marked(path, files) == log.path.rpartition("/")[2]:
            files.rename(path, log.path)
            files.sync_directory(directory.path)
            _logger.info("%s is %s now", path, log.path)


def _drop_old_ones(directory: LogDirectory, directories: Sequence[LogDirectory]) -> None:
    """Of a partition with several folders, the one with the marker counts."""
    files = directory.files
    names = files.list_directory(directory.path)
    others = [each for each in directories if each is not directory]
    elsewhere = Counter(name for each in others for name in files.list_directory(each.path))
    for name in names:
        if not elsewhere[name] or parse_directory_name(name) is None:
            continue
        if any(_marked(f"{each.path}/{name}", files) for each in others):
            _delete(directory, name, "the log was moved to another log dir")


def _remove_markers(directory: LogDirectory, _: Sequence[LogDirectory]) -> None:
    for name in directory.files.list_directory(directory.path):
        if parse_directory_name(name) is not None:
            unmark(f"{directory.path}/{name}", directory.files)


def _delete(directory: LogDirectory, name: str, why: str) -> None:
    found = parse_directory_name(name)
    assert found is not None
    path = f"{directory.path}/{name}"
    _logger.info("%s is removed: %s", path, why)
    directory.files.rename(path, f"{directory.path}/{deleted_directory_name(*found)}")
    directory.files.sync_directory(directory.path)


def _marked(path: str, files: Files) -> str | None:
    """The name that a folder is to have, if it counts."""
    marker = f"{path}/{MARKER}"
    if not files.exists(marker):
        return None
    name = files.read_file(marker).decode(errors="replace")
    return name if parse_directory_name(name) is not None else None
