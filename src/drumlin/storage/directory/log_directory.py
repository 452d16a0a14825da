"""One of the `log.dirs`: its owner, its health, and the state that its partitions share.

A log dir fails as a whole: after an I/O error nothing on the device can be trusted, and a full
device takes no append from any of its partitions. The other log dirs stay in service, and this one
goes online again when a probe succeeds. While it is full, records can still be read and deleted;
after any other error they can't. A failed sync never counts as a full device (see `Files.sync`).
"""

from __future__ import annotations

import logging
import math
import threading
from typing import Final

from drumlin.clock import Clock
from drumlin.storage.directory import checkpoints, clean_marker, meta_properties
from drumlin.storage.directory.checkpoints import Checkpoint
from drumlin.storage.directory.directory_lock import DirectoryLock
from drumlin.storage.directory.meta_properties import MetaProperties
from drumlin.storage.files.files import DEVICE_FULL, NO_DESCRIPTOR, OF_ONE_FILE
from drumlin.storage.files.open_files import OpenFiles
from drumlin.storage.files.partition_names import parse_directory_name
from drumlin.wire.error_codes import ErrorCode, KafkaError

_logger = logging.getLogger(__name__)

PROBE_NAME: Final = ".probe"
#: With less free space than this a full log dir would fail again at the next append.
_PROBE_BYTES: Final = 1024 * 1024


class UnusableLogDirectory(Exception):
    """A server can't start on this log dir; the message is for its operator."""


class LogDirectory:
    """A folder of partition folders, on one device."""

    def __init__(
        self, path: str, open_files: OpenFiles, clock: Clock, lock: int | None = None
    ) -> None:
        self.path = path
        self.open_files = open_files
        self.files = open_files.files
        self.clock = clock
        #: The last failure; only `come_back` clears it.
        self.failure: OSError | None = None
        #: The same failure, once its damage is repaired.
        self.repaired: OSError | None = None
        self._failing = threading.Lock()
        #: Partitions that have a folder here whose log could not be loaded.
        self.not_loaded: set[tuple[str, int]] = set()
        #: Partitions in `not_loaded` whose log may be in another log dir, which is offline.
        self.undecided: set[tuple[str, int]] = set()
        #: Whether it is known which folders here are valid, see `moved_folders.py`. False for a
        #: log dir that has been offline since the start.
        self.is_sorted_out = False
        #: The monotonic time of the next attempt to load the logs in `not_loaded`.
        self.load_again_at = -math.inf
        #: Partitions to be recovered at the next start, even after a clean shutdown.
        self.in_disorder: set[tuple[str, int]] = set()
        self.recovery_points = Checkpoint(path, checkpoints.RECOVERY_POINT, self.files)
        self.high_watermarks = Checkpoint(path, checkpoints.HIGH_WATERMARK, self.files)
        self.log_start_offsets = Checkpoint(path, checkpoints.LOG_START_OFFSET, self.files)
        #: The end of the clean part of each log; a log without an entry is cleaned from its start.
        self.cleaner_offsets = Checkpoint(path, checkpoints.CLEANER_OFFSET, self.files)
        #: The earliest delete horizon in the clean part of a log, or an earlier time.
        self.delete_horizons = Checkpoint(path, checkpoints.DELETE_HORIZON, self.files)
        #: For compacted logs, see `LogState.deletions_kept_from`.
        self.kept_deletions = Checkpoint(path, checkpoints.KEPT_DELETIONS, self.files)
        #: See `LogState.exact_from`.
        self.exact_states = Checkpoint(path, checkpoints.EXACT_STATES, self.files)
        #: The partitions in `in_disorder`, for the next start.
        self.unclean_logs = Checkpoint(path, checkpoints.UNCLEAN, self.files)
        #: Whether the last shutdown was clean; a log dir without partitions counts as clean.
        self.was_clean = True
        #: Whether the log dir is as the last shutdown left it, rather than an older copy.
        self.is_current = True
        #: Whether the log dir is known to be an older copy: the broker has run since it was closed.
        self.is_copy = False
        self.is_claimed = False
        self._left_folders: list[str] = []
        self._lock = DirectoryLock(path, lock)
        self._said: set[str] = set()

    # -- ownership ---------------------------------------------------------------------

    def claim(self, node_id: int, cluster_id: str, last_broker_epoch: int | None = None) -> None:
        """Claim the log dir: create it, lock it and write our ids into it.

        Args:
            last_broker_epoch: the broker epoch before this start; None if it is not known.

        Raises:
            UnusableLogDirectory: the log dir is in use, or belongs to another broker or cluster.
            OSError: the log dir can't be used at the moment.
        """
        self.files.make_directory(self.path)
        if not self._lock.acquire():
            raise UnusableLogDirectory(f"log dir {self.path} is in use by another server")
        path = f"{self.path}/{meta_properties.FILE_NAME}"
        try:
            meta = meta_properties.read_meta_properties(self.path, self.files)
        except ValueError as error:
            raise UnusableLogDirectory(f"{path} can't be read: {error}") from error
        is_known = meta is not None
        if meta is None:
            meta = MetaProperties(None, None, None)
        if meta.cluster_id not in (None, cluster_id):
            raise UnusableLogDirectory(
                f"log dir {self.path} belongs to cluster {meta.cluster_id}, not {cluster_id}"
            )
        if meta.node_id not in (None, node_id):
            raise UnusableLogDirectory(
                f"log dir {self.path} belongs to broker {meta.node_id}, not {node_id}"
            )
        directory_id = meta.directory_id or meta_properties.new_directory_id()
        ours = MetaProperties(cluster_id, node_id, directory_id)
        if is_known and None in (meta.cluster_id, meta.node_id):
            _logger.warning("%s names no owner of the log dir, and is rewritten", path)
        if ours != meta:
            self.files.replace_file(path, meta_properties.encode_meta_properties(ours))
        self.in_disorder.update(self.unclean_logs.read())
        self._take_clean_marker(last_broker_epoch)
        self.is_claimed = True

    def _has_partitions(self) -> bool:
        return any(map(parse_directory_name, self.files.list_directory(self.path)))

    def release(self) -> None:
        """Release the directory's lock."""
        self._lock.release()
        self.is_claimed = False

    def _take_clean_marker(self, last_broker_epoch: int | None) -> None:
        """Check the marker of a clean shutdown, and remove it for the case of a crash.

        The logs in an older copy need no recovery, but may lack records.
        """
        epoch = clean_marker.read_clean_marker(self.path, self.files)
        self.was_clean = epoch is not None or not self._has_partitions()
        if epoch is None:
            self.is_current = self.was_clean
            return
        self.is_current = last_broker_epoch in (None, epoch) or not self._has_partitions()
        self.is_copy = (
            not self.is_current
            and last_broker_epoch is not None
            and clean_marker.NO_EPOCH < epoch < last_broker_epoch
        )
        if self.is_copy:
            _logger.warning(
                "log dir %s is an older copy: it was closed in broker epoch %d, and this broker "
                "has been in epoch %d since. Other brokers may have the records that it lacks.",
                self.path,
                epoch,
                last_broker_epoch,
            )
        self.files.remove(f"{self.path}/{clean_marker.FILE_NAME}")
        self.files.sync_directory(self.path)

    def leave_clean_marker(self, broker_epoch: int = clean_marker.NO_EPOCH) -> None:
        """Mark a clean shutdown: everything is durable, so the next start skips recovery."""
        content = clean_marker.encode_clean_marker(broker_epoch)
        self.files.replace_file(f"{self.path}/{clean_marker.FILE_NAME}", content)

    def note_in_order(self, partition: tuple[str, int]) -> None:
        """Note that a partition's log is loaded or new, and forget earlier trouble with it."""
        self.not_loaded.discard(partition)
        self.in_disorder.discard(partition)

    def leave(self, path: str) -> None:
        """Add a folder that no log uses any longer, to be removed. Thread-safe."""
        self._left_folders.append(path)

    def take_left_folders(self) -> list[str]:
        """Take the folders to remove now, as a full device needs the space."""
        left = self._left_folders
        return [left.pop() for _ in range(len(left))] if self.is_readable else []

    # -- failure -----------------------------------------------------------------------

    @property
    def is_online(self) -> bool:
        return self.failure is None

    @property
    def is_readable(self) -> bool:
        return self.failure is None or self.failure.errno in DEVICE_FULL

    def fail(self, error: OSError, attempt: str) -> KafkaError:
        """Note that `attempt` failed and take the log dir offline. Thread-safe.

        Returns:
            The error for the client.
        """
        if error.errno in NO_DESCRIPTOR:
            _logger.error("No descriptor left to %s: %s", attempt, error)
        else:
            self.go_offline(error, attempt)
        return storage_error(f"{attempt}: {error}")

    def go_offline(self, error: OSError, attempt: str) -> None:
        """Take the log dir offline like `fail`, for any error."""
        with self._failing:
            is_worse = error.errno not in DEVICE_FULL
            is_news = self.failure is None or (self.is_readable and is_worse)
            if is_news or is_worse:
                self.failure = error
        if is_news:
            _logger.error(
                "Log dir %s is offline: failed to %s: %s. Its partitions answer "
                "KAFKA_STORAGE_ERROR until it works again.",
                self.path,
                attempt,
                error,
            )

    def come_back(self) -> bool:
        """Go online again, unless the log dir has failed once more since its repair.

        A sync that was in progress may still fail after the logs were read again, because of pages
        that are lost by now.
        """
        with self._failing:
            if self.failure is self.repaired:
                self.failure = self.repaired = None
                return True
        _logger.warning("Log dir %s stays offline: it has failed once more", self.path)
        return False

    def fail_log(self, error: OSError, attempt: str) -> KafkaError:
        """Like `fail`, but the log dir stays online if the error concerns a single file."""
        if error.errno not in OF_ONE_FILE:
            return self.fail(error, attempt)
        said = f"{attempt}: {error}"
        self.log_once(f"Failed to {said}")
        return storage_error(said)

    def log_once(self, message: str, *, level: int = logging.ERROR, exc_info: bool = False) -> None:
        """Log a message once, although its cause recurs at every retry."""
        if message not in self._said:
            self._said.add(message)
            _logger.log(level, "%s", message, exc_info=exc_info)

    def check_writable(self) -> None:
        """Refuse while the log dir is offline.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if self.failure is not None:
            raise storage_error(f"log dir {self.path} is offline: {self.failure}")

    def check_readable(self) -> None:
        """Refuse while the log dir has failed; a full one can be read.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if self.failure is not None and not self.is_readable:
            raise storage_error(f"log dir {self.path} is offline: {self.failure}")

    def probe(self) -> bool:
        """Probe the log dir: write, sync and remove a file. Blocks: call it in a thread."""
        path = f"{self.path}/{PROBE_NAME}"
        try:
            self.files.create(path)
            descriptor = self.files.open(path)
            try:
                self.files.write_at(descriptor, bytes(_PROBE_BYTES), 0)
                self.files.sync(descriptor)
            finally:
                self.files.close(descriptor)
                self.files.remove(path)
        except OSError:
            return False
        return True


def storage_error(message: str) -> KafkaError:
    return KafkaError(ErrorCode.kafka_storage_error, message)
