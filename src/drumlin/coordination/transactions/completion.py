"""Completes prepared transactions: writes markers to all partitions, then the final state.

A prepared transaction is always completed: a marker that cannot be written now is retried, also by
the next coordinator and after a restart. The client does not wait.

This code yields to the event loop, as there may be very many partitions. No other code changes a
prepared transaction until it is complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from drumlin.clock import Clock
from drumlin.coordination.transactions.markers import Marker, MarkerWriter, TopicPartition
from drumlin.coordination.transactions.participants import NO_PARTICIPANTS
from drumlin.coordination.transactions.shard import TransactionShard
from drumlin.coordination.transactions.state_writer import StateWriter
from drumlin.coordination.transactions.states import TransactionState
from drumlin.coordination.transactions.transaction import Transaction
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

#: The pauses before failed writes are retried: from the first up to the last, doubling each time.
_FIRST_PAUSE_S: Final = 0.02
_LAST_PAUSE_S: Final = 1.0
#: The size of the largest set of partitions that is changed on the loop, in a small part of a turn;
#: larger sets are changed in a thread.
_AT_ONCE: Final = 500
#: The maximum number of deleted partitions named in one line of the log.
_NAMED_MAX: Final = 20
_UNKNOWN: Final = ErrorCode.unknown_server_error


class Superseded(Exception):
    """Another coordinator completes the transaction, or has completed it."""


class Completion:
    """Completes transactions in the background.

    Args:
        writer: writes states.
        clock: wall time.
        write_markers: writes markers to partitions.
        has_partition(topic, partition): whether this broker knows the partition.
        partition_count(topic): the number of a topic's partitions, 0 if it was deleted, from a
            source that is up to date. Raises `KafkaError` if the number cannot be determined.
        leader_epoch(shard): the leader epoch of the shard's partition: the coordinator's epoch.
            Raises `KafkaError` if another broker leads it.
        spawn: runs a coroutine in the background.
    """

    def __init__(
        self,
        writer: StateWriter,
        clock: Clock,
        write_markers: MarkerWriter,
        has_partition: Callable[[str, int], bool],
        partition_count: Callable[[str], Awaitable[int]],
        leader_epoch: Callable[[TransactionShard], int],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._write_markers = write_markers
        self._has_partition = has_partition
        self._partition_count = partition_count
        self._leader_epoch = leader_epoch
        self._spawn = spawn

    def begin(self, shard: TransactionShard, transaction: Transaction) -> None:
        """Begin to complete a prepared transaction. Until that is done, clients must retry other
        requests for its id.
        """
        transaction.prepare_complete(self._clock.wall_ms())
        self._spawn(self._complete(shard, transaction))

    async def _complete(self, shard: TransactionShard, transaction: Transaction) -> None:
        try:
            await self._mark(shard, transaction)
            await self._write(shard, transaction)
        except Superseded:
            transaction.give_up()

    async def _mark(self, shard: TransactionShard, transaction: Transaction) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            await self._drop_deleted(transaction)
            if not transaction.metadata.partitions:
                return
            marker = await self._marker(shard, transaction)
            try:
                codes = await self._write_markers(marker)
            except Exception as error:  # noqa: BLE001  without an end, readers would wait for ever
                _log.exception("%r: no markers", transaction.transactional_id)
                code = error.code if isinstance(error, KafkaError) else _UNKNOWN
                codes = dict.fromkeys(marker.partitions, code)
            level = logging.INFO if pause_s == _FIRST_PAUSE_S else logging.DEBUG
            if await self._take_over(transaction, marker, codes, level):
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    async def _marker(self, shard: TransactionShard, transaction: Transaction) -> Marker:
        prepared = transaction.metadata
        partitions: list[TopicPartition] = []
        for each in prepared.partitions.in_order():
            partitions.append(each)
            await give_way()
        return Marker(
            prepared.producer_id,
            prepared.producer_epoch,
            self._epoch(shard),
            prepared.state is TransactionState.PREPARE_COMMIT,
            tuple(partitions),
            prepared.client_version,
        )

    def _epoch(self, shard: TransactionShard) -> int:
        """
        Raises:
            Superseded: another broker leads the shard's partition.
        """
        try:
            return self._leader_epoch(shard)
        except KafkaError:
            raise Superseded from None

    async def _drop_deleted(self, transaction: Transaction) -> None:
        """Remove deleted partitions, which need no marker.

        A partition that is unknown to this broker may exist nevertheless: the broker may have been
        isolated, or its metadata may be older than another coordinator's. Without a marker, the
        partition's readers would wait forever.
        """
        unknown = list[TopicPartition]()
        for each in transaction.metadata.partitions:
            if not self._has_partition(*each):
                unknown.append(each)
            await give_way()
        gone = await self._gone(unknown) if unknown else []
        if gone:
            _log.info(
                "%r: no marker for %d partitions that are gone: %s",
                transaction.transactional_id,
                len(gone),
                gone[:_NAMED_MAX],
            )
            await _leave_out(transaction, gone)

    async def _gone(self, unknown: Sequence[TopicPartition]) -> list[TopicPartition]:
        counts: dict[str, int | None] = {}
        gone = list[TopicPartition]()
        for topic, index in unknown:
            if topic not in counts:
                try:
                    counts[topic] = await self._partition_count(topic)
                except KafkaError:
                    counts[topic] = None  # unknown, so the partition is tried again
            count = counts[topic]
            if count is not None and index >= count:
                gone.append((topic, index))
            await give_way()
        return gone

    async def _take_over(
        self,
        transaction: Transaction,
        marker: Marker,
        codes: dict[TopicPartition, ErrorCode],
        level: int,
    ) -> bool:
        """Remove the partitions that have their marker; returns whether all have one. `level`: for
        logging.

        Raises:
            Superseded: a later coordinator has written markers.
        """
        done = list[TopicPartition]()
        again: dict[ErrorCode, int] = {}
        for each in marker.partitions:
            await give_way()
            code = codes.get(each, _UNKNOWN)
            if code is ErrorCode.none:
                done.append(each)
            elif code is ErrorCode.transaction_coordinator_fenced:
                _log.warning("%r: %s: %s", transaction.transactional_id, each, code.name)
                raise Superseded
            elif code is ErrorCode.invalid_producer_epoch:
                # The producer has a later epoch there, so this transaction has ended there already.
                _log.warning("%r: %s: %s", transaction.transactional_id, each, code.name)
                done.append(each)
            else:
                again[code] = again.get(code, 0) + 1
        for code, count in again.items():
            name = transaction.transactional_id
            _log.log(level, "%r: %d partitions have no marker yet: %s", name, count, code.name)
        await _leave_out(transaction, done)
        return not transaction.metadata.partitions

    async def _write(self, shard: TransactionShard, transaction: Transaction) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self._writer.append_again(shard, transaction)
            except KafkaError as error:
                self._epoch(shard)
                name = transaction.transactional_id
                level = logging.WARNING if pause_s == _FIRST_PAUSE_S else logging.DEBUG
                _log.log(level, "%r is complete, which is yet to be noted: %s", name, error)
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)


async def _leave_out(transaction: Transaction, done: list[TopicPartition]) -> None:
    """Remove partitions that have their marker or need none."""
    before = transaction.metadata.partitions
    if len(done) == len(before):  # the usual case: all of them
        left = NO_PARTICIPANTS
    elif len(before) > _AT_ONCE:
        left = await asyncio.to_thread(before.without, done)
    else:
        left = before.without(done)
    transaction.leave(left)
