"""All logs of a broker, over all of its `log.dirs`: open, create, find, delete, stop.

What is done now and then (retention, flushes, checkpoints, reviving failed dirs) is a plain
function here; the broker's scheduler decides when, and in which thread.
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
from drumlin.storage.all_logs import first_looks, retention_round
from drumlin.storage.all_logs.checkpoint_rounds import write_checkpoints
from drumlin.storage.all_logs.new_log import new_log
from drumlin.storage.all_logs.retention_round import Tell, tell_nobody
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
    """The logs by topic and partition, and the dirs that they are in.

    `is_cordoned(path)`: whether a dir is to get no new logs as long as there are others.
    `locks`: descriptors that lock dirs for us already, by their paths.
    `last_broker_epoch`: see `LogDirectory.claim`.
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
        # Left by a topic that was deleted while its dir was offline, and then created again.
        self._second_logs: dict[tuple[str, int], list[PartitionLog]] = {}
        self._doomed = DoomedFiles(self._files, clock)
        #: Where logs are to lie that are not there yet.
        self.wanted_places: dict[tuple[str, int], LogDirectory] = {}
        absolute = [str(Path(path).absolute()) for path in paths]
        self.directories = [
            LogDirectory(path, self._open_files, clock, locks.get(path)) for path in absolute
        ]

    # -- starting ----------------------------------------------------------------------

    def open(self) -> Self:
        """Lock the dirs and load every log in them.

        A dir that can't be read is offline, unless it is the only one.

        Raises:
            UnusableLogDirectory: a dir is in use, or not ours; or none can be used.
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
            # What was cut off must not be believed to be there after the next crash.
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
        """Whether all dirs were new, or closed by a clean stop."""
        return all(directory.was_clean for directory in self.directories)

    # -- logs --------------------------------------------------------------------------

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self._logs.get((topic, partition))

    def with_second_logs(self) -> list[PartitionLog]:
        """All logs, those too whose partition has another one."""
        return [*self, *(log for others in self._second_logs.values() for log in others)]

    def _logs_in(self, directory: LogDirectory) -> dict[tuple[str, int], PartitionLog]:
        return {(log.topic, log.partition): log for log in self.in_directory(directory)}

    def in_directory(self, directory: LogDirectory) -> list[PartitionLog]:
        return [log for log in self if log.log_directory is directory]

    def is_cordoned(self, directory: LogDirectory) -> bool:
        """Whether new logs go to other dirs, if there are any."""
        return self._is_cordoned(directory.path)

    @property
    def are_all_cordoned(self) -> bool:
        """Whether every dir that is online gets no new logs."""
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
        """An empty log, in the dir that has fewest, of those that are not cordoned.

        One that is not new may lie in a dir that is offline: there must not be a second one.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, when it can't be, or not now.
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
        """Like `create`, for partitions of one topic. Blocks; one caller at a time."""
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
            self._check_is_nowhere(topic, partition)
        failure = storage_error("no log dir is online")
        online = [directory for directory in self.directories if directory.is_online]
        # Where all of them are cordoned, it has to lie somewhere: it was created just before.
        chosen = [each for each in online if not self.is_cordoned(each)] or online
        wanted = self.wanted_places.pop((topic, partition), None)
        for directory in sorted(chosen, key=lambda each: (each is not wanted, counts[each])):
            try:
                return new_log(directory, topic, partition, topic_id, config)
            except KafkaError as error:
                failure = error  # the next dir may have room
        raise failure

    def _check_is_nowhere(self, topic: str, partition: int) -> None:
        """There must not be a second log of what is on a disk, although it is not loaded.

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
        """Forget a log at once; its folder is renamed now and removed in the background.

        Where the partition has a second one, that is its log from now on.
        """
        log = self._logs.get((topic, partition))
        if log is not None:
            self.delete_log(log)

    def delete_log(self, log: PartitionLog) -> None:
        """Like `delete`, for a log that may be its partition's second one."""
        path = self._let_go(log, deleted_directory_name(log.topic, log.partition))
        if path is not None:
            self._doomed.add([path], log.config.file_delete_delay_ms)

    def move_aside(self, topic: str, partition: int) -> None:
        """Like `delete`, but keeps the folder under another name: the topic was not deleted."""
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
        """Forget a log. What its folder is called from now on; None where it cannot be renamed."""
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

    # -- now and then: on the loop -----------------------------------------------------

    async def delete_old_segments(self, tell: Tell = tell_nobody) -> None:
        """Retention, for all logs, as far as `prepare_retention` has looked.

        `tell(log)`: called for each log whose start offset has moved.
        """
        now_ms = self._clock.expiry.now_ms()
        await retention_round.delete_from_all(self, now_ms, self._doomed, tell)

    async def delete_held_segments(self, tell: Tell = tell_nobody) -> None:
        """Retention for logs in which a swap of segments has kept it waiting."""
        now_ms = self._clock.expiry.now_ms()
        for log in self:
            await give_way()
            if log.swaps.retention_waits:
                await retention_round.delete_from_all((log,), now_ms, self._doomed, tell)

    def swap_segments(self, swap: SegmentSwap) -> None:
        """Have a log put cleaned segments where old ones were.

        Raises:
            SegmentsChanged: the log is not what it was when its cleaning began.
            KafkaError: KAFKA_STORAGE_ERROR, its dir is offline.
            OSError: a file could not be renamed; in all three cases nothing was changed.
        """
        # Without a delay: readers hold descriptors, and a reader that comes too late looks again.
        swap.apply(lambda paths: self._doomed.add(paths, 0))

    async def roll_overdue(self) -> None:
        """Roll active segments with records that have waited for `max.compaction.lag.ms`."""
        now_ms = self._clock.wall_ms()
        for log in self:
            await give_way()
            if not log.is_deleted:
                with contextlib.suppress(KafkaError):  # said where the dir failed
                    log.roll_if_overdue(now_ms)

    async def release_idle(self) -> None:
        """Give back what logs hold that were not appended to since the last call.

        Those of a failed dir are left alone: a thread may be loading them again.
        """
        for log in self:
            await give_way()
            if log.log_directory.is_readable and not log.is_deleted:
                with contextlib.suppress(KafkaError):  # as above
                    log.release_if_idle()

    async def expire_producers(self, expiration_ms: int) -> None:
        """Forget producers that have been silent for so long, in all logs."""
        now_ms = self._clock.expiry.now_ms()
        for log in self:
            await log.producer_state.expire(now_ms, expiration_ms)

    async def logs_to_flush(self) -> list[PartitionLog]:
        """Logs that the background owes a `flush`, each to be called in a thread.

        Those with sealed segments, and those with records as old as `flush.ms`.
        """
        now_s = self._clock.monotonic()
        due = []
        for log in self:
            await give_way()
            is_due = log.awaits_flush or log.is_flush_overdue(now_s)
            if is_due and log.log_directory.is_online:
                due.append(log)
        return due

    # -- now and then: in a thread -----------------------------------------------------

    def prepare_retention(self) -> None:
        """Read what `delete_old_segments` will ask of files that rest since the start. Blocks."""
        first_looks.prepare_retention(self, self._clock.expiry.now_ms())

    def prepare_rolls(self) -> None:
        """Read what `roll_overdue` will ask of files that rest since the start. Blocks."""
        first_looks.prepare_rolls(self)

    def remove_later(self, path: str, delay_ms: int) -> None:
        """Remove a folder that a log has left."""
        self._doomed.add([path], delay_ms)

    def remove_doomed(self) -> None:
        """Remove the files and folders that were deleted long enough ago. Blocks."""
        for directory in self.directories:
            self._doomed.add(directory.take_left_folders(), 0)
        self._doomed.remove_due()

    def write_checkpoints(self) -> None:
        """Recovery points, log start offsets and high watermarks. Blocks.

        What was noted of logs that are deleted is forgotten.
        """
        for directory in self.directories:
            if directory.is_online:
                try:
                    write_checkpoints(directory, partial(self._logs_in, directory))
                except OSError as error:
                    directory.fail(error, f"write the checkpoints of {directory.path}")

    def mend(self, directory: LogDirectory) -> bool:
        """Whether an offline dir works again and its logs are in order. Blocks.

        After anything but a full device they are read again from their recovery points: what
        a failed write left in memory is not what the device has. The dir stays offline until
        `bring_back`: the leaders of its partitions may have to say first what was lost.
        """
        failure = directory.failure
        assert failure is not None
        try:
            if not directory.is_claimed:
                directory.claim(self._node_id, self._cluster_id, self._last_broker_epoch)
            if not directory.works():
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
        except Exception:  # the other dirs are to be tried all the same
            _logger.exception("Log dir %s stays offline", directory.path)
            return False
        directory.mended = failure
        return True

    def bring_back(self, directory: LogDirectory) -> bool:
        """Have a mended dir online again, with logs in it that could not be loaded before. Blocks.

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
        """Load what could not be loaded, but may be by now: a descriptor was missing. Blocks.

        Returns:
            Whether there are more logs than before.
        """
        found = load_missing(directory, self._config_for, self._logs)
        for log in found:
            self._add(log)  # its topic may have been made anew meanwhile
        return bool(found)

    # -- stopping ----------------------------------------------------------------------

    def close(self, broker_epoch: int = NO_EPOCH) -> None:
        """A clean stop, in this broker epoch: all is durable, and the next start knows. Blocks."""
        with ThreadPoolExecutor(self._threads * len(self.directories), "close") as pool:
            # The checkpoints will show which could not be.
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
        """Let go of the dirs as they are, as a crash would."""
        for log in self:
            log.close_files()
        for directory in self.directories:
            directory.release()
