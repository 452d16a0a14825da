"""The files of all logs as they are at one moment, held for a backup while the broker runs.

    take_moment     on the loop: the segments of each log, and their sizes
    hold            in a thread: hard links to the files, in a folder of each log dir
    release         in a thread: removes the links

What is deleted or replaced later stays as long as it is held; what is appended later lies beyond
the sizes of the moment. Together the folders are a log dir after a crash at that moment: no mark of
a clean shutdown, and no index above the recovery points, from which a start reads and checks every
record. Below them a damaged batch stays as it is, with all that follows it. The end of the clean
part of a log and its delete horizon are those before the moment: parts that were cleaned meanwhile
count as dirty.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from drumlin.storage.directory import checkpoints, clean_marker, directory_lock, log_directory
from drumlin.storage.directory.checkpoints import PartitionOffsets, encode_checkpoint
from drumlin.storage.directory.directory_lock import is_locked
from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.storage.directory.partition_metadata import FILE_NAME as TOPIC_ID_FILE
from drumlin.storage.directory.partition_metadata import encode_partition_metadata
from drumlin.storage.files.files import TEMPORARY_SUFFIX, Files
from drumlin.storage.files.open_files import LogFile
from drumlin.storage.files.partition_names import directory_name
from drumlin.storage.log.file_names import offset_of
from drumlin.storage.log.leader_epochs import FILE_NAME as EPOCHS_FILE
from drumlin.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from drumlin.storage.segment.segment import Segment
from drumlin.storage.segment.segment_files import LOG_SUFFIX, file_prefix

_logger = logging.getLogger(__name__)

#: The folder of a log dir in which its files are held. Whoever copies them locks that of the first.
FOLDER: Final = ".backup"
#: Files of a log dir that another start writes anew, or that are written below.
_LEFT_OUT: Final = frozenset(
    {
        *checkpoints.ALL,
        clean_marker.FILE_NAME,
        directory_lock.FILE_NAME,
        log_directory.PROBE_NAME,
    }
)


class Unheld(Exception):
    """The files of the moment were deleted before they could be held."""


class LogAtMoment(NamedTuple):
    """A log at one moment: enough to tell its records from those that come later."""

    log: PartitionLog
    #: With the sizes of their log files.
    segments: tuple[tuple[Segment, int], ...]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    deletions_kept_from: int
    epochs: tuple[EpochEntry, ...]


class CleanParts(NamedTuple):
    """Of a log dir: the ends of the clean parts of its logs, and their delete horizons."""

    cleaner_offsets: PartitionOffsets
    delete_horizons: PartitionOffsets


class Held(NamedTuple):
    """What is held: a folder of each log dir, and the sizes of the log files in them.

    `sizes` has the paths below the folders.
    """

    folders: list[str]
    sizes: dict[str, int]


def read_clean_parts(directories: Iterable[LogDirectory]) -> dict[LogDirectory, CleanParts]:
    """The clean parts before a moment. Blocks."""
    return {
        each: CleanParts(each.cleaner_offsets.read(), each.delete_horizons.read())
        for each in directories
    }


def take_moment(logs: Iterable[PartitionLog]) -> list[LogAtMoment]:
    """All logs at this moment. In one turn of the loop, which is what makes it a moment."""
    return [
        LogAtMoment(
            log,
            tuple([(segment, segment.size) for segment in log.segments]),
            log.log_start_offset,
            log.log_end_offset,
            log.recovery_point,
            log.deletions_kept_after_crash,
            log.leader_epochs.entries,
        )
        for log in logs
    ]


def hold(
    moment: Sequence[LogAtMoment],
    clean_parts: Mapping[LogDirectory, CleanParts],
    files: Files,
    *,
    left_out: Collection[str] = (),
) -> Held:
    """Hold the files of a moment, and other files of the log dirs that are not `left_out`. Blocks.

    Raises:
        Unheld: some were deleted meanwhile; another moment has to be taken.
        OSError: a link or file could not be made.
    """
    held = Held([], {})
    for directory in clean_parts:
        folder = f"{directory.path}/{FOLDER}"
        files.make_directory(folder)
        held.folders.append(folder)
        for each in moment:
            if each.log.log_directory is directory:
                _hold_log(each, folder, held.sizes, files)
    first = next(iter(clean_parts))
    _hold_others(first.path, held.folders[0], left_out, files)
    _write_checkpoints(held.folders[0], moment, clean_parts, files)
    return held


def release(directories: Iterable[LogDirectory]) -> None:
    """Release all files that are held. Blocks.

    Raises:
        OSError: a folder could not be removed.
    """
    for directory in directories:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(f"{directory.path}/{FOLDER}")


def release_left(directories: Sequence[LogDirectory]) -> None:
    """Release, at a start, what an earlier broker has left, unless it is being copied. Blocks."""
    try:
        if not are_being_copied(directories):
            release(directories)
    except OSError as error:
        _logger.warning("files that are held for a backup are left: %s", error)


def are_held(directories: Iterable[LogDirectory]) -> bool:
    """Whether files are held. Blocks."""
    return any(each.files.exists(f"{each.path}/{FOLDER}") for each in directories)


def are_being_copied(directories: Sequence[LogDirectory]) -> bool:
    """Whether a process is copying the files that are held."""
    return is_locked(f"{directories[0].path}/{FOLDER}")


def _hold_others(directory: str, folder: str, left_out: Collection[str], files: Files) -> None:
    """Hold files that are none of a log dir's: keys and certificates, for example."""
    for name in files.list_directory(directory):
        path = Path(directory, name)
        is_ours = name in _LEFT_OUT or name in left_out or name.endswith(TEMPORARY_SUFFIX)
        if not is_ours and stat.S_ISREG(path.lstat().st_mode):
            files.link(str(path), f"{folder}/{name}")


def _write_checkpoints(
    folder: str,
    moment: Sequence[LogAtMoment],
    clean_parts: Mapping[LogDirectory, CleanParts],
    files: Files,
) -> None:
    """Write the checkpoints of all logs, as if they were in one log dir."""
    recovery_points, starts, kept_from, cleaned, horizons = {}, {}, {}, {}, {}
    for at in moment:
        key = at.log.topic, at.log.partition
        clean = clean_parts[at.log.log_directory]
        recovery_points[key] = at.recovery_point
        kept_from[key] = at.deletions_kept_from
        if at.log_start_offset > at.segments[0][0].base_offset:
            starts[key] = at.log_start_offset
        if key in clean.cleaner_offsets:
            cleaned[key] = clean.cleaner_offsets[key]
        if key in clean.delete_horizons:
            horizons[key] = clean.delete_horizons[key]
    contents = {
        checkpoints.RECOVERY_POINT: recovery_points,
        checkpoints.LOG_START_OFFSET: starts,
        checkpoints.KEPT_DELETIONS: kept_from,
        checkpoints.CLEANER_OFFSET: cleaned,
        checkpoints.DELETE_HORIZON: horizons,
    }
    for name, offsets in contents.items():
        files.write_file(f"{folder}/{name}", encode_checkpoint(offsets))


def _hold_log(at: LogAtMoment, folder: str, sizes: dict[str, int], files: Files) -> None:
    log = at.log
    name = directory_name(log.topic, log.partition)
    path = f"{folder}/{name}"
    files.make_directory(path)
    files.write_file(f"{path}/{TOPIC_ID_FILE}", encode_partition_metadata(log.topic_id))
    files.write_file(f"{path}/{EPOCHS_FILE}", LeaderEpochs(at.epochs).encode())
    ends = [*(segment.base_offset for segment, _ in at.segments[1:]), None]
    try:
        for (segment, size), end_offset in zip(at.segments, ends, strict=True):
            prefix = file_prefix(segment.base_offset)
            _hold_open(segment.log_file, f"{path}/{prefix}{LOG_SUFFIX}", files)
            sizes[f"{name}/{prefix}{LOG_SUFFIX}"] = size
            if end_offset is not None and end_offset <= at.recovery_point:
                _hold_indexes(segment, f"{path}/{prefix}", files)
        for each in files.list_directory(log.path):
            offset = offset_of(each, SNAPSHOT_SUFFIX)
            if offset is not None and offset <= at.log_end_offset:
                files.link(f"{log.path}/{each}", f"{path}/{each}")
    except FileNotFoundError as error:
        raise Unheld(f"{log.name}: {error}") from error


def _hold_indexes(durable: Segment, prefix: str, files: Files) -> None:
    """Hold the indexes of a segment that does not change any more."""
    for index in (durable.offset_index, durable.time_index):
        _hold_open(index.file, prefix + index.SUFFIX, files)
    aborted = durable.transaction_index
    if not aborted.is_empty:
        try:
            _hold_open(aborted.file, prefix + aborted.SUFFIX, files)
        except FileNotFoundError:
            if aborted.file.is_discarded:
                raise  # there may have been one


def _hold_open(file: LogFile, target: str, files: Files) -> None:
    with file as descriptor:
        files.link_open(descriptor, target)
