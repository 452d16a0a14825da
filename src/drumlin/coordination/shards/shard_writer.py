"""Writes the decisions of a coordinator's shards, in this order:

    decide -> records -> append -> apply -> answer

A shard decides in plain synchronous code, and returns the decision as records. This file appends
the records, and the shard applies them in the same turn. The answer is given once all in-sync
replicas have the records. All appends are made by `write_batches_at_once`.

This file owns the order of these steps. It never decides what to write, and never yields between a
check and the append that relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic

from drumlin.clock import Clock
from drumlin.coordination.shards.log_errors import TooLarge, as_told
from drumlin.coordination.shards.pending_answer import Written
from drumlin.coordination.shards.state_batches import (
    RecordPacker,
    base_offset_of,
    check_sizes,
    record_bytes_max,
)
from drumlin.coordination.shards.state_form import Shard, StateForm, StateLimits, StateRecord
from drumlin.coordination.shards.state_log import StateLog
from drumlin.coordination.shards.state_partitions import StatePartitions
from drumlin.coordination.shards.state_topic import Confirmation, LedPartition, StateTopic
from drumlin.storage.producers.verification import NOT_REQUIRED, Verification
from drumlin.turns import T, give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError


class ShardWriter(Generic[Shard, StateRecord]):
    """Writes to the partitions of a coordinator's topic that this broker leads.

    Args:
        topic: the topic that keeps the state.
        log: the appended records, until replicas have them.
        partitions: the partitions that this broker leads, and their shards.
        form: the functions that encode and apply records.
        limits: the compression of batches.
        clock: wall time, for records.
        check_active(): raises `KafkaError` while requests are not served.
    """

    def __init__(
        self,
        topic: StateTopic,
        log: StateLog,
        partitions: StatePartitions[Shard, Any],
        form: StateForm[Shard, Any, StateRecord],
        limits: StateLimits,
        clock: Clock,
        check_active: Callable[[], None],
    ) -> None:
        self._topic, self._log, self._partitions = topic, log, partitions
        self._encode, self._apply = form.encode, form.apply
        self._codec, self._clock, self._check_active = limits.codec, clock, check_active

    # -- at once ---------------------------------------------------------------------------

    def write(self, shard: Shard, records: Sequence[StateRecord]) -> Confirmation | None:
        """Append and apply records; returns the confirmation of the last record, if needed.

        Only a single batch is atomic, so the records form one batch if possible. If there are
        several batches, the first ones take effect even if a later one fails.

        Raises:
            KafkaError: the records are not in the log.
        """
        led, take_over = self.led(shard), partial(self._apply, shard)
        batches = self._packed(led, records)
        return self.write_batches_at_once(shard, batches, take_over, led=led)

    def write_as_one(self, shard: Shard, records: Iterable[StateRecord]) -> Confirmation | None:
        """Like `write`, but the records are one batch: all are written, or none.

        Raises:
            TooLarge: the records do not fit into one batch.
            KafkaError: as `write`.
        """
        led = self.led(shard)
        packer = self._packer(led)
        for record in records:  # generates records only until one batch is full
            packer.add(record)
            if packer.is_several:
                raise TooLarge
        batches, take_over = packer.batches(), partial(self._apply, shard)
        return self.write_batches_at_once(shard, batches, take_over, led=led)

    def write_batches_at_once(
        self,
        shard: Shard,
        batches: Iterable[tuple[bytearray, T]],
        take_over: Callable[[T, int], None],
        verification: Verification | None = NOT_REQUIRED,
        reserve_bytes: int = 0,
        led: LedPartition | None = None,
    ) -> Confirmation | None:
        """Append each of these batches, and apply its content, all in this turn.

        `take_over` is called with the content of a batch and the offset of its first record.
        `verification`: the transaction coordinator's verification of a client's transaction.
        `reserve_bytes`: a batch is refused if it would be too large with this many more bytes.
        `led`: the shard's partition, if the caller has looked it up in this turn.

        Returns the confirmation of the last batch, if needed.

        Raises:
            KafkaError: a batch was not appended; those before it were appended and applied.
        """
        if led is None:
            led = self.led(shard)
        confirmation = None
        for batch, content in batches:
            try:
                led.append_internal(batch, self._clock.wall_ms(), verification, reserve_bytes)
            except KafkaError as error:
                raise as_told(error) from error
            confirmation = self._log.confirm(led) if led.awaits_confirmation else None
            take_over(content, base_offset_of(batch))
        return confirmation

    def when_written(self, shard: Shard, records: Sequence[StateRecord], answer: T) -> Written[T]:
        """Write now; returns `answer`, which is given once the records are confirmed.

        Raises:
            KafkaError: as `write`.
        """
        confirmation = self.write(shard, records) if records else None
        return self._log.written(answer, confirmation)

    async def write_confirmed(
        self, shard: Shard, records: Sequence[StateRecord], reserve_bytes: int = 0
    ) -> None:
        """Like `write`, but the records are applied once all in-sync replicas have them.

        For decisions that must not take effect earlier. `reserve_bytes`: the write is refused if
        the batch would be too large with this many more bytes.

        Raises:
            KafkaError: the records are perhaps not in the log, or the partition has moved.
        """
        for batch, contained in self._packed(self.led(shard), records):
            confirmation = self.append(shard, batch, reserve_bytes)
            if confirmation is not None:
                await self._log.confirmed(confirmation)
                self.check_is_ours(shard)
            self._apply(shard, contained, base_offset_of(batch))

    # -- in turns --------------------------------------------------------------------------

    async def write_batches(
        self,
        shard: Shard,
        batches: Iterable[tuple[bytearray, T]],
        check: Callable[[T], None],
        take_over: Callable[[T, int], None],
        verification: Verification | None = NOT_REQUIRED,
        is_part_enough: Callable[[KafkaError], bool] = lambda _: False,
    ) -> Confirmation | None:
        """Like `write_batches_at_once`, but yields to the event loop before each batch.

        Before each append, `check` raises if the batch may no longer be written. Writing ends with
        the first batch that is refused. `is_part_enough(error)`: whether to return then instead of
        raising, since the earlier batches are valid without the rest.

        Raises:
            KafkaError: a batch was not appended; those before it were appended and applied.
            Exception: an exception of `check`; earlier batches as above.
        """
        confirmation = None
        for each in batches:
            try:
                await give_way()
                check(each[1])
                confirmation = self.write_batches_at_once(shard, [each], take_over, verification)
            except KafkaError as refusal:
                if is_part_enough(refusal):
                    break
                raise
        return confirmation

    async def write_in_turns(
        self,
        shard: Shard,
        records: Iterable[StateRecord],
        last: Callable[[], tuple[Sequence[StateRecord], T]],
        take_over: Callable[[T], None],
    ) -> Confirmation | None:
        """Like `write`, for very many records that take effect together.

        Before the append, `last()` is called. It returns the last records, and the value that is
        passed to `take_over` once all records are appended.

        Raises:
            KafkaError: as `write`, or as `last`.
        """
        packer = self._packer(self.led(shard))
        for record in records:
            packer.add(record)
            await give_way()
        self.check_leads(shard)
        ends, result = last()
        for record in ends:
            packer.add(record)
        led, batches, written = self.led(shard), packer.batches(), list[StateRecord]()
        check_sizes([batch for batch, _ in batches], led.batch_bytes_max)
        try:
            confirmation = self.write_batches_at_once(
                shard, batches, lambda contained, _: written.extend(contained), led=led
            )
        except KafkaError:
            self._apply(shard, written, 0)  # memory follows the log
            raise
        take_over(result)
        return confirmation

    # -- the log ---------------------------------------------------------------------------

    def append(self, shard: Shard, batch: bytearray, reserve_bytes: int = 0) -> Confirmation | None:
        """Append a batch whose records are applied separately; see `write_batches`.

        Raises:
            KafkaError: the batch was not appended. The partition may have moved away and back.
        """
        one = [(batch, None)]
        return self.write_batches_at_once(shard, one, lambda *_: None, reserve_bytes=reserve_bytes)

    def _packed(
        self, led: LedPartition, records: Sequence[StateRecord]
    ) -> list[tuple[bytearray, list[StateRecord]]]:
        packer = self._packer(led)
        for record in records:
            packer.add(record)
        batches = packer.batches()
        check_sizes([batch for batch, _ in batches], led.batch_bytes_max)
        return batches

    def packer(self, shard: Shard) -> RecordPacker[StateRecord]:
        """Packs records for the shard's partition; see `write_batches_at_once`.

        Raises:
            KafkaError: NOT_COORDINATOR, or another error if the partition cannot be written to.
        """
        return self._packer(self.led(shard))

    def _packer(self, led: LedPartition) -> RecordPacker[StateRecord]:
        bytes_max = record_bytes_max(led.batch_bytes_max)
        return RecordPacker(self._encode, self._clock.wall_ms(), self._codec(), bytes_max=bytes_max)

    # -- leadership ------------------------------------------------------------------------

    def led(self, shard: Shard) -> LedPartition:
        """The shard's partition, valid in this turn.

        Raises:
            KafkaError: NOT_COORDINATOR, or another error if the partition cannot be written to.
        """
        self.check_is_ours(shard)
        try:
            return self._topic.find(shard.partition)
        except KafkaError as error:
            raise as_told(error) from error

    def is_ours(self, shard: Shard) -> bool:
        """Whether this broker has led the shard's partition without interruption."""
        return self._partitions.find(shard.partition) is shard

    def check_is_ours(self, shard: Shard) -> None:
        """
        Raises:
            KafkaError: NOT_COORDINATOR.
        """
        if self._partitions.find(shard.partition) is not shard:
            raise KafkaError(ErrorCode.not_coordinator)

    def check_leads(self, shard: Shard) -> None:
        """Like `check_is_ours`, and also checks that requests are served.

        Raises:
            KafkaError: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        self._check_active()
        if self._partitions.shard(shard.partition) is not shard:
            raise KafkaError(ErrorCode.not_coordinator)
