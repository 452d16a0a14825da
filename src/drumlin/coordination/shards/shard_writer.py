"""Writes what the shards of a coordinator have decided, by one contract:

    decide -> records -> append -> take over -> answer

A shard decides, in plain synchronous code, and says what it has decided as records. They are
appended here, and the shard takes them over in the turn of the append. The answer is given once all
in-sync replicas have them. Whatever is appended, `write_batches_at_once` does it.

It owns the order of these steps. It never decides what is written, and never lets others have their
turn between a check and the append that the check is for.
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
    """Writes to the partitions of a coordinator's topic that are led here.

    Handed in:
        topic: in which the state is kept.
        log: what is appended to it, until replicas have it.
        partitions: which are led here, and their shards.
        form: how records are encoded and taken over.
        limits: how batches are compressed.
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
        """Append the records and take them over; the confirmation of the last, if one is due.

        Only a single batch is written as a whole or not at all, so the records are one batch if
        the topic accepts it. Of several batches the first ones count, though a later one fails.

        Raises:
            KafkaError: the records are not in the log.
        """
        led, take_over = self.led(shard), partial(self._apply, shard)
        batches = self._packed(led, records)
        return self.write_batches_at_once(shard, batches, take_over, led=led)

    def write_as_one(self, shard: Shard, records: Iterable[StateRecord]) -> Confirmation | None:
        """Like `write`, but all records are written, or none: they are one batch.

        Raises:
            TooLarge: there is more than the topic takes as one batch.
            KafkaError: as `write`.
        """
        led = self.led(shard)
        packer = self._packer(led)
        for record in records:  # they are made one by one, and no more than one batch takes
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
        """Append batches, each with what it says, and take each over; all in this turn.

        `take_over` is given what a batch says, and the offset of its first record. `verification`
        is what the coordinator of a client's transaction was asked with. A batch is refused, too,
        if one that is longer by `reserve_bytes` would not fit. `led`: the shard's partition, if it
        was looked up in this turn.

        Returns the confirmation of the last, if one is due.

        Raises:
            KafkaError: one is not in the log, while those before it are, and are taken over.
        """
        if led is None:
            led = self.led(shard)
        confirmation = None
        for batch, said in batches:
            try:
                led.append_internal(batch, self._clock.wall_ms(), verification, reserve_bytes)
            except KafkaError as error:
                raise as_told(error) from error
            confirmation = self._log.confirm(led) if led.awaits_confirmation else None
            take_over(said, base_offset_of(batch))
        return confirmation

    def when_written(self, shard: Shard, records: Sequence[StateRecord], answer: T) -> Written[T]:
        """Write now; `answer` may be given once the records are confirmed.

        Raises:
            KafkaError: as `write`.
        """
        confirmation = self.write(shard, records) if records else None
        return self._log.written(answer, confirmation)

    async def write_confirmed(
        self, shard: Shard, records: Sequence[StateRecord], reserve_bytes: int = 0
    ) -> None:
        """Like `write`, but the records are taken over once all in-sync replicas have them.

        For decisions that must not be acted on earlier. `reserve_bytes`: a record that is longer
        by that must fit, too.

        Raises:
            KafkaError: they are not known to be in the log, or it is led elsewhere by now.
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
        """Like `write_batches_at_once`, but before each batch others have their turn.

        Then `check` raises if it may not be written any more. A batch that is refused is the last;
        `is_part_enough(error)`: whether to return then, as those before it count, and not to raise.

        Raises:
            KafkaError: one is not in the log, while those before it are, and are taken over.
            Exception: what `check` raises; likewise.
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

        `last()` is called when they are appended: it gives the records that end them, and what
        `take_over` takes over of all of them.

        Raises:
            KafkaError: as `write`, and as `last`.
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
            self._apply(shard, written, 0)  # the memory says what the log does
            raise
        take_over(result)
        return confirmation

    # -- the log ---------------------------------------------------------------------------

    def append(self, shard: Shard, batch: bytearray, reserve_bytes: int = 0) -> Confirmation | None:
        """Append a batch whose records are taken over later, or have been; see `write_batches`.

        Raises:
            KafkaError: it is not in the log. The partition may have moved, and be back here.
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

    def _packer(self, led: LedPartition) -> RecordPacker[StateRecord]:
        bytes_max = record_bytes_max(led.batch_bytes_max)
        return RecordPacker(self._encode, self._clock.wall_ms(), self._codec(), bytes_max=bytes_max)

    # -- whether it is led here ------------------------------------------------------------

    def led(self, shard: Shard) -> LedPartition:
        """The shard's partition, for what is done in this turn.

        Raises:
            KafkaError: NOT_COORDINATOR, or whatever else says that it cannot be written to.
        """
        self.check_is_ours(shard)
        try:
            return self._topic.find(shard.partition)
        except KafkaError as error:
            raise as_told(error) from error

    def is_ours(self, shard: Shard) -> bool:
        """Whether the shard's partition is still led here, and has been all the time."""
        return self._partitions.find(shard.partition) is shard

    def check_is_ours(self, shard: Shard) -> None:
        """
        Raises:
            KafkaError: NOT_COORDINATOR.
        """
        if self._partitions.find(shard.partition) is not shard:
            raise KafkaError(ErrorCode.not_coordinator)

    def check_leads(self, shard: Shard) -> None:
        """Like `check_is_ours`, and that requests are served.

        Raises:
            KafkaError: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        self._check_active()
        if self._partitions.shard(shard.partition) is not shard:
            raise KafkaError(ErrorCode.not_coordinator)
