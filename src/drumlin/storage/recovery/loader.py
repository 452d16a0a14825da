"""Loading all logs of all log dirs at a start: one job per log, several threads per log dir."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

from drumlin.config.topic import LogConfig
from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.storage.files.files import NO_DESCRIPTOR, OF_ONE_FILE
from drumlin.storage.files.partition_names import (
    DELETE_SUFFIX,
    has_suffix,
    parse_directory_name,
    resembles_partition_folder,
)
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.recovery.recovery import LoadRequest, load_log
from drumlin.storage.recovery.segment_recovery import UnsupportedFormat

#: The metadata log of a KRaft broker is beside the partitions: it must never be touched.
_KRAFT_METADATA: Final = "__cluster_metadata"

_logger = logging.getLogger(__name__)

ConfigFor = Callable[[str], LogConfig]
IsLoaded = Callable[[tuple[str, int], str], bool]  # a partition, the path of its folder


def load_all(
    directories: Sequence[LogDirectory],
    config_for: ConfigFor,
    threads: int,
    is_loaded: IsLoaded,
) -> list[PartitionLog]:
    """Load all logs that are not loaded yet, if possible. A log dir that fails goes offline."""
    started = time.monotonic()
    jobs: list[Future[PartitionLog | None]] = []
    with ExitStack() as pools:
        for directory in directories:
            pool = pools.enter_context(ThreadPoolExecutor(threads, "recovery"))
            try:
                requests = list(_requests(directory, config_for, is_loaded))
            except OSError as error:
                directory.go_offline(error, f"list {directory.path}")
                continue
            jobs += [pool.submit(_load, directory, request) for request in requests]
        logs = [log for job in jobs if (log := job.result()) is not None]
    if logs:
        _logger.info("Loaded %d logs in %.1f s", len(logs), time.monotonic() - started)
    return logs


def load_missing(
    directory: LogDirectory, config_for: ConfigFor, logs: Container[tuple[str, int]]
) -> list[PartitionLog]:
    """Try again to load logs that could not be loaded. Uses at most a tenth of the time."""
    missing = {key for key in directory.not_loaded - directory.undecided if key not in logs}
    now_s = directory.clock.monotonic()
    if not missing or now_s < directory.load_again_at:
        return []
    try:
        wanted = list(_requests(directory, config_for, lambda key, _: key not in missing))
    except OSError as error:
        directory.log_once(f"{directory.path} cannot be listed: {error}")
        return []
    gone = missing.difference((each.topic, each.partition) for each in wanted)
    directory.not_loaded.difference_update(gone)
    loaded = [log for each in wanted if (log := _load(directory, each)) is not None]
    for log in loaded:
        _logger.warning("%s is loaded now", log.path)
    directory.load_again_at = now_s + 10 * (directory.clock.monotonic() - now_s)
    return loaded


def _requests(
    directory: LogDirectory, config_for: ConfigFor, is_loaded: IsLoaded
) -> Iterator[LoadRequest]:
    recovery_points = directory.recovery_points.read()
    log_start_offsets = directory.log_start_offsets.read()
    high_watermarks = directory.high_watermarks.read()
    kept_deletions = directory.kept_deletions.read()
    exact_states = directory.exact_states.read()
    for topic, partition in partitions_in(directory):
        path = f"{directory.path}/{topic}-{partition}"
        if is_loaded((topic, partition), path):
            continue
        if (topic, partition) in directory.undecided:
            directory.not_loaded.add((topic, partition))
            directory.log_once(f"{path} is not loaded: the log may be in a log dir that is offline")
            continue
        yield LoadRequest(
            topic,
            partition,
            path,
            config_for(topic),
            recovery_points.get((topic, partition), 0),
            log_start_offsets.get((topic, partition), 0),
            high_watermarks.get((topic, partition), 0),
            kept_deletions.get((topic, partition)),
            exact_states.get((topic, partition)),
            # A partition that the checkpoint lacks was moved there after the shutdown.
            directory.was_clean
            and (topic, partition) in recovery_points
            and (topic, partition) not in directory.in_disorder,
        )


def partitions_in(directory: LogDirectory) -> list[tuple[str, int]]:
    """The partitions with a folder in a log dir."""
    names = directory.files.list_directory(directory.path)
    for name in filter(resembles_partition_folder, names):
        directory.log_once(
            f"{directory.path}/{name} is left alone, as no broker uses such a folder name",
            level=logging.WARNING,
        )
    found = [parse_directory_name(name) for name in names]
    return [each for each in found if each is not None and each[0] != _KRAFT_METADATA]


def deleted_folders_in(directory: LogDirectory) -> list[str]:
    """The folders of deleted partitions that are not removed yet."""
    names = directory.files.list_directory(directory.path)
    return [f"{directory.path}/{name}" for name in names if has_suffix(name, DELETE_SUFFIX)]


def _load(directory: LogDirectory, request: LoadRequest) -> PartitionLog | None:
    if not directory.is_online:
        return None
    key = request.topic, request.partition
    directory.not_loaded.add(key)
    try:
        log = load_log(directory, request, directory.clock.wall_ms())
        log.close_files()  # most logs are idle: their files open again on use
        directory.note_in_order(key)
        if directory.was_clean and not request.was_clean and log.epoch_due_at is None:
            log.epoch_due_at = (
                log.log_end_offset
            )  # this log was not closed cleanly, and may lack records
        return log
    except OSError as error:
        if error.errno in NO_DESCRIPTOR | OF_ONE_FILE or error.errno == errno.ENOENT:
            directory.log_once(f"{request.path} is not loaded: {error}")
        else:
            directory.fail(error, f"load {request.path}")
    except UnsupportedFormat as error:
        directory.log_once(f"{request.path} is not loaded: {error}")
    except Exception:  # noqa: BLE001  an unexpected error in one log must not stop the others
        directory.log_once(f"{request.path} is not loaded", exc_info=True)
    if not request.was_clean:
        directory.in_disorder.add(key)
    return None
