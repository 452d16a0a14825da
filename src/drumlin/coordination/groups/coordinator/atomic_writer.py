"""Writes records of more than one batch so that all of them count, or none.

Only a batch is in the log as a whole or not at all. So several batches are a transaction, of a
producer that has no other: loading applies them once the commit marker is there. A broker that dies
in their midst leaves it open; the next leader of the partition aborts it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from drumlin.background import Background
from drumlin.clock import Clock
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.shard.record_registry import encode_record
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.producer_ids import ProducerIds
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.coordination.shards.state_batches import (
    BATCH_BYTES_MAX,
    Producer,
    RecordPacker,
    check_sizes,
    record_bytes_max,
)
from drumlin.coordination.shards.state_topic import Confirmation
from drumlin.storage.producers.control_records import encode_marker
from drumlin.storage.producers.producer_state import TransactionMarker
from drumlin.turns import Work
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log: Final = logging.getLogger(__name__)

#: After an abort that could not be written.
_RETRY_S: Final = 5.0
#: The only coordinator of these transactions is the one that writes the records.
_COORDINATOR_EPOCH: Final = 0


class AtomicWriter:
    """Transactions within a partition of `__consumer_offsets` that is led here.

    Handed in:
        writer, background: the coordinator's.
        clock: wall time, for records.
        producer_ids: a new one for each transaction.
        codec(): how batches are compressed, a number of `CODECS`.
    """

    def __init__(
        self,
        writer: ShardWriter[GroupShard, GroupRecord],
        background: Background,
        clock: Clock,
        producer_ids: ProducerIds,
        codec: Callable[[], int],
    ) -> None:
        self._writer, self._background = writer, background
        self._clock, self._producer_ids, self._codec = clock, producer_ids, codec

    async def new_producer(self) -> Producer:
        """One whose only transaction is the next that is written."""
        return Producer(await self._producer_ids.next_id(), 0)

    def packer(self, shard: GroupShard, producer: Producer) -> RecordPacker[GroupRecord]:
        """Packs the records of one transaction.

        Raises:
            KafkaError: the partition cannot be written to.
        """
        limit = self._writer.led(shard).batch_bytes_max
        # One takes part of a turn to append.
        bytes_max = min(record_bytes_max(limit), BATCH_BYTES_MAX)
        now_ms = self._clock.wall_ms()
        return RecordPacker(
            encode_record, now_ms, self._codec(), bytes_max=bytes_max, if_several=producer
        )

    def append_all(
        self,
        shard: GroupShard,
        batches: list[bytearray],
        producer: Producer,
        check: Callable[[], None],
    ) -> Work[Confirmation | None]:
        """Append the batches of such a packer, one a turn; `check` raises if they must not be.

        All of them count as soon as this returns, in the turn of the last batch. If it raises,
        none of them counts.

        Raises:
            KafkaError: it cannot be written.
            Exception: what `check` raises.
        """
        check_sizes(batches, self._writer.led(shard).batch_bytes_max)
        is_begun, are_several = False, len(batches) > 1

        def begun(_: None, __: int) -> None:
            nonlocal is_begun
            is_begun = are_several

        try:
            confirmation = yield from self._writer.write_batches(
                shard, [(batch, None) for batch in batches], lambda _: check(), begun
            )
            if is_begun:
                confirmation = self._writer.append(shard, self._marker(producer, is_commit=True))
        except BaseException as failure:  # also if the generator is closed midway
            is_over = not is_begun or self._abort(shard, producer)
            if not is_over and isinstance(failure, Exception):
                # No retry: further batches of this producer would belong to the open transaction.
                raise KafkaError(ErrorCode.coordinator_not_available) from failure
            raise
        return confirmation

    def abort_unfinished(self, shard: GroupShard) -> None:
        """End what an earlier leader of the partition has left open."""
        for producer in shard.unfinished:
            self._abort(shard, producer)

    def _abort(self, shard: GroupShard, producer: Producer) -> bool:
        """Whether it is ended; as long as it is open, nothing after it is compacted."""
        if not self._writer.is_ours(shard):
            return True  # the present leader aborts it
        try:
            self._writer.append(shard, self._marker(producer, is_commit=False))
        except KafkaError as error:
            _log.warning("partition %d: no transaction ended: %s", shard.partition, error)
            self._background.spawn(self._abort_later(shard, producer))
            return False
        return True

    async def _abort_later(self, shard: GroupShard, producer: Producer) -> None:
        await asyncio.sleep(_RETRY_S)
        self._abort(shard, producer)

    def _marker(self, producer: Producer, *, is_commit: bool) -> bytearray:
        marker = TransactionMarker(is_commit, _COORDINATOR_EPOCH)
        return encode_marker(marker, *producer, self._clock.wall_ms())
