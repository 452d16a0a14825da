"""All logs of a broker, over all of its `log.dirs`: open, create, find, delete, stop.

What runs now and then (retention, flush, checkpoints, probes of failed dirs) is a plain function
here; the broker's scheduler decides when, and in which thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

from drumlin.clock import Clock
from drumlin.config.topic import LogConfig
from drumlin.storage import meta_properties, partition_metadata
from drumlin.storage.files import Files
from drumlin.storage.log_directory import LogDirectory, storage_error
from drumlin.storage.meta_properties import MetaProperties
from drumlin.storage.open_files import OpenFiles
from drumlin.storage.partition_log import PartitionLog
from drumlin.storage.partition_names import (
    DELETE_SUFFIX,
    deleted_directory_name,
    directory_name,
    parse_directory_name,
)
from drumlin.storage.recovery import LoadRequest, UnsupportedFormat, load_log
from drumlin.storage.segment import Segment
from drumlin.storage.segment_list import SegmentList
from drumlin.wire.errors import KafkaError

_logger = logging.getLogger(__name__)


class UnusableLogDirectory(Exception):
    """A server can't start on this dir; the message is for whoever started it."""


class LogDirectories:
    """The logs by topic and partition, and the dirs that they are in."""

    def __init__(
        self, paths: Sequence[str | Path], clock: Clock, open_files: OpenFiles | None = None
    ) -> None:
        self._clock = clock
        self._open_files = open_files or OpenFiles(Files())
        self._files = self._open_files.files
        self.directories = [
            LogDirectory(str(Path(path).absolute()), self._open_files) for path in paths
        ]
        self._logs: dict[tuple[str, int], PartitionLog] = {}
        #: Whether the last stop of every dir was a clean one.
        self.was_clean = True
        #: Files and folders to remove, and when, by the monotonic clock.
        self._doomed: list[tuple[float, str]] = []

    # -- starting ----------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        paths: Sequence[str | Path],
        *,
        node_id: int,
        cluster_id: str,
        config_for: Callable[[str], LogConfig],
        clock: Clock,
        recovery_threads: int = 2,
        open_files: OpenFiles | None = None,
    ) -> LogDirectories:
        """Lock the dirs and load every log in them.

        Raises:
            UnusableLogDirectory: in use by another server, of another broker, or not writable.
        """
        logs = cls(paths, clock, open_files)
        try:
            for directory in logs.directories:
                _claim(directory, node_id, cluster_id)
            for directory in logs.directories:
                logs._load(directory, config_for, recovery_threads)
        except BaseException:
            logs.abandon()
            raise
        return logs

    def _load(
        self, directory: LogDirectory, config_for: Callable[[str], LogConfig], threads: int
    ) -> None:
        was_clean = directory.take_clean_marker()
        self.was_clean = self.was_clean and was_clean
        requests = list(self._load_requests(directory, config_for, was_clean))
        if not was_clean and requests:
            _logger.info(
                "%s was not stopped cleanly: %d logs to recover", directory.path, len(requests)
            )
        with ThreadPoolExecutor(threads, "recovery") as pool:
            for log in pool.map(lambda request: self._load_one(directory, request), requests):
                if log is not None:
                    self._logs[log.topic, log.partition] = log

    def _load_requests(
        self, directory: LogDirectory, config_for: Callable[[str], LogConfig], was_clean: bool
    ) -> Iterator[LoadRequest]:
        recovery_points = directory.recovery_points.read()
        log_start_offsets = directory.log_start_offsets.read()
        for name in self._files.list_directory(directory.path):
            path = f"{directory.path}/{name}"
            if name.endswith(DELETE_SUFFIX):
                self._doomed.append((self._clock.monotonic(), path))
                continue
            topic_partition = parse_directory_name(name)
            if topic_partition is None:
                continue
            topic, partition = topic_partition
            yield LoadRequest(
                topic,
                partition,
                path,
                config_for(topic),
                recovery_points.get(topic_partition, 0),
                log_start_offsets.get(topic_partition, 0),
                was_clean,
            )

    def _load_one(self, directory: LogDirectory, request: LoadRequest) -> PartitionLog | None:
        try:
            return load_log(directory, request, self._clock.wall_ms())
        except OSError as error:
            directory.fail(error, f"load {request.path}")
        except UnsupportedFormat as error:
            _logger.error("%s-%d is not loaded: %s", request.topic, request.partition, error)
        return None

    # -- logs --------------------------------------------------------------------------

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter(list(self._logs.values()))

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self._logs.get((topic, partition))

    def create(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> PartitionLog:
        """A new empty log, in the dir that has fewest.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR, when no dir works.
        """
        assert (topic, partition) not in self._logs
        directory = self._emptiest_directory()
        path = f"{directory.path}/{directory_name(topic, partition)}"
        try:
            self._files.make_directory(path)
            metadata_path = f"{path}/{partition_metadata.FILE_NAME}"
            content = partition_metadata.encode_partition_metadata(topic_id)
            self._files.replace_file(metadata_path, content)
            segment = Segment.create(path, 0, self._open_files, self._clock.wall_ms())
        except OSError as error:
            raise directory.fail(error, f"create {path}") from error
        log = PartitionLog(
            directory, path, topic, partition, topic_id, config, SegmentList([segment])
        )
        self._logs[topic, partition] = log
        return log

    def _emptiest_directory(self) -> LogDirectory:
        counts = {directory: 0 for directory in self.directories if directory.is_online}
        if not counts:
            raise storage_error("no log dir is online")
        for log in self._logs.values():
            if log.log_directory in counts:
                counts[log.log_directory] += 1
        return min(counts, key=counts.__getitem__)

    def delete(self, topic: str, partition: int) -> None:
        """Forget a log at once; its folder is renamed now and removed in the background."""
        log = self._logs.pop((topic, partition), None)
        if log is None:
            return
        log.mark_deleted()
        directory = log.log_directory
        path = f"{directory.path}/{deleted_directory_name(topic, partition)}"
        try:
            self._files.rename(log.path, path)
        except OSError as error:
            directory.fail(error, f"delete {log.path}")
            return
        self._doom([path], log.config.file_delete_delay_ms)

    # -- now and then ------------------------------------------------------------------

    def delete_old_segments(self) -> None:
        """Retention, for all logs."""
        now_ms = self._clock.wall_ms()
        for log in self:
            if log.log_directory.is_readable:
                try:
                    paths = log.delete_old_segments(now_ms)
                except KafkaError:
                    continue  # logged where the dir failed
                self._doom(paths, log.config.file_delete_delay_ms)

    def _doom(self, paths: Sequence[str], delay_ms: int) -> None:
        due = self._clock.monotonic() + delay_ms / 1000
        self._doomed += [(due, path) for path in paths]

    def remove_doomed(self) -> None:
        """Remove the files and folders whose time has come. Blocks: call it in a thread."""
        now = self._clock.monotonic()
        due = [entry for entry in list(self._doomed) if entry[0] <= now]
        for entry in due:
            path = entry[1]
            try:
                if path.endswith(DELETE_SUFFIX):
                    self._files.remove_directory(path)
                else:
                    self._files.remove(path)
            except OSError as error:
                _logger.warning("%s could not be removed: %s", path, error)
            self._doomed.remove(entry)

    def logs_to_flush(self) -> list[PartitionLog]:
        """Logs with sealed segments that are not durable yet: call `flush` in a thread."""
        return [log for directory in self.directories for log in list(directory.awaiting_flush)]

    def write_checkpoints(self) -> None:
        """Recovery points and log start offsets. Blocks: call it in a thread."""
        for directory in self.directories:
            if not directory.is_online:
                continue
            logs = [log for log in self if log.log_directory is directory]
            try:
                directory.recovery_points.write(
                    {(log.topic, log.partition): log.recovery_point for log in logs}
                )
                directory.log_start_offsets.write(
                    {
                        (log.topic, log.partition): log.log_start_offset
                        for log in logs
                        if log.log_start_offset > log.segments.first.base_offset
                    }
                )
            except OSError as error:
                directory.fail(error, f"write checkpoints in {directory.path}")

    def write_high_watermarks(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Blocks: call it in a thread."""
        for directory in self.directories:
            if not directory.is_online:
                continue
            own = {
                key: offset
                for key, offset in offsets.items()
                if (log := self._logs.get(key)) is not None and log.log_directory is directory
            }
            try:
                directory.high_watermarks.write(own)
            except OSError as error:
                directory.fail(error, f"write checkpoints in {directory.path}")

    def expire_producers(self, expiration_ms: int) -> None:
        now_ms = self._clock.wall_ms()
        for log in self:
            log.producer_state.expire(now_ms, expiration_ms)

    # -- stopping ----------------------------------------------------------------------

    def close(self, threads: int = 2) -> None:
        """A clean stop: all is made durable, and the next start knows it."""
        with ThreadPoolExecutor(threads * len(self.directories), "close") as pool:
            list(pool.map(_close_log, self))
        self.write_checkpoints()
        for directory in self.directories:
            if directory.is_online:
                try:
                    directory.leave_clean_marker()
                except OSError as error:
                    directory.fail(error, f"mark {directory.path}")
        self.abandon()

    def abandon(self) -> None:
        """Let go of the dirs without a word, as a crash would."""
        for log in self:
            log.close_files()
        for directory in self.directories:
            directory.lock.release()


def _close_log(log: PartitionLog) -> None:
    if log.log_directory.is_online:
        try:
            log.close()
        except KafkaError:
            return  # logged where the dir failed; without the marker it is recovered


def _claim(directory: LogDirectory, node_id: int, cluster_id: str) -> None:
    """Make the dir ours: created, locked, and marked with our ids."""
    files, path = directory.files, directory.path
    try:
        files.make_directory(path)
        if not directory.lock.acquire():
            raise UnusableLogDirectory(f"log dir {path} is in use by another server")
        meta = meta_properties.read_meta_properties(path, files)
        if meta is not None and meta.cluster_id not in (None, cluster_id):
            raise UnusableLogDirectory(
                f"log dir {path} belongs to cluster {meta.cluster_id}, not {cluster_id}"
            )
        if meta is not None and meta.node_id not in (None, node_id):
            raise UnusableLogDirectory(
                f"log dir {path} belongs to broker {meta.node_id}, not {node_id}"
            )
        directory_id = meta.directory_id if meta else None
        wanted = MetaProperties(
            cluster_id, node_id, directory_id or meta_properties.new_directory_id()
        )
        if meta != wanted:
            files.replace_file(
                f"{path}/{meta_properties.FILE_NAME}",
                meta_properties.encode_meta_properties(wanted),
            )
    except OSError as error:
        raise UnusableLogDirectory(f"log dir {path} can't be used: {error.strerror}") from error
    except ValueError as error:
        raise UnusableLogDirectory(
            f"{path}/{meta_properties.FILE_NAME} can't be read: {error}"
        ) from error
