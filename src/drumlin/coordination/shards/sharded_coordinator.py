"""The base class of coordinators: a topic, and a shard of state for each partition led here.

Owns the list of led partitions, the flag that requests are served, and the chores of a shard.
Chores write through `shard_writer.py`. The content and methods of a shard belong to the concrete
coordinator, which passes functions as arguments; subclasses override nothing here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Generic

from drumlin.background import Background
from drumlin.clock import Clock
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.coordination.shards.state_form import (
    Loaded,
    Shard,
    StateForm,
    StateLimits,
    StateRecord,
)
from drumlin.coordination.shards.state_log import StateLog
from drumlin.coordination.shards.state_partitions import (
    IsCancelled,
    LoadCancelled,
    StatePartitions,
    partition_for,
)
from drumlin.coordination.shards.state_topic import StateTopic
from drumlin.records.batch.batch import Buffer
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The reason for writing some records (for log messages), and these records.
Found = tuple[str, Sequence[StateRecord]]

_log = logging.getLogger(__name__)


class ShardedCoordinator(Generic[Shard, Loaded, StateRecord]):
    """The base class of coordinators: the shards, their start and end.

    Args:
        topic: the topic that keeps the state.
        form: the form of the shards.
        limits: the part of the configuration that all coordinators have.
        clock: wall time, for records.
        on_loaded(partition): called when the shard is loaded, or loading has failed.
    """

    def __init__(
        self,
        topic: StateTopic,
        form: StateForm[Shard, Loaded, StateRecord],
        limits: StateLimits,
        clock: Clock,
        on_loaded: Callable[[int], None],
    ) -> None:
        def read(partition: int, is_cancelled: IsCancelled) -> Loaded:
            return form.load(_wanted(topic.read_batches(partition), is_cancelled))

        self._topic, self._form, self._limits = topic, form, limits
        self._clock = clock
        self._log = StateLog(limits.timeout_ms)
        self._partitions = StatePartitions(
            topic.name, form.new_shard, read, form.take_over, on_loaded
        )
        self._writer = ShardWriter(
            topic, self._log, self._partitions, form, limits, clock, self._check_active
        )
        self._background = Background(lambda: KafkaError(ErrorCode.coordinator_not_available))
        self._unloading = Background()  # frees the state of partitions that have moved
        self._tidying = asyncio.Lock()
        self._is_active = False

    # -- life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve; until then, requests get COORDINATOR_NOT_AVAILABLE."""
        self._is_active = True

    async def close(self) -> None:
        """Drop all state, and end all waiting requests."""
        self._is_active = False
        for partition in self._partitions.partitions():
            self.resign(partition)
        await self._background.end()
        await self._partitions.close()
        await self._unloading.settle()

    def become_leader(self, partition: int, leader_epoch: int) -> None:
        """Load the partition's state in the background, as this broker leads the partition now."""
        self._partitions.begin(partition, leader_epoch)

    def resign(self, partition: int) -> None:
        """Drop the partition's state, as another broker leads the partition now."""
        shard = self._partitions.end(partition)
        if shard is not None:
            self._unloading.spawn(self._form.unload(shard))

    # -- finding ---------------------------------------------------------------------------

    async def find_partition(self, key: str) -> int:
        """The partition of the topic whose leader is the coordinator of this key.

        Creates the topic if it does not exist.

        Raises:
            KafkaError: the topic cannot be created.
        """
        if self._topic.partition_count() is None:
            await self._topic.create()
            # A new partition is empty, so waiting until it is loaded is cheaper than a client's
            # retry.
            await self._partitions.when_ready(self._partition_for(key))
        return self._partition_for(key)

    def _partition_for(self, key: str) -> int:
        return partition_for(
            key, self._topic.partition_count() or self._limits.first_partition_count()
        )

    def _check_active(self) -> None:
        """
        Raises:
            KafkaError: COORDINATOR_NOT_AVAILABLE, before `start` and after `close`.
        """
        if not self._is_active:
            raise KafkaError(ErrorCode.coordinator_not_available)

    # -- chores ----------------------------------------------------------------------------

    async def _write_found(
        self,
        partition: int,
        find: Callable[[Shard], Iterable[Found[StateRecord]]],
    ) -> None:
        """Write the records that `find` yields for a shard, piece by piece, as there may be many.

        After a start, very many partitions need this, so they are handled one after the other. If
        some records cannot be written, the rest with the same reason is skipped.
        """
        await self._partitions.when_ready(partition)
        async with self._tidying:
            shard = await self._partitions.when_ready(partition)
            for what, pieces in groupby(find(shard) if shard else (), itemgetter(0)):
                assert shard is not None
                count, is_refused = 0, False
                for _, records in pieces:
                    if records and not is_refused:
                        try:
                            self._writer.write(shard, records)
                            count += len(records)
                        except KafkaError as error:
                            _log.warning(
                                "partition %d: not written: %s: %s", partition, what, error
                            )
                            is_refused = True
                    if (
                        await give_way()
                        and await self._partitions.when_ready(partition) is not shard
                    ):
                        return
                if count:
                    _log.info("partition %d: %d records written: %s", partition, count, what)


def _wanted(buffers: Iterable[Buffer], is_cancelled: IsCancelled) -> Iterator[Buffer]:
    """
    Raises:
        LoadCancelled: `is_cancelled` returned True.
    """
    for buffer in buffers:
        if is_cancelled():
            raise LoadCancelled
        yield buffer
