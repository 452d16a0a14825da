"""Which partitions of `__consumer_offsets` this broker leads, and the loading of their groups.

A partition is loaded once its leadership is ours: read and decoded in a thread of its own, then
taken over on the loop in steps. Leadership may be lost at any moment; what was loaded by then
is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from drumlin.coordination.group_log import LoadCancelled, LoadedPartition, load
from drumlin.coordination.group_shard import GroupShard
from drumlin.records.batch import Buffer
from drumlin.records.errors import CorruptRecord
from drumlin.wire.errors import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

#: What is taken over before others get their turn on the loop: some milliseconds' worth.
_GROUPS_PER_STEP: Final = 200
_OFFSETS_PER_STEP: Final = 5_000


@dataclass(slots=True, eq=False)
class _Led:
    """One partition that is led."""

    shard: GroupShard
    leader_epoch: int
    is_resigned: bool = False
    has_failed: bool = False
    ready: asyncio.Event = field(default_factory=asyncio.Event)


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition that a group belongs to: Java's hash of its id, as in Apache Kafka."""
    value = 0
    units = group_id.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    if value >= 1 << 31:
        value = (1 << 32) - value
    # The one value whose absolute value does not fit Java's int counts as 0.
    return 0 if value == 1 << 31 else value % partition_count


class GroupPartitions:
    """The shards of the partitions that are led."""

    def __init__(
        self,
        new_shard: Callable[[int], GroupShard],
        read_batches: Callable[[int], Iterable[Buffer]],
        on_loaded: Callable[[], None],
    ) -> None:
        self._new_shard = new_shard
        self._read_batches = read_batches
        self._on_loaded = on_loaded
        self._led: dict[int, _Led] = {}
        self._thread = ThreadPoolExecutor(1, "group-loader")
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, partition: int, leader_epoch: int) -> None:
        """The partition is led here from `leader_epoch` on: load it."""
        current = self._led.get(partition)
        if current is not None and not current.has_failed:
            current.leader_epoch = max(current.leader_epoch, leader_epoch)
            return
        led = self._led[partition] = _Led(self._new_shard(partition), leader_epoch)
        task = asyncio.get_running_loop().create_task(self._load(led))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def end(self, partition: int) -> GroupShard | None:
        """The partition is led elsewhere: its shard, for whoever waits in it."""
        led = self._led.pop(partition, None)
        if led is None:
            return None
        led.is_resigned = True
        led.ready.set()
        return led.shard

    def shard(self, partition: int) -> GroupShard:
        """
        Raises:
            KafkaError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        led = self._led.get(partition)
        if led is None or led.has_failed:
            raise KafkaError(ErrorCode.not_coordinator)
        if not led.ready.is_set():
            raise KafkaError(ErrorCode.coordinator_load_in_progress)
        return led.shard

    def shards(self) -> Iterator[GroupShard]:
        """Every shard that can be asked.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, as some are missing yet.
        """
        for partition in sorted(self._led):
            if not self._led[partition].has_failed:
                yield self.shard(partition)

    def find(self, partition: int) -> GroupShard | None:
        """The shard, be it loaded or still loading: for deadlines, which cannot wait."""
        led = self._led.get(partition)
        return None if led is None else led.shard

    async def when_ready(self, partition: int) -> GroupShard | None:
        """The shard once it is loaded; None if it cannot be, or is led elsewhere."""
        led = self._led.get(partition)
        if led is None:
            return None
        await led.ready.wait()
        return None if led.has_failed or led.is_resigned else led.shard

    def partitions(self) -> list[int]:
        return sorted(self._led)

    async def close(self) -> None:
        for led in self._led.values():
            led.is_resigned = True
        await asyncio.gather(*self._tasks)
        self._thread.shutdown(wait=False)

    async def _load(self, led: _Led) -> None:
        partition = led.shard.partition
        loop = asyncio.get_running_loop()
        try:
            loaded = await loop.run_in_executor(self._thread, self._read, led)
            await self._take_over(led, loaded)
        except LoadCancelled:
            return
        except (KafkaError, CorruptRecord, ValueError, OSError):
            _log.exception("groups of partition %d cannot be loaded", partition)
            led.has_failed = True
        else:
            if loaded.records:
                counts = partition, len(loaded.groups), len(loaded.offsets), loaded.records
                _log.debug("partition %d: %d groups, %d offsets from %d records", *counts)
        led.ready.set()
        self._on_loaded()

    def _read(self, led: _Led) -> LoadedPartition:
        return load(self._read_batches(led.shard.partition), lambda: led.is_resigned)

    async def _take_over(self, led: _Led, loaded: LoadedPartition) -> None:
        for count, (group_id, metadata) in enumerate(loaded.groups.items(), 1):
            led.shard.restore(group_id, metadata)
            if count % _GROUPS_PER_STEP == 0:
                await self._give_way(led)
        for count, (key, committed) in enumerate(loaded.offsets.items(), 1):
            led.shard.put_offset(key, committed)
            if count % _OFFSETS_PER_STEP == 0:
                await self._give_way(led)
        if led.is_resigned:
            raise LoadCancelled

    async def _give_way(self, led: _Led) -> None:
        await asyncio.sleep(0)
        if led.is_resigned:
            raise LoadCancelled
