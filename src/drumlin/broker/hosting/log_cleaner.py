"""The cleaner in a running broker: its threads, started, stopped and reconfigured with it.

Owns the calls of cleaner threads to the event loop, which alone changes logs.

Requests to the cleaner (for its status, a cleaning now, or a simulation) block. They run in threads
of their own, so a long cleaning takes no threads from other requests.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import math
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from drumlin.clock import Clock
from drumlin.compaction.dirty.active_segment import active_segment
from drumlin.compaction.failures import CleaningFailed, CleaningPostponed, CleaningStopped
from drumlin.compaction.pool.pool import CleanerPool
from drumlin.compaction.pool.report import (
    describe_error,
    describe_result,
    describe_status,
    describe_totals,
)
from drumlin.compaction.pool.waits import reason_for_no_cleaning
from drumlin.compaction.round.cleaner import Cleaner
from drumlin.compaction.settings import CleanerSettings
from drumlin.compaction.throttle import Throttle
from drumlin.config.broker import BrokerConfig
from drumlin.metadata.image import ResourceType
from drumlin.metadata.store.changes import Change, ConfigsChanged
from drumlin.ready_threads import ready_threads
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.wire.error_codes import KafkaError

_log = logging.getLogger(__name__)
T = TypeVar("T")
Rows = list[dict[str, Any]]

#: Requested cleanings and simulations that run at the same time; others wait.
_REQUESTS_AT_ONCE: Final = 2
#: The time limit of a requested cleaning: practically none.
_RUN_S: Final = 7 * 24 * 3600.0
_LOOK_S: Final = 1.0
_AGAIN_S: Final = 1.0
#: Kafka does not limit these settings; a cleaner needs limits.
_LOAD_FACTOR_LEAST: Final = 0.01
_LOAD_FACTOR_MOST: Final = 0.99
_RATE_LEAST: Final = 1.0


def cleaner_settings(config: BrokerConfig) -> CleanerSettings:
    """The currently configured settings of the cleaner."""
    return CleanerSettings(
        threads=config.log_cleaner_threads,
        dedupe_buffer_size=config.log_cleaner_dedupe_buffer_size,
        io_buffer_load_factor=_within(
            config.log_cleaner_io_buffer_load_factor, _LOAD_FACTOR_LEAST, _LOAD_FACTOR_MOST
        ),
        io_max_bytes_per_second=_within(
            config.log_cleaner_io_max_bytes_per_second, _RATE_LEAST, math.inf
        ),
        backoff_ms=config.log_cleaner_backoff_ms,
        brokers=config.brokers,
    )


def _within(value: float, least: float, most: float) -> float:
    # NaN, which Kafka accepts as a number, is not `>=` any number.
    return min(value, most) if value >= least else least


class LoopCalls:
    """Calls functions on the event loop for threads, which wait for the result."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_closed = False
        self._pending: set[concurrent.futures.Future[Any]] = set()

    def close(self) -> None:
        """Refuse pending and later calls. Runs on the loop."""
        self._is_closed = True
        for each in list(self._pending):
            each.set_exception(CleaningStopped("the broker stops"))
        self._pending.clear()

    def __call__(self, function: Callable[[], T], /) -> T:
        """Call `function` on the loop, and return its result or raise its exception. Not to be
        called on the loop itself.

        Raises:
            CleaningStopped: the loop takes no more calls; `function` was not called.
        """
        result: concurrent.futures.Future[T] = concurrent.futures.Future()

        def call() -> None:
            if result not in self._pending:
                return  # refused
            self._pending.discard(result)
            try:
                result.set_result(function())
            except BaseException as error:  # noqa: BLE001  it is raised where it was asked for
                result.set_exception(error)

        self._pending.add(result)
        if self._is_closed:  # checked after adding the call: `close` refuses all pending calls
            self._pending.discard(result)
            raise CleaningStopped("the broker stops")
        try:
            self._loop.call_soon_threadsafe(call)
            while not result.done():
                # A loop that ends without `close` loses its pending calls.
                if self._loop.is_closed():
                    break
                concurrent.futures.wait((result,), _LOOK_S)
        except RuntimeError:
            raise CleaningStopped("the broker has stopped") from None
        if result.done():
            return result.result()
        raise CleaningStopped("the broker has stopped")


class Cleaning:
    """The cleaner of one broker. Created on its loop."""

    def __init__(self, config: BrokerConfig, logs: LogDirectories, clock: Clock) -> None:
        self.is_enabled = config.log_cleaner_enable
        self._config = config
        self._logs = logs
        self._clock = clock
        self._calls = LoopCalls(asyncio.get_running_loop())
        self._settings = cleaner_settings(config)
        self.pool = CleanerPool(logs, self._calls, self._settings, clock)
        self._is_running = False
        self._stopping = threading.Event()
        self._turn = asyncio.Lock()
        self._reconfiguring: set[asyncio.Task[None]] = set()
        self._requests = ready_threads(_REQUESTS_AT_ONCE, "cleaning-request")

    # -- start and stop ---------------------------------------------------------------

    def start(self) -> None:
        """Start the cleaner, unless it is disabled."""
        if self.is_enabled:
            self._is_running = True
            self.pool.start()

    async def on_change(self, change: Change) -> None:
        """Apply a change of the metadata; called when it has changed the configuration already."""
        if isinstance(change, ConfigsChanged) and change.resource.type is ResourceType.BROKER:
            self._follow_settings()

    def _follow_settings(self) -> None:
        settings = cleaner_settings(self._config)
        if settings == self._settings:
            return
        self._settings = settings
        if self._is_running:
            # A request that changes the configuration does not wait until the cleaners have
            # stopped.
            task = asyncio.create_task(self._reconfigure(), name="reconfigure the cleaner")
            self._reconfiguring.add(task)
            task.add_done_callback(self._reconfiguring.discard)

    async def _reconfigure(self) -> None:
        async with self._turn:
            while self._is_running:
                try:
                    await asyncio.to_thread(self.pool.reconfigure, self._settings)
                except (RuntimeError, MemoryError) as error:  # perhaps no thread can be started now
                    _log.warning("the cleaner is reconfigured again: %s", error)
                    await asyncio.sleep(_AGAIN_S)
                else:
                    _log.info("cleaner reconfigured: %s", self._settings)
                    return

    def begin_to_stop(self) -> None:
        """Tell the cleaners to stop; unfinished cleanings are undone."""
        self._is_running = False
        self._stopping.set()
        self.pool.begin_to_stop()

    async def stop(self) -> None:
        """Wait until all cleaners have stopped, and no call to the loop is pending."""
        self.begin_to_stop()
        async with self._turn:
            await asyncio.to_thread(self.pool.stop)
        self._calls.close()
        await asyncio.to_thread(self._requests.shutdown, cancel_futures=True)

    # -- requests ---------------------------------------------------------------------

    def report(self, topic: str | None = None, partition: int | None = None) -> Rows:
        """The status of the compacted logs, or some of them. Blocks; never call it on the loop.

        Raises:
            CleaningStopped: the broker is stopping.
        """

        def wanted() -> list[PartitionLog]:
            return [
                log
                for log in self._logs
                if log.config.is_compacted
                and topic in (None, log.topic)
                and partition in (None, log.partition)
            ]

        logs = sorted(self._calls(wanted), key=lambda log: (log.topic, log.partition))
        rows: Rows = []
        for log in logs:
            if log.is_deleted:
                continue
            log_dir = log.log_directory.path
            try:
                status = self.pool.status(log)
            except KafkaError as error:
                if not log.is_deleted:
                    rows.append(describe_error(log.topic, log.partition, log_dir, error))
                continue
            row = describe_status(log.topic, log.partition, log_dir, status, active_segment(log))
            rows.append(row)
        return rows

    def totals(self) -> dict[str, Any]:
        """The totals since the start."""
        return describe_totals(self.pool.totals)

    async def run_now(self, log: PartitionLog) -> dict[str, Any]:
        """Have a log cleaned now; returns the result."""
        return await self._request(self._run_now, log)

    async def roll_and_run(self, log: PartitionLog) -> dict[str, Any]:
        """Like `run_now`, including the active segment, which is closed first.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        log.roll(self._clock.wall_ms())
        return await self.run_now(log)

    def _run_now(self, log: PartitionLog) -> dict[str, Any]:
        before = self.pool.last(log)
        was_done = self.pool.run(log, _RUN_S)
        done = self.pool.last(log)
        if done is not None and done is not before:
            return describe_result(log.topic, log.partition, done)
        if log.is_deleted or not was_done:
            reason = "it was deleted" if log.is_deleted else "the cleaner was stopped"
            return describe_result(log.topic, log.partition, None, reason, is_failed=True)
        status = self.pool.status(log)
        if status.uncleanable_because is not None:
            return describe_result(
                log.topic, log.partition, None, status.uncleanable_because, is_failed=True
            )
        if status.cleanable.cleanable_bytes or status.waits_because:
            why = status.waits_because or "the broker's log may say why"
            reason = f"it could not be cleaned now, and is tried again: {why}"
            return describe_result(log.topic, log.partition, None, reason, is_failed=True)
        return self._nothing_done(log)

    def _nothing_done(self, log: PartitionLog) -> dict[str, Any]:
        reason = reason_for_no_cleaning(log, self._clock.expiry.now_ms())
        return describe_result(log.topic, log.partition, None, reason)

    async def simulate(self, log: PartitionLog) -> dict[str, Any]:
        """The result that a cleaning of a log would have; changes nothing."""
        return await self._request(self._simulate, log)

    def _simulate(self, log: PartitionLog) -> dict[str, Any]:
        throttle = Throttle(self._settings.io_max_bytes_per_second, self._clock, self._stopping)
        cleaner = Cleaner(self._settings, throttle, self._calls, self._clock, self._stopping)
        try:
            done = log.look(lambda: cleaner.simulate(log))
            if done is None:
                return self._nothing_done(log)
            return describe_result(log.topic, log.partition, done)
        except (CleaningFailed, CleaningPostponed) as error:
            return describe_result(log.topic, log.partition, None, str(error), is_failed=True)
        except CleaningStopped:
            if self._stopping.is_set():
                raise
            reason = "it was cleaned, shortened or deleted meanwhile"
            return describe_result(log.topic, log.partition, None, reason, is_failed=True)

    async def _request(self, function: Callable[[PartitionLog], T], log: PartitionLog) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._requests, function, log)
