"""Partitions of a coordinator's topic that this broker leads, and the loading of their state.

A partition is loaded when this broker becomes its leader: it is read and decoded in a thread, then
applied on the event loop in steps. A few partitions are loaded at a time; a partition that a
request needs is loaded next. Leadership may be lost at any moment; then the loaded state is
dropped. If loading fails, it is retried, with growing pauses, as long as this broker leads the
partition: the usual cause is a temporary lack of memory or file descriptors. The coordinator
defines the shard, and how a log is read.
"""

from __future__ import annotations

import asyncio
import logging
import operator
from array import array
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from drumlin.ready_threads import ready_threads
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.turns import checked
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

Shard = TypeVar("Shard")
Loaded = TypeVar("Loaded")

#: Hashes of keys up to this length are cached, as clients use the same keys again and again.
_KEPT_LENGTH_MAX: Final = 100

#: The partitions loaded at the same time; usually by kernels, which do not hold the GIL.
_AT_A_TIME: Final = 4

#: The pause after a partition could not be loaded; it doubles with each failure.
_PAUSE_S: Final = 1.0
_PAUSE_MAX_S: Final = 8.0

#: Powers of 31, modulo 2^32.
_POWERS: Final = tuple(pow(31, power, 1 << 32) for power in range(256))

#: Called regularly while a partition is read; returns whether loading was cancelled.
IsCancelled = Callable[[], bool]


class LoadCancelled(Exception):
    """The partition is no longer led here, or the broker is stopping."""


def partition_for(key: str, partition_count: int) -> int:
    """The partition of a group or a transactional id, by Java's hash, as in Kafka."""
    value = _known_hash(key) if len(key) <= _KEPT_LENGTH_MAX else _java_hash(key)
    if value >= 1 << 31:
        value = (1 << 32) - value
    # The absolute value of this number does not fit into Java's int; Kafka uses 0.
    return 0 if value == 1 << 31 else value % partition_count


def _java_hash(key: str) -> int:
    """The hash of Java's `String.hashCode`, computed from the key's UTF-16 units, modulo 2^32."""
    units = array("H", key.encode("utf-16"))[1:]  # after the byte order mark
    value = 0
    for start in range(0, len(units), len(_POWERS)):
        piece = units[start : start + len(_POWERS)]
        value *= pow(31, len(piece), 1 << 32)
        value += sum(map(operator.mul, reversed(piece), _POWERS))
        value &= 0xFFFFFFFF
    return value


_known_hash = lru_cache(maxsize=4096)(_java_hash)


@dataclass(slots=True, eq=False)
class _Led(Generic[Shard]):
    """One led partition."""

    partition: int
    shard: Shard
    leader_epoch: int
    pause_s: float
    """The pause before the next attempt if this one fails."""
    failure: str = ""
    """The failure of the previous attempt."""
    is_resigned: bool = False
    has_failed: bool = False
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def check(self) -> None:
        """
        Raises:
            LoadCancelled: another broker leads the partition.
        """
        if self.is_resigned:
            raise LoadCancelled


class StatePartitions(Generic[Shard, Loaded]):
    """The shards of the led partitions.

    Args:
        topic: the topic's name, for messages.
        new_shard(partition): creates an empty shard.
        read(partition, is_cancelled): reads the state of the partition; called in a thread, so it
            may block. Raises `LoadCancelled` when `is_cancelled()` returns True.
        take_over(shard, loaded): fills the shard, yielding to the event loop in between.
        on_loaded(partition): called when the shard is loaded, or loading has failed.
    """

    def __init__(
        self,
        topic: str,
        new_shard: Callable[[int], Shard],
        read: Callable[[int, IsCancelled], Loaded],
        take_over: Callable[[Shard, Loaded], Coroutine[Any, Any, None]],
        on_loaded: Callable[[int], None],
    ) -> None:
        self._topic = topic
        self._new_shard = new_shard
        self._read = read
        self._take_over = take_over
        self._on_loaded = on_loaded
        self._led: dict[int, _Led[Shard]] = {}
        self._threads = ready_threads(_AT_A_TIME, f"{topic}-loader")
        self._waiting: OrderedDict[int, _Led[Shard]] = OrderedDict()
        """Partitions that wait to be loaded, the next one first."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loading = 0
        self._is_closed = False

    def begin(self, partition: int, leader_epoch: int) -> None:
        """Load a partition that this broker has led since `leader_epoch`, unless the broker is
        stopping.
        """
        if self._is_closed:
            return
        current = self._led.get(partition)
        if current is not None and not current.has_failed:
            current.leader_epoch = max(current.leader_epoch, leader_epoch)
            return
        self._begin(_Led(partition, self._new_shard(partition), leader_epoch, _PAUSE_S))

    def _begin(self, led: _Led[Shard]) -> None:
        self._led[led.partition] = self._waiting[led.partition] = led
        if self._loading < _AT_A_TIME:
            self._loading += 1
            task = asyncio.get_running_loop().create_task(self._load_waiting())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def end(self, partition: int) -> Shard | None:
        """Drop a partition that another broker leads now; returns its shard, so that waiting
        requests can be ended.
        """
        led = self._led.pop(partition, None)
        if led is None:
            return None
        self._waiting.pop(partition, None)
        led.is_resigned = True
        led.ready.set()
        return led.shard

    def shard(self, partition: int) -> Shard:
        """
        Raises:
            KafkaError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        led = self._led.get(partition)
        if led is None or led.has_failed:
            raise KafkaError(ErrorCode.not_coordinator)
        if not led.ready.is_set():
            if partition in self._waiting:
                self._waiting.move_to_end(partition, last=False)
            raise KafkaError(ErrorCode.coordinator_load_in_progress)
        return led.shard

    def shards(self) -> Iterator[Shard]:
        """All loaded shards.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, some shards are not loaded yet.
        """
        for partition in sorted(self._led):
            if not self._led[partition].has_failed:
                yield self.shard(partition)

    def leader_epoch(self, partition: int) -> int:
        """The leader epoch of a loaded partition, which is the coordinator epoch.

        Raises:
            KafkaError: as `shard`.
        """
        self.shard(partition)
        return self._led[partition].leader_epoch

    def find(self, partition: int) -> Shard | None:
        """The shard, perhaps still loading; None if this broker does not lead the partition."""
        led = self._led.get(partition)
        return None if led is None else led.shard

    def is_loading(self, partition: int) -> bool:
        """Whether the partition is led here but not loaded yet."""
        led = self._led.get(partition)
        return led is not None and not led.has_failed and not led.ready.is_set()

    async def when_ready(self, partition: int) -> Shard | None:
        """The shard when it is loaded; None if loading fails, or another broker leads the
        partition.
        """
        led = self._led.get(partition)
        if led is None:
            return None
        await led.ready.wait()
        return None if led.has_failed or led.is_resigned else led.shard

    def partitions(self) -> list[int]:
        return sorted(self._led)

    async def close(self) -> None:
        self._is_closed = True
        for led in self._led.values():
            led.is_resigned = True
        self._waiting.clear()
        await asyncio.gather(*self._tasks)
        self._threads.shutdown(wait=False)

    async def _load_waiting(self) -> None:
        """Load waiting partitions one after the other; several such tasks run concurrently."""
        try:
            while self._waiting:
                _, led = self._waiting.popitem(last=False)
                try:
                    await self._load(led)
                except Exception as error:  # noqa: BLE001  or requests would wait for it for ever
                    self._failed(led, error)
        finally:
            self._loading -= 1

    async def _load(self, led: _Led[Shard]) -> None:
        loop = asyncio.get_running_loop()
        try:
            loaded = await loop.run_in_executor(
                self._threads, self._read, led.partition, lambda: led.is_resigned
            )
            await checked(self._take_over(led.shard, loaded), led.check)
            led.check()
        except LoadCancelled:
            return
        if led.failure:
            _log.warning("partition %d of %s is loaded after all", led.partition, self._topic)
        led.ready.set()
        self._on_loaded(led.partition)

    def _failed(self, led: _Led[Shard], error: Exception) -> None:
        """Try again after a pause; until then, requests get NOT_COORDINATOR."""
        if led.is_resigned:
            return
        failure = f"{type(error).__name__}: {error}"
        if failure != led.failure:
            is_foreseen = isinstance(error, (CorruptRecord, KafkaError))
            _log.error(
                "partition %d of %s cannot be loaded, and is tried again: %s",
                led.partition,
                self._topic,
                error if is_foreseen else failure,
                exc_info=None if is_foreseen else error,
            )
        led.has_failed = True
        led.ready.set()
        asyncio.get_running_loop().call_later(led.pause_s, self._try_again, led, failure)
        self._on_loaded(led.partition)

    def _try_again(self, failed: _Led[Shard], failure: str) -> None:
        if self._led.get(failed.partition) is not failed or self._is_closed:
            return
        shard = self._new_shard(failed.partition)
        pause_s = min(2 * failed.pause_s, _PAUSE_MAX_S)
        self._begin(_Led(failed.partition, shard, failed.leader_epoch, pause_s, failure))
