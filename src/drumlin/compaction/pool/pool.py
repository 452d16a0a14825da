"""The cleaner threads: each repeatedly chooses the dirtiest log and cleans it.

Owns the assignment of logs to threads, retries, and the list of uncleanable logs. Never changes a
log: that is up to `round/cleaner.py`. A thread that finds nothing to do, or fails, waits
`log.cleaner.backoff.ms`.

Facts about a log are stored with the log object, never under its name: by the time a thread learns
a fact, the log may be deleted, and another log may have the name.

What happens to a log whose cleaning fails:

- the disk is full: after a backoff, the same group of segments is tried again as soon as there is
  more space than last time; other logs do not wait
- a batch can't be read, or the package has no kernels for this machine: the log is uncleanable
  until the broker restarts, or until a cleaning is requested
- the log dir fails: the log dir goes offline, as with any other access
- the log was truncated or shortened meanwhile, or memory is short: retried after a backoff
"""

from __future__ import annotations

import errno
import logging
import math
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from drumlin.clock import Clock
from drumlin.compaction.dirty.cleanable import Cleanable
from drumlin.compaction.dirty.outline import find_cleanable, outline
from drumlin.compaction.dirty.round_progress import RoundProgress
from drumlin.compaction.failures import (
    CleaningFailed,
    CleaningPostponed,
    CleaningStopped,
    SegmentGone,
)
from drumlin.compaction.pool.choice import Candidate, in_order
from drumlin.compaction.pool.unfinished import NOT_BEGUN, Unfinished
from drumlin.compaction.round.cleaner import Call, Cleaner
from drumlin.compaction.settings import CleanerSettings
from drumlin.compaction.statistics import CleaningStatistics
from drumlin.compaction.throttle import Throttle
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.files.files import DEVICE_FULL
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.segment_swap import SegmentsChanged
from drumlin.wire.error_codes import KafkaError

_log = logging.getLogger(__name__)

_JOIN_S: Final = 30.0
#: The minimum pause after ranking all logs; the pause is at least ten times the ranking's duration.
#: Ranking 5,000 logs takes a second.
_LOOK_PAUSE_S: Final = 0.1
#: After this time, a cleaning is tried even without more space, as it may need less space by then.
_ROOM_AWAITED_S: Final = 600.0


class LogStatus(NamedTuple):
    """The pool's view of one compacted log."""

    cleanable: Cleanable
    last: CleaningStatistics | None
    is_being_cleaned: bool
    uncleanable_because: str | None
    #: The reason why the last attempt did not complete; the cleaning will be retried.
    waits_because: str | None = None


@dataclass(slots=True)
class Totals:
    """Totals since the broker started, over all threads and logs."""

    cleanings: int = 0
    failures: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    seconds: float = 0.0
    map_utilisation_max: float = 0.0

    def add(self, done: CleaningStatistics) -> None:
        self.cleanings += 1
        self.bytes_read += done.bytes_read
        self.bytes_written += done.bytes_written
        self.records_read += done.records_read
        self.records_written += done.records_written
        self.seconds += done.seconds
        self.map_utilisation_max = max(self.map_utilisation_max, done.map_utilisation)


class _Worker(NamedTuple):
    """The state of one thread."""

    number: int
    stopping: threading.Event
    throttle: Throttle


class CleanerPool:
    """All cleaner threads. The loop calls `start` and `stop`; everything else is thread-safe."""

    def __init__(
        self,
        logs: LogDirectories,
        call: Call,
        settings: CleanerSettings,
        clock: Clock,
    ) -> None:
        self.totals = Totals()
        self._logs = logs
        self._call = call
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        #: By name, as a log and its successor share a folder: two threads must never write into it.
        self._in_progress: set[tuple[str, int]] = set()
        self._last: dict[PartitionLog, CleaningStatistics] = {}
        self._uncleanable: dict[PartitionLog, str] = {}
        self._unfinished: dict[PartitionLog, Unfinished] = {}
        self._ranking_lock = threading.Lock()
        self._ranking: deque[PartitionLog] = deque()
        self._rank_again_at = -math.inf
        self._requested: list[PartitionLog] = []
        self._is_closed = False
        self._stopping = threading.Event()
        self._wake = threading.Condition(self._lock)
        self._threads: list[threading.Thread] = []
        self._throttle = Throttle(settings.io_max_bytes_per_second, clock, self._stopping)

    # -- threads -----------------------------------------------------------------------

    def start(self) -> None:
        self._is_closed = False
        # A new event for the new threads: old threads that are still running must end.
        self._stopping = threading.Event()
        self._throttle = Throttle(
            self._settings.io_max_bytes_per_second, self._clock, self._stopping
        )
        for number in range(self._settings.threads):
            worker = _Worker(number, self._stopping, self._throttle)
            thread = threading.Thread(
                target=self._work, args=(worker,), name=f"cleaner-{number}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def begin_to_stop(self) -> None:
        """Make all cleanings end at their next step; unfinished groups of segments are undone."""
        self._is_closed = True
        self._stopping.set()
        with self._wake:
            self._wake.notify_all()

    def stop(self) -> None:
        """Stop all threads, and wait for them. Must not block the loop: the threads may need it."""
        self.begin_to_stop()
        self._join()

    def _join(self) -> None:
        for thread in self._threads:
            thread.join(_JOIN_S)
        self._threads.clear()

    def reconfigure(self, settings: CleanerSettings) -> None:
        """Apply new settings; cleanings in progress keep their memory.

        A changed number of threads ends all threads and starts new ones, and blocks until then.

        Raises:
            RuntimeError: the system allows no more threads at the moment; call this again.
        """
        has_same_threads = settings.threads == len(self._threads)
        self._settings = settings
        if has_same_threads:
            self._throttle.bytes_per_second = settings.io_max_bytes_per_second
        else:
            self._stopping.set()
            with self._wake:
                self._wake.notify_all()
            self._join()
            self.start()

    def _work(self, worker: _Worker) -> None:
        while not worker.stopping.is_set():
            try:
                was_busy = self._clean_next(worker)
            except Exception:  # noqa: BLE001  a failure with one log must not end the thread
                _log.exception("cleaner %d failed, and tries again after a pause", worker.number)
                was_busy = False
            if not was_busy:
                with self._wake:
                    if not self._may_take_requested() and not worker.stopping.is_set():
                        self._wake.wait(self._settings.backoff_ms / 1000)

    # -- choice of a log ---------------------------------------------------------------

    def _clean_next(self, worker: _Worker) -> bool:
        """Clean one log; False if there is nothing to clean, or if the cleaning failed."""
        asked_for = self._take_requested()
        log = asked_for or self._take_next()
        if log is None:
            return False
        try:
            return self._clean(log, worker, is_requested=log is asked_for)
        finally:
            with self._wake:
                self._in_progress.discard(_key(log))
                self._wake.notify_all()

    def _may_take_requested(self) -> bool:
        """Whether there is a requested log that no thread is cleaning; the lock must be held."""
        return any(_key(log) not in self._in_progress for log in self._requested)

    def _take_requested(self) -> PartitionLog | None:
        with self._lock:
            for number, log in enumerate(self._requested):
                if _key(log) not in self._in_progress:
                    self._in_progress.add(_key(log))
                    return self._requested.pop(number)
        return None

    def _take_next(self) -> PartitionLog | None:
        """Take the log that ranks first; None if no log is worth a cleaning."""
        with self._ranking_lock:
            now_s = self._clock.monotonic()
            if not self._ranking and now_s >= self._rank_again_at:
                self._ranking = self._rank()
                # The longer the ranking took, the longer the pause before the next ranking.
                took_s = self._clock.monotonic() - now_s
                self._rank_again_at = now_s + max(_LOOK_PAUSE_S, 10 * took_s)
            while self._ranking:
                log = self._ranking.popleft()
                if self._is_free(log) and self._is_still_worth_it(log):
                    with self._lock:
                        if _key(log) not in self._in_progress:  # a requested cleaning
                            self._in_progress.add(_key(log))
                            return log
        return None

    def _rank(self) -> deque[PartitionLog]:
        """The logs that are worth a cleaning, in order of rank."""
        candidates = {}
        self._forget_deleted()
        logs = self._call(
            lambda: list(self._logs)
        )  # only copied in the loop, as there may be many logs
        compacted = (log for log in logs if log.config.is_compacted and not log.is_unserved)
        for log in filter(self._is_free, compacted):
            candidate = self._candidate(log)
            if candidate is not None:
                candidates[log] = candidate
        return deque(in_order(candidates.items()))

    def _forget_deleted(self) -> None:
        with self._lock:
            known: dict[PartitionLog, Any]
            for known in (self._last, self._uncleanable, self._unfinished):
                for log in [each for each in known if each.is_deleted]:
                    del known[log]

    def _candidate(self, log: PartitionLog) -> Candidate | None:
        try:
            now_ms = self._clock.expiry.now_ms()
            found = self._find_cleanable(log, now_ms)
        except KafkaError:
            return None  # the log dir has failed, or the log is deleted
        may_drop = found.has_deletions_to_drop(now_ms)
        return Candidate(found, log.config.min_cleanable_dirty_ratio, may_drop)

    def _find_cleanable(self, log: PartitionLog, now_ms: int) -> Cleanable:
        """The cleanable part of a log. If the device fails, the log dir goes offline."""
        return log.look(lambda: find_cleanable(log, outline(log), now_ms))

    def _is_still_worth_it(self, log: PartitionLog) -> bool:
        candidate = self._candidate(log) if log.config.is_compacted else None
        return candidate is not None and candidate.is_worth_it

    def _is_free(self, log: PartitionLog) -> bool:
        with self._lock:
            is_known = _key(log) in self._in_progress or log in self._uncleanable
            unfinished = self._unfinished.get(log, NOT_BEGUN)
        is_resting = unfinished.resting_until > self._clock.monotonic()
        return not (is_known or is_resting) and log.log_directory.is_online and not log.is_deleted

    # -- cleaning ----------------------------------------------------------------------

    def _clean(self, log: PartitionLog, worker: _Worker, *, is_requested: bool) -> bool:
        """Clean a log; False if the thread should back off."""
        cleaner = Cleaner(self._settings, worker.throttle, self._call, self._clock, worker.stopping)
        before = self._unfinished.get(log, NOT_BEGUN)
        try:
            is_due = is_requested or self._clock.monotonic() >= before.due_at
            if not is_due and before.needed_bytes > log.log_directory.files.free_bytes(log.path):
                return self._back_off_with(log, before)
            done = cleaner.clean(
                log, self._logs.swap_segments, before.progress, is_requested=is_requested
            )
        except CleaningStopped:
            self._note_unfinished(log, Unfinished(progress=cleaner.progress))
            return False
        except (SegmentsChanged, SegmentGone, CleaningPostponed, MemoryError) as error:
            return self._back_off(log, error, cleaner.progress)
        except CleaningFailed as error:
            self._give_up(log, str(error))
            return True
        except OSError as error:
            return self._failed(log, error, cleaner.progress)
        except KafkaError as error:
            return self._back_off(log, error, cleaner.progress)
        except Exception as error:  # noqa: BLE001  the other logs must still be cleaned
            _log.exception("cleaning %s failed unexpectedly", log.name)
            self._give_up(log, f"{type(error).__name__}: {error}")
            return True
        if done is None:
            return self._back_off(log, None, None)
        with self._lock:
            self.totals.add(done)
            self._last[log] = done
            self._uncleanable.pop(log, None)
            self._unfinished.pop(log, None)
        _log_done(done)
        return True

    def _back_off(
        self, log: PartitionLog, error: Exception | None, progress: RoundProgress | None
    ) -> bool:
        """Skip a log until its backoff is over, so that other logs are cleaned; returns True."""
        if log.is_deleted:
            return True
        is_news = str(error) != self._unfinished.get(log, NOT_BEGUN).reason
        if isinstance(error, OSError) and error.errno in DEVICE_FULL:
            so_far = "" if progress is None else f", from offset {progress.next_offset} on"
            if is_news:
                said = "no room to clean %s%s: %s; trying again later"
                _log.warning(said, log.name, so_far, error)
        elif error is not None:
            _log.warning("%s could not be cleaned, trying again later: %s", log.name, error)
        with self._lock:
            self.totals.failures += error is not None
        due_at = self._clock.monotonic() + _ROOM_AWAITED_S
        return self._back_off_with(log, Unfinished.because_of(error, progress, due_at))

    def _back_off_with(self, log: PartitionLog, unfinished: Unfinished) -> bool:
        resting_until = self._clock.monotonic() + self._settings.backoff_ms / 1000
        self._note_unfinished(log, unfinished._replace(resting_until=resting_until))
        return True

    def _note_unfinished(self, log: PartitionLog, unfinished: Unfinished) -> None:
        with self._lock:
            self._uncleanable.pop(log, None)
            self._unfinished[log] = unfinished

    def _give_up(self, log: PartitionLog, reason: str) -> None:
        if log.is_deleted:
            return
        with self._lock:  # two threads may find the same reason
            # The same reason may concern all logs, so it is logged once.
            is_known = reason in self._uncleanable.values()
            self.totals.failures += 1
            self._uncleanable[log] = reason
        if not is_known:
            _log.error("%s is uncleanable, and will only grow: %s", log.name, reason)

    def _failed(self, log: PartitionLog, error: OSError, progress: RoundProgress | None) -> bool:
        # ENOMEM concerns the process, not the device.
        if error.errno not in DEVICE_FULL | {errno.ENOMEM} and not log.is_deleted:
            log.log_directory.fail_log(error, f"clean {log.name}")
        return self._back_off(log, error, progress)

    # -- requests and status -----------------------------------------------------------

    def run(self, log: PartitionLog, timeout_s: float) -> bool:
        """Request a cleaning of a log, whatever its dirty ratio; True once it was tried. Blocks."""
        before = self._clock.monotonic()
        with self._wake:
            # An uncleanable log keeps its reason until it was tried: others may have the same
            # reason, which is logged once.
            self._requested.append(log)
            self._wake.notify_all()
            while log in self._requested or _key(log) in self._in_progress:
                left_s = before + timeout_s - self._clock.monotonic()
                if left_s <= 0 or self._is_closed:
                    return False
                self._wake.wait(min(left_s, 1.0))
        return True

    def status(self, log: PartitionLog) -> LogStatus:
        """The status of one log. Reads its files, so it blocks.

        Raises:
            KafkaError: the files can't be read.
        """
        found = self._find_cleanable(log, self._clock.expiry.now_ms())
        with self._lock:
            return LogStatus(
                found,
                self._last.get(log),
                _key(log) in self._in_progress,
                self._uncleanable.get(log),
                self._unfinished.get(log, NOT_BEGUN).reason,
            )

    def last(self, log: PartitionLog) -> CleaningStatistics | None:
        """The last complete cleaning of a log."""
        return self._last.get(log)

    @property
    def uncleanable(self) -> dict[str, str]:
        """The names of the uncleanable logs, with the reasons."""
        with self._lock:
            return {log.name: reason for log, reason in self._uncleanable.items()}


def _key(log: PartitionLog) -> tuple[str, int]:
    return log.topic, log.partition


def _log_done(done: CleaningStatistics) -> None:
    _log.info(
        "cleaned %s-%d up to %d: %.1f MB -> %.1f MB, %d of %d records kept, %.0f MB/s, "
        "offset map %.0f %% full",
        done.topic,
        done.partition,
        done.round_end_offset,
        done.bytes_read / 1e6,
        done.bytes_written / 1e6,
        done.records_written,
        done.records_read,
        done.bytes_per_second / 1e6,
        100 * done.map_utilisation,
    )
