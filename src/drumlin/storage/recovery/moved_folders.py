"""Resolving several folders of a partition, after a crash during a move or a copy of its log.

A folder with the marker is the valid one, and all others of the partition are removed. A `-future`
folder without it is an incomplete copy (`log_move.py`, `log_copy.py`), and is removed.

A log dir may be offline at the start. A log that was about to move there is not loaded then, as it
may be there already. A log that is being served stays valid, even if that log dir has a folder of
the partition when it is online again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager

from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.storage.directory.partition_metadata import read_topic_id
from drumlin.storage.files.files import Files
from drumlin.storage.files.folder_marker import MARKER, cancel_leaving, may_have_left, unmark
from drumlin.storage.files.partition_names import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    deleted_directory_name,
    has_suffix,
    parse_directory_name,
)
from drumlin.storage.log.log_state import LogState

_logger = logging.getLogger(__name__)


Partition = tuple[str, int]


def complete_moves(
    directories: Sequence[LogDirectory],
    served: Container[Partition] = frozenset(),
    back: LogDirectory | None = None,
) -> None:
    """Complete interrupted moves, at a start and when a log dir that was offline then is back.

    A log dir that fails meanwhile goes offline. Markers stay while any log dir is offline, as it
    may contain an old folder.

    Args:
        served: partitions whose logs are in use, and are not touched.
        back: the log dir that is about to go online.
    """
    for step in (_rename_futures, _drop_old_ones):
        for directory, online in _each(directories, back):
            with _failing(directory):
                step(directory, online, served)
    for directory, online in _each(directories, back):
        with _failing(directory):
            _decide(directory, served, are_all_there=len(online) == len(directories))


def _each(
    directories: Sequence[LogDirectory], back: LogDirectory | None
) -> Iterator[tuple[LogDirectory, list[LogDirectory]]]:
    """Each online log dir, together with the list of all online ones."""
    for directory in directories:
        online = [each for each in directories if each.is_online or each is back]
        if directory in online:
            yield directory, online


@contextmanager
def _failing(directory: LogDirectory) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        directory.go_offline(error, f"complete moves of logs in {directory.path}")


def _rename_futures(
    directory: LogDirectory, directories: Sequence[LogDirectory], served: Container[Partition]
) -> None:
    if directory.is_sorted_out:
        return  # a copy in progress
    files = directory.files
    others = [each for each in directories if each is not directory]
    for name in files.list_directory(directory.path):
        if not has_suffix(name, FUTURE_SUFFIX):
            continue
        path = f"{directory.path}/{name}"
        final = _marked(path, files)
        # The log was served without its copy, which has the marker and could not be removed.
        if (
            final is None
            or parse_directory_name(final) in served
            or any(_marked(f"{each.path}/{final}", files) for each in others)
        ):
            _logger.info("%s is removed: it was not completed", path)
            files.rename(path, path.removesuffix(FUTURE_SUFFIX) + DELETE_SUFFIX)
            continue
        if files.exists(f"{directory.path}/{final}"):
            _delete(directory, final, "a second log beside it is complete")
        files.rename(path, f"{directory.path}/{final}")
        files.sync_directory(directory.path)
        _logger.info("%s is %s/%s now", path, directory.path, final)


def complete_move_of(log: LogState) -> None:
    """Complete the renames of a log's folder, after a failure between the two."""
    directory, files = log.log_directory, log.log_directory.files
    if files.exists(log.path):
        return
    for name in files.list_directory(directory.path):
        path = f"{directory.path}/{name}"
        if has_suffix(name, FUTURE_SUFFIX) and _marked(path, files) == log.path.rpartition("/")[2]:
            files.rename(path, log.path)
            files.sync_directory(directory.path)
            _logger.info("%s is %s now", path, log.path)


def _drop_old_ones(
    directory: LogDirectory, directories: Sequence[LogDirectory], served: Container[Partition]
) -> None:
    """Where a partition has several folders, remove all except the marked or used one."""
    files = directory.files
    names = files.list_directory(directory.path)
    others = [each for each in directories if each is not directory]
    elsewhere = Counter(name for each in others for name in files.list_directory(each.path))
    for name in names:
        partition = parse_directory_name(name)
        if not elsewhere[name] or partition is None:
            continue
        is_in_use = partition in served
        is_new_here = is_in_use and not directory.is_sorted_out
        is_elsewhere = any(_marked(f"{each.path}/{name}", files) for each in others)
        if is_elsewhere and (is_new_here or not is_in_use):
            _delete(directory, name, "the log was moved to another log dir")
        elif is_new_here and _marked(f"{directory.path}/{name}", files):
            _delete(directory, name, "the log is served from another log dir")


def _decide(directory: LogDirectory, served: Container[Partition], *, are_all_there: bool) -> None:
    """Decide which folders may be loaded: all remaining ones, once all log dirs are online."""
    files, undecided = directory.files, set()
    for name in files.list_directory(directory.path):
        partition, path = parse_directory_name(name), f"{directory.path}/{name}"
        if partition is None or partition in served:
            continue
        if are_all_there:
            unmark(path, files)
            cancel_leaving(path, files)
        elif may_have_left(path, read_topic_id(path, files), files):
            undecided.add(partition)
    directory.undecided = undecided
    directory.is_sorted_out = True


def _delete(directory: LogDirectory, name: str, why: str) -> None:
    found = parse_directory_name(name)
    assert found is not None
    path = f"{directory.path}/{name}"
    _logger.info("%s is removed: %s", path, why)
    directory.files.rename(path, f"{directory.path}/{deleted_directory_name(*found)}")
    directory.files.sync_directory(directory.path)


def _marked(path: str, files: Files) -> str | None:
    """The name in a folder's marker; None without a marker."""
    marker = f"{path}/{MARKER}"
    if not files.exists(marker):
        return None
    name = files.read_file(marker).decode(errors="replace")
    return name if parse_directory_name(name) is not None else None
