"""All logs of a broker, in all of its `log.dirs`: open, create, find, delete, close.

Periodic work (retention, flushes, checkpoints, recovery of failed log dirs) is a plain function
here; the broker's scheduler decides when it runs, and in which thread.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Self
from uuid import UUID

from drumlin.clock import Clock
from drumlin.config.topic import LogConfig
from drumlin.storage.all_logs import retention_round, round_preparation
from drumlin.storage.all_logs.checkpoint_rounds import write_checkpoints
from drumlin.storage.all_logs.new_log import new_log
from drumlin.storage.all_logs.retention_round import Notify, notify_nobody
from drumlin.storage.directory.clean_marker import NO_EPOCH
from drumlin.storage.directory.log_directory import (
    LogDirectory,
    UnusableLogDirectory,
    storage_error,
)
from drumlin.storage.directory.partition_metadata import encode_uuid
from drumlin.storage.files.doomed_files import DoomedFiles
from drumlin.storage.files.files import DEVICE_FULL, Files
from drumlin.storage.files.open_files import OpenFiles
from drumlin.storage.files.partition_names import (
    deleted_directory_name,
    directory_name,
    stray_directory_name,
)
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.recovery.loader import ConfigFor, deleted_folders_in, load_all, load_missing
from drumlin.storage.recovery.moved_folders import complete_move_of, complete_moves
from drumlin.storage.recovery.recovery import reload_log
from drumlin.storage.recovery.segment_recovery import UnsupportedFormat
from drumlin.storage.replacement.segment_swap import SegmentSwap
from drumlin.turns import give_way
from drumlin.wire.error_codes import KafkaError

__all__ = ["LogDirectories", "UnusableLogDirectory"]

_logger = logging.getLogger(__name__)


class LogDirectories:
    """The logs by topic and partition, and the log dirs.

    Args:
        is_cordoned: whether the log dir with this path gets no new logs if there are others.
        locks: descriptors that hold the locks of log dirs already, by path.
        last_broker_epoch: see `LogDirectory.claim`.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        *,
        node_id: int,
        cluster_id: str,
        config_for: ConfigFor,
        clock: Clock,
        recovery_threads: int = 2,
        open_files: OpenFiles | None = None,
        is_cordoned: Callable[[str], bool] = lambda _: False,
        locks: Mapping[str, int] = MappingProxyType({}),
        last_broker_epoch: int | None = None,
    ) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._last_broker_epoch = last_broker_epoch
        self._config_for = config_for
        self._clock = clock
        self._threads = recovery_threads
        self._is_cordoned = is_cordoned
        self._open_files = OpenFiles(Files()) if open_files is None else open_files
        self._files = self._open_files.files
        self._logs: dict[tuple[str, int], PartitionLog] = {}
        # Second logs of a partition, whose topic was created again while a log dir was offline.
        self._second_logs: dict[tuple[str, int], list[PartitionLog]] = {}
        self._doomed = DoomedFiles(self._files, clock)
        #: The log dirs for logs that do not exist yet (KIP-113).
        self.wanted_places: dict[tuple[str, int], LogDirectory] = {}
        absolute = [str(Path(path).absolute()) for path in paths]
        self.directories = [
            LogDirectory(path, self._open_files, clock, locks.get(path)) for path in absolute
        ]

    # -- starting ----------------------------------------------------------------------

    def open(self) -> Self:
        """Lock the log dirs and load every log in them.

        A log dir that can't be read goes offline, unless it is the only one.

        Raises:
            UnusableLogDirectory: a log dir is in use, or not ours; or none can be used.
        """
        try:
            for directory in self.directories:
                self._claim(directory)
            complete_moves(self.directories)
            self._load(self.directories)
        except BaseException:
            self.abandon()
            raise
        return self

    def _claim(self, directory: LogDirectory) -> None:
        try:
            directory.claim(self._node_id, self._cluster_id, self._last_broker_epoch)
        except OSError as error:
            directory.go_offline(error, f"open {directory.path}")
            if not any(each.is_online for each in self.directories):
                raise UnusableLogDirectory(
                    f"log dir {directory.path} can't be used: {error}"
                ) from error

    def _load(self, directories: Sequence[LogDirectory]) -> None:
        online = [directory for directory in directories if directory.is_online]
        for log in load_all(online, self._config_for, self._threads, self._is_loaded):
            self._add(log)
        for directory in online:
            if directory.is_online:
                try:
                    self._doomed.add(deleted_folders_in(directory), 0)
                except OSError as error:
                    directory.go_offline(error, f"list {directory.path}")
        if not self.was_clean:
            # After the next crash, the checkpoints must not cover records that were cut off.
            self.write_checkpoints()

    def _add(self, log: PartitionLog) -> None:
        key = log.topic, log.partition
        if self._logs.setdefault(key, log) is not log:
            _logger.error("%s is a second log of its partition", log.path)
            self._second_logs.setdefault(key, []).append(log)

    def _is_loaded(self, key: tuple[str, int], path: str) -> bool:
        log = self._logs.get(key)
        others = self._second_logs.get(key, ())
        return (log is not None and log.path == path) or path in [each.path for each in others]

    @property
    def was_clean(self) -> bool:
        """Whether all log dirs were new, or closed by a clean shutdown."""
        return all(directory.was_clean for directory in self.directories)

    # -- logs --------------------------------------------------------------------------

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self._logs.get((topic, partition))

    def with_second_logs(self) -> list[PartitionLog]:
        """All logs, including second logs of a partition."""
        return [*self, *(log for others in self._second_logs.values() for log in others)]

    def _logs_in(self, directory: LogDirectory) -> dict[tuple[str, int], PartitionLog]:
        return {(log.topic, log.partition): log for log in self.in_directory(directory)}

    def in_directory(self, directory: LogDirectory) -> list[PartitionLog]:
        return [log for log in self if log.log_directory is directory]

    def is_cordoned(self, directory: LogDirectory) -> bool:
        """Whether new logs go to other log dirs, if there are any."""
        return self._is_cordoned(directory.path)

    @property
    def are_all_cordoned(self) -> bool:
        """Whether no log dir that is online gets new logs."""
        online = [directory for directory in self.directories if directory.is_online]
        return bool(online) and all(map(self.is_cordoned, online))

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: UUID,
        config: LogConfig,
        *,
        is_new: bool = True,
    ) -> PartitionLog:
        """Create an empty log, in the log dir with the fewest logs that is not cordoned.

        Unless `is_new`, it is refused if the log may exist in a log dir that is offline.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, the log can't be created, or not at the moment.
        """
        created = self.create_all(topic, [partition], topic_id, config, is_new=is_new)[0]
        if isinstance(created, KafkaError):
            raise created
        return created

    def create_all(
        self,
        topic: str,
        partitions: Sequence[int],
        topic_id: UUID,
        config: LogConfig,
        *,
        is_new: bool = True,
    ) -> list[PartitionLog | KafkaError]:
        """Create logs as `create` does, for partitions of one topic. Blocks; not thread-safe."""
        counts = Counter(log.log_directory for log in self)
        created: list[PartitionLog | KafkaError] = []
        for partition in partitions:
            try:
                log = self._create(topic, partition, topic_id, config, is_new, counts)
            except KafkaError as error:
                created.append(error)
                continue
            counts[log.log_directory] += 1
            self._logs[topic, partition] = log
            created.append(log)
        return created

    def _create(
        self,
        topic: str,
        partition: int,
        topic_id: UUID,
        config: LogConfig,
        is_new: bool,
        counts: Counter[LogDirectory],
    ) -> PartitionLog:
        if not is_new:
            self._check_not_present(topic, partition)
        failure = storage_error("no log dir is online")
        online = [directory for directory in self.directories if directory.is_online]
        # If all are cordoned, one gets the log nevertheless, as the topic has just been created.
        chosen = [each for each in online if not self.is_cordoned(each)] or online
        wanted = self.wanted_places.pop((topic, partition), None)
        for directory in sorted(chosen, key=lambda each: (each is not wanted, counts[each])):
            try:
                return new_log(directory, topic, partition, topic_id, config)
            except KafkaError as error:
                failure = error  # the next dir may have room
        raise failure

    def _check_not_present(self, topic: str, partition: int) -> None:
        """Check that no log dir has the partition, not even unloaded or offline.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        for directory in self.directories:
            if not directory.is_online:
                raise storage_error(f"{topic}-{partition} may be in a log dir that is offline")
            path = f"{directory.path}/{directory_name(topic, partition)}"
            if self._files.exists(path):
                raise storage_error(f"{path} is there, but could not be loaded")

    def delete(self, topic: str, partition: int) -> None:
        """Remove a log at once; its folder is renamed now and removed in the background.

        If the partition has a second log, that becomes its log.
        """
        log = self._logs.get((topic, partition))
        if log is not None:
            self.delete_log(log)

    def delete_log(self, log: PartitionLog) -> None:
        """Delete a log as `delete` does; it may be its partition's second log."""
        path = self._let_go(log, deleted_directory_name(log.topic, log.partition))
        if path is not None:
            self._doomed.add([path], log.config.file_delete_delay_ms)

    def move_aside(self, topic: str, partition: int) -> None:
        """Remove a log, and keep its folder as `-stray`: its topic was not deleted."""
        log = self._logs[topic, partition]
        path = self._let_go(log, stray_directory_name(topic, partition))
        if path is not None:
            _logger.warning(
                "%s belongs to another topic of that name, with the id %s. It is kept as %s.",
                log.path,
                encode_uuid(log.topic_id),
                path,
            )

    def _let_go(self, log: PartitionLog, new_name: str) -> str | None:
        """Remove a log; returns the new path of its folder, None if it could not be renamed."""
        key = log.topic, log.partition
        others = self._second_logs.pop(key, [])
        if self._logs[key] is not log:
            others.remove(log)
        elif others:
            self._logs[key] = others.pop()
        else:
            del self._logs[key]
        if others:
            self._second_logs[key] = others
        log.mark_deleted()
        directory = log.log_directory
        path = f"{directory.path}/{new_name}"
        try:
            self._files.rename(log.path, path)
        except OSError as error:
            directory.fail(error, f"rename {log.path}")
            return None
        return path

    # -- periodic work on the loop -----------------------------------------------------

    async def delete_old_segments(self, notify: Notify = notify_nobody) -> None:
        """Delete expired segments of all logs, if `prepare_retention` has read their times.

        `notify(log)` is called for each log whose start offset has advanced.
        """
        now_ms = self._clock.expiry.now_ms()
        await retention_round.delete_from_all(self, now_ms, self._doomed, notify)

    async def delete_held_segments(self, notify: Notify = notify_nobody) -> None:
        """Delete expired segments of logs in which a segment swap has delayed the deletion."""
        now_ms = self._clock.expiry.now_ms()
        for log in self:
            await give_way()
            if log.swaps.retention_waits:
                await retention_round.delete_from_all((log,), now_ms, self._doomed, notify)

    def swap_segments(self, swap: SegmentSwap) -> None:
        """Replace old segments of a log by cleaned ones.

        Raises:
            SegmentsChanged: the log has changed since its cleaning began.
            KafkaError: KAFKA_STORAGE_ERROR, its log dir is offline.
            OSError: a file could not be renamed. In all three cases nothing was changed.
        """
        # Without a delay: readers hold descriptors, and later readers look the segments up again.
        swap.apply(lambda paths: self._doomed.add(paths, 0))

    async def roll_overdue(self) -> None:
        """Roll active segments with records that have waited for `max.compaction.lag.ms`."""
        now_ms = self._clock.wall_ms()
        for log in self:
            await give_way()
            if not log.is_deleted:
                with contextlib.suppress(KafkaError):  # logged where the log dir failed
                    log.roll_if_overdue(now_ms)

    async def release_idle(self) -> None:
        """Release resources of logs without an append since the last call.

        Logs in a failed log dir are left alone: a thread may be loading them again.
        """
        for log in self:
            await give_way()
            if log.log_directory.is_readable and not log.is_deleted:
                with contextlib.suppress(KafkaError):  # as above
                    log.release_if_idle()

    async def expire_producers(self, expiration_ms: int) -> None:
        """Remove producers from all logs that have been idle for `expiration_ms`."""
        now_ms = self._clock.expiry.now_ms()
        for log in self:
            await log.producer_state.expire(now_ms, expiration_ms)

    async def logs_to_flush(self) -> list[PartitionLog]:
        """The logs to flush in the background, each by `flush` in a thread.

        These are logs with sealed segments, and logs with records as old as `flush.ms`.
        """
        now_s = self._clock.monotonic()
        due = []
        for log in self:
            await give_way()
            is_due = log.awaits_flush or log.is_flush_overdue(now_s)
            if is_due and log.log_directory.is_online:
                due.append(log)
        return due

    # -- periodic work in a thread -----------------------------------------------------

    def prepare_retention(self) -> None:
        """Read what `delete_old_segments` needs from idle files. Blocks."""
        round_preparation.prepare_retention(self, self._clock.expiry.now_ms())

    def prepare_rolls(self) -> None:
        """Read what `roll_overdue` needs from idle files. Blocks."""
        round_preparation.prepare_rolls(self)

    def remove_later(self, path: str, delay_ms: int) -> None:
        """Remove a folder later, after a log has moved out of it."""
        self._doomed.add([path], delay_ms)

    def remove_doomed(self) -> None:
        """Remove the files and folders that were deleted long enough ago. Blocks."""
        for directory in self.directories:
            self._doomed.add(directory.take_left_folders(), 0)
        self._doomed.remove_due()

    def write_checkpoints(self) -> None:
        """Write recovery points, log start offsets, high watermarks and the like. Blocks.

        Entries of deleted logs are dropped.
        """
        for directory in self.directories:
            if directory.is_online:
                try:
                    write_checkpoints(directory, partial(self._logs_in, directory))
                except OSError as error:
                    directory.fail(error, f"write the checkpoints of {directory.path}")

    def repair(self, directory: LogDirectory) -> bool:
        """Repair the logs of an offline log dir; returns whether the log dir works again. Blocks.

        After any failure except a full device the logs are read again from their recovery points,
        since after a failed write memory and device differ. The log dir stays offline until
        `bring_back`: first, partitions that lost records may need a new leader epoch.
        """
        failure = directory.failure
        assert failure is not None
        try:
            if not directory.is_claimed:
                directory.claim(self._node_id, self._cluster_id, self._last_broker_epoch)
            if not directory.probe():
                return False
            if not directory.is_sorted_out:
                complete_moves(self.directories, set(self._logs), back=directory)
                if not directory.is_sorted_out:
                    return False
            if failure.errno not in DEVICE_FULL:
                for log in self.in_directory(directory):
                    complete_move_of(log)
                    reload_log(log)
        except (OSError, UnusableLogDirectory, UnsupportedFormat) as error:
            _logger.warning("Log dir %s stays offline: %s", directory.path, error)
            return False
        except Exception:  # the other log dirs must still be tried
            _logger.exception("Log dir %s stays offline", directory.path)
            return False
        directory.repaired = failure
        return True

    def bring_back(self, directory: LogDirectory) -> bool:
        """Take a repaired log dir online, with logs that could not be loaded before. Blocks.

        Returns:
            Whether it is still online afterwards.
        """
        failure = directory.failure
        if not directory.come_back():
            return False
        try:
            self._load([directory])
        except Exception:
            directory.failure = failure
            _logger.exception("Log dir %s stays offline", directory.path)
        if directory.is_online:
            _logger.warning("Log dir %s is online again", directory.path)
        return directory.is_online

    def load_again(self, directory: LogDirectory) -> bool:
        """Try again to load logs that could not be loaded for lack of descriptors. Blocks.

        Returns:
            Whether any log was loaded.
        """
        found = load_missing(directory, self._config_for, self._logs)
        for log in found:
            self._add(log)  # maybe as a second log: its topic may have been created again meanwhile
        return bool(found)

    # -- stopping ----------------------------------------------------------------------

    def close(self, broker_epoch: int = NO_EPOCH) -> None:
        """Make everything durable and mark a clean shutdown in this broker epoch. Blocks."""
        with ThreadPoolExecutor(self._threads * len(self.directories), "close") as pool:
            # The checkpoints will show which logs could not be closed.
            list(pool.map(PartitionLog.close_or_note, self))
        self.write_checkpoints()
        for directory in self.directories:
            if directory.is_online:
                try:
                    directory.leave_clean_marker(broker_epoch)
                except OSError as error:
                    directory.fail(error, f"mark {directory.path}")
        self.abandon()

    def abandon(self) -> None:
        """Release the log dirs as a crash would: nothing is flushed or marked."""
        for log in self:
            log.close_files()
        for directory in self.directories:
            directory.release()
