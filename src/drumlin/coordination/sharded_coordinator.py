"""The base of all coordinators: a topic, and a shard of state for each partition led here.

All of them keep their state by one contract:

    decide -> records -> append -> take over -> answer

A shard decides, in plain synchronous code, and says what it has decided as records. `_write`
appends them and has the shard take them over in the same turn; the answer is given once all in-sync
replicas have them. `_write_confirmed` takes over only then, for decisions that must not be acted on
earlier. After a restart, the same records are loaded.

Which partitions are led, and whether requests are served, is decided here. What is in a shard, and
what is asked of it, is up to the coordinator that builds on this.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Generic, Protocol, TypeVar

from drumlin.clock import Clock
from drumlin.coordination.background import Background
from drumlin.coordination.dropped_state import DroppedState
from drumlin.coordination.pending_answer import Written
from drumlin.coordination.state_batches import (
    Encode,
    base_offset_of,
    check_sizes,
    pack,
    record_bytes_max,
)
from drumlin.coordination.state_log import StateLog
from drumlin.coordination.state_partitions import (
    IsCancelled,
    LoadCancelled,
    StatePartitions,
    partition_for,
)
from drumlin.coordination.state_topic import Confirmation, StateTopic
from drumlin.records.batch import Buffer
from drumlin.storage.verification import NOT_REQUIRED, Verification
from drumlin.turns import Pace, Turns, Work
from drumlin.wire.errors import ErrorCode, KafkaError


class _Shard(Protocol):
    @property
    def partition(self) -> int: ...


Shard = TypeVar("Shard", bound=_Shard)
Loaded = TypeVar("Loaded")
StateRecord = TypeVar("StateRecord")
T = TypeVar("T")

#: What records are for, and the records.
Found = tuple[str, Sequence[StateRecord]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StateForm(Generic[Shard, Loaded, StateRecord]):
    """How a coordinator's shards are made of records, and what they say as records.

    new_shard(partition): an empty shard; its `partition` says which it is.
    load(buffers): what a partition says; called in a thread.
    take_over(shard, loaded): fills the shard; see `StatePartitions`.
    encode(record): its key and value.
    apply(shard, records, first_offset): takes over records that are in the log, from
        `first_offset` on.
    """

    new_shard: Callable[[int], Shard]
    load: Callable[[Iterable[Buffer]], Loaded]
    take_over: Callable[[Shard, Loaded], Iterator[None]]
    encode: Encode[StateRecord]
    apply: Callable[[Shard, Sequence[StateRecord], int], None]


@dataclass(frozen=True, slots=True)
class StateLimits:
    """The part of the configuration that all coordinators have, read anew each time.

    first_partition_count(): how many partitions the topic will have, before it exists.
    timeout_ms(): how long replicas may take to have a record.
    codec(): how batches are compressed, a number of `CODECS`.
    """

    first_partition_count: Callable[[], int]
    timeout_ms: Callable[[], int]
    codec: Callable[[], int]


class ShardedCoordinator(Generic[Shard, Loaded, StateRecord]):
    """A coordinator's shards, what is written of them, and its life.

    Handed in:
        topic: in which the state is kept.
        form: of the shards.
        limits: the part of the configuration that all coordinators have.
        clock: wall time, for records.
        turns: of the loop.
    """

    def __init__(
        self,
        topic: StateTopic,
        form: StateForm[Shard, Loaded, StateRecord],
        limits: StateLimits,
        clock: Clock,
        turns: Turns,
    ) -> None:
        def read(partition: int, is_cancelled: IsCancelled) -> Loaded:
            return form.load(_wanted(topic.read_batches(partition), is_cancelled))

        self._topic, self._form, self._limits = topic, form, limits
        self._clock = clock
        self._log = StateLog(topic, limits.timeout_ms)
        self._partitions = StatePartitions(
            topic.name, form.new_shard, read, form.take_over, self._on_loaded
        )
        self._background = Background()
        self._turns, self._unloading = turns, DroppedState()
        self._tidying = asyncio.Lock()
        self._is_active = False

    # -- life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve; before, requests get COORDINATOR_NOT_AVAILABLE."""
        self._is_active = True

    async def close(self) -> None:
        """Drop all state, and end all waiting requests."""
        self._is_active = False
        for partition in self._partitions.partitions():
            self.resign(partition)
        await self._background.end()
        await self._partitions.close()
        await self._turns.run(self._unloading.go_on())

    def become_leader(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition: its state is loaded in the background."""
        self._partitions.begin(partition, leader_epoch)

    def resign(self, partition: int) -> None:
        """Another broker leads the partition: its state is dropped here."""
        shard = self._partitions.end(partition)
        if shard is not None:
            self._unloading.begin(self._unload(shard))
            self._turns.start(self._unloading.go_on())

    def _unload(self, shard: Shard) -> Work[None]:
        """Free a shard that cannot be found any more."""
        raise NotImplementedError

    def _on_loaded(self, partition: int) -> None:
        """The partition's shard can be asked from now on, or has failed."""

    # -- finding ---------------------------------------------------------------------------

    async def find_partition(self, key: str) -> int:
        """The partition of the topic whose leader is the coordinator of this key.

        Creates the topic if there is none yet.

        Raises:
            KafkaError: it cannot be created.
        """
        if self._topic.partition_count() is None:
            await self._topic.create()
            # It is empty: to wait is cheaper for clients than to come again.
            await self._partitions.when_ready(self._partition_for(key))
        return self._partition_for(key)

    def _partition_for(self, key: str) -> int:
        return partition_for(
            key, self._topic.partition_count() or self._limits.first_partition_count()
        )

    def _check_active(self) -> None:
        """
        Raises:
            KafkaError: COORDINATOR_NOT_AVAILABLE, before the start and after the end.
        """
        if not self._is_active:
            raise KafkaError(ErrorCode.coordinator_not_available)

    # -- writing ---------------------------------------------------------------------------

    def _write(self, shard: Shard, records: Sequence[StateRecord]) -> Confirmation | None:
        """Append the records and take them over; the confirmation of the last, if one is due.

        Only a single batch is written as a whole or not at all, so the records are one batch if
        the topic accepts it. Of several batches the first ones count, though a later one fails.

        Raises:
            KafkaError: the records are not in the log.
        """
        confirmation = None
        for batch, contained in self._packed(shard, records):
            confirmation = self._append(shard, batch)
            self._form.apply(shard, contained, base_offset_of(batch))
        return confirmation

    async def _write_confirmed(
        self, shard: Shard, records: Sequence[StateRecord], reserve_bytes: int = 0
    ) -> None:
        """As `_write`, but the records are taken over once all in-sync replicas have them.

        `reserve_bytes`: a record that is longer by that must fit, too.

        Raises:
            KafkaError: they are not known to be in the log, or it is led elsewhere by now.
        """
        for batch, contained in self._packed(shard, records):
            confirmation = self._append(shard, batch, reserve_bytes=reserve_bytes)
            if confirmation is not None:
                await self._log.confirmed(confirmation)
                self._check_is_ours(shard)
            self._form.apply(shard, contained, base_offset_of(batch))

    def _when_written(self, shard: Shard, records: Sequence[StateRecord], answer: T) -> Written[T]:
        """Write now; `answer` may be given once the records are confirmed."""
        confirmation = self._write(shard, records) if records else None
        return self._log.written(answer, confirmation)

    def _packed(
        self, shard: Shard, records: Sequence[StateRecord]
    ) -> list[tuple[bytearray, list[StateRecord]]]:
        limit, now_ms = self._batch_bytes_max(shard), self._clock.wall_ms()
        batches = pack(
            records,
            self._form.encode,
            now_ms,
            self._limits.codec(),
            bytes_max=record_bytes_max(limit),
        )
        check_sizes([batch for batch, _ in batches], limit)
        return batches

    def _append(
        self,
        shard: Shard,
        batch: bytearray,
        verification: Verification | None = NOT_REQUIRED,
        reserve_bytes: int = 0,
    ) -> Confirmation | None:
        """Append only; the caller then has the shard take the records over.

        Raises:
            KafkaError: it is not in the log. The partition may have moved, and be back here.
        """
        self._check_is_ours(shard)
        return self._log.append(shard.partition, batch, verification, reserve_bytes)

    def _batch_bytes_max(self, shard: Shard) -> int:
        return self._log.batch_bytes_max(shard.partition)

    def _is_ours(self, shard: Shard) -> bool:
        """Whether the shard's partition is still led here, and has been all the time."""
        return self._partitions.find(shard.partition) is shard

    def _check_is_ours(self, shard: Shard) -> None:
        """
        Raises:
            KafkaError: NOT_COORDINATOR.
        """
        if not self._is_ours(shard):
            raise KafkaError(ErrorCode.not_coordinator)

    def _check_leads(self, shard: Shard) -> None:
        """As `_check_is_ours`, and that requests are served.

        Raises:
            KafkaError: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        self._check_active()
        if self._partitions.shard(shard.partition) is not shard:
            raise KafkaError(ErrorCode.not_coordinator)

    # -- chores ----------------------------------------------------------------------------

    async def _write_found(
        self,
        partition: int,
        find: Callable[[Shard], Iterable[Found[StateRecord]]],
        pace: Pace,
    ) -> None:
        """Write what is found in a shard, of which there may be very much, piece by piece.

        After a start very many partitions ask for this: it is done for one after the other. What
        cannot be written stays; others are written all the same.
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
                            self._write(shard, records)
                            count += len(records)
                        except KafkaError as error:
                            _log.warning(
                                "partition %d: not written: %s: %s", partition, what, error
                            )
                            is_refused = True
                    if (
                        await pace.give_way()
                        and await self._partitions.when_ready(partition) is not shard
                    ):
                        return
                if count:
                    _log.info("partition %d: %d records written: %s", partition, count, what)


def _wanted(buffers: Iterable[Buffer], is_cancelled: IsCancelled) -> Iterator[Buffer]:
    """
    Raises:
        LoadCancelled: `is_cancelled` said so.
    """
    for buffer in buffers:
        if is_cancelled():
            raise LoadCancelled
        yield buffer
