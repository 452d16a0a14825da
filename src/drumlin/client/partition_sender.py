"""Delivering record batches to one partition: in order, each exactly once, up to 5 in flight.

With acks=all every batch carries producer id, epoch and sequence, so that the broker knows a
batch it has seen, and refuses one that comes before its predecessor. After an error nothing
new is sent until all that is in flight has been answered. Then

- what may pass is sent again, in the old order and with the old sequences: no duplicates;
- what was refused for good is reported. It leaves a gap in the sequences, so the rest goes on
  under the next epoch, from sequence 0. The same where the broker forgot the producer.

Without acks=all there are no sequences: a retry may repeat or reorder batches.

Lives in the loop. All changes of state are plain functions; only recovery waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from drumlin.client.errors import DeliveryFailed
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.connection import BrokerConnection
from drumlin.peer.produce import Produced, produced, send_batch
from drumlin.peer.retry import Deadline, backoff_s, is_retriable, is_stale_metadata
from drumlin.records.batch import SEQUENCE_MODULO, parse_header, seal, write_header
from drumlin.wire.errors import ErrorCode, KafkaError

IN_FLIGHT_MAX: Final = 5  # more than 5 and brokers cannot tell duplicates
ACKS_ALL: Final = -1
_EPOCH_MAX: Final = 2**15 - 1

#: The broker has lost, or never had, what it should know of this producer.
_FORGOTTEN: Final = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_epoch,
    }
)


@dataclass(slots=True, eq=False)
class Batch:
    """One encoded batch on its way, and the future that tells what became of it."""

    buffer: bytearray | memoryview
    deadline: Deadline
    done: Future[Produced] = field(default_factory=Future)
    ordinal: int = 0  # its place among the batches of the partition
    sequence: int | None = None  # of its first record, once it was sent

    @property
    def record_count(self) -> int:
        return parse_header(self.buffer).record_count


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """What makes batches of this producer recognisable to brokers."""

    producer_id: int
    epoch: int


class PartitionSender:
    """`put` batches; their futures are completed in the order of the partition."""

    def __init__(
        self,
        connections: BrokerConnections,
        topic: str,
        partition: int,
        acks: int,
        identify: Callable[[ProducerIdentity | None], Awaitable[ProducerIdentity]],
    ) -> None:
        self._connections = connections
        self._topic = topic
        self._partition = partition
        self._acks = acks
        self._identify = identify
        self._identity: ProducerIdentity | None = None
        self._spent_identity: ProducerIdentity | None = None
        self._next_ordinal = 0
        self._next_sequence = 0
        self._is_known = False  # the broker has acknowledged a batch of this identity
        self._connection: BrokerConnection | None = None
        self._queue: deque[Batch] = deque()
        self._in_flight: list[Batch] = []
        self._failed: list[tuple[Batch, Exception]] = []
        self._recovery: asyncio.Task[None] | None = None

    @property
    def is_idempotent(self) -> bool:
        return self._acks == ACKS_ALL

    def put(self, batch: Batch) -> None:
        """Deliver `batch` behind all that were put before."""
        batch.ordinal = self._next_ordinal
        self._next_ordinal += 1
        self._queue.append(batch)
        self._send_what_may_go()

    def fail_all(self, error: Exception) -> None:
        """Give up everything that is not delivered yet."""
        if self._recovery is not None:
            self._recovery.cancel()
        pending = [each for each, _ in self._failed] + self._in_flight + list(self._queue)
        self._queue.clear()
        self._in_flight.clear()
        self._failed.clear()
        for batch in pending:
            batch.done.set_exception(error)

    # -- sending -------------------------------------------------------------------------

    def _send_what_may_go(self) -> None:
        while self._may_send:
            self._send(self._queue.popleft())
        # As long as something is in flight, its answer or its failure will bring us here again.
        if (self._queue or self._failed) and not self._in_flight and self._recovery is None:
            self._recovery = asyncio.ensure_future(self._recovering())

    @property
    def _may_send(self) -> bool:
        is_held_up = not self._queue or self._failed or self._recovery is not None
        return not is_held_up and self._is_ready and self._has_window

    @property
    def _has_window(self) -> bool:
        if not self._in_flight:
            return True
        if self.is_idempotent and not self._is_known:
            # A broker takes any sequence from a producer that is new to it: a second batch could
            # be written although the first was not.
            return False
        # Counted from the oldest batch without an answer, not by their number: if that one was
        # written and its answer lost, the broker must still know it when it comes again.
        return self._queue[0].ordinal < self._in_flight[0].ordinal + IN_FLIGHT_MAX

    @property
    def _is_ready(self) -> bool:
        has_identity = self._identity is not None or not self.is_idempotent
        return has_identity and self._connection is not None and self._connection.is_open

    def _send(self, batch: Batch) -> None:
        assert self._connection is not None
        if self.is_idempotent and batch.sequence is None:
            self._stamp(batch)
        self._in_flight.append(batch)
        try:
            answer = send_batch(
                self._connection,
                self._topic,
                self._partition,
                batch.buffer,
                acks=self._acks,
                timeout_ms=self._connections.options.request_timeout_ms,
            )
        except Exception as error:  # noqa: BLE001 - see `_answered`
            self._settle(batch, error)
        else:
            answer.add_done_callback(lambda future: self._answered(batch, future))

    def _stamp(self, batch: Batch) -> None:
        assert self._identity is not None
        batch.sequence = self._next_sequence
        header = parse_header(batch.buffer)._replace(
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=batch.sequence,
        )
        write_header(batch.buffer, 0, header)
        seal(batch.buffer, 0, header.size)
        self._next_sequence = (self._next_sequence + header.record_count) % SEQUENCE_MODULO

    # -- answers -------------------------------------------------------------------------

    def _answered(self, batch: Batch, answer: asyncio.Future[Any]) -> None:
        if batch not in self._in_flight:  # given up meanwhile
            return
        outcome: Produced | Exception
        try:
            outcome = produced(answer.result(), self._topic, self._partition)
        except Exception as error:  # noqa: BLE001 - whatever it is, the batch's future tells
            outcome = error
        self._settle(batch, outcome)

    def _settle(self, batch: Batch, outcome: Produced | Exception) -> None:
        self._in_flight.remove(batch)
        if isinstance(outcome, Produced):
            self._is_known = True
            batch.done.set_result(outcome)
        elif _is_duplicate(outcome):
            batch.done.set_result(Produced(-1, -1, -1))  # written; nobody knows where any more
        else:
            self._failed.append((batch, outcome))
        self._send_what_may_go()

    # -- recovery ------------------------------------------------------------------------

    async def _recovering(self) -> None:
        pauses = backoff_s(self._connections.options)
        error: Exception | None = self._sort_failed()
        while True:
            try:
                if error is not None and self._queue:
                    await asyncio.sleep(next(pauses))
                    if is_stale_metadata(error):
                        await self._connections.refresh((self._topic,), create_missing=True)
                if self._queue:
                    await self._prepare()
                break
            except Exception as failure:  # noqa: BLE001 - what is no passing error ends them all
                error = failure
                self._expire(failure)
        self._recovery = None
        self._send_what_may_go()

    async def _prepare(self) -> None:
        if self.is_idempotent and self._identity is None:
            self._identity = await self._identify(self._spent_identity)
        if self._topic not in self._connections.view.topics:
            await self._connections.refresh((self._topic,), create_missing=True)
        self._connection = await self._connections.leader(self._topic, self._partition)

    def _sort_failed(self) -> Exception | None:
        """Report what failed for good, queue the rest anew; gives the error to recover from."""
        failed, self._failed = self._failed, []
        failed.sort(key=lambda each: each[0].ordinal)
        again: list[Batch] = []
        has_gap = bool(failed) and _is_forgotten(failed[0][1])
        for batch, error in failed:
            if _may_pass(error) and not batch.deadline.is_over:
                again.append(batch)
            else:
                has_gap = True
                batch.done.set_exception(self._delivery_failed(error))
        if has_gap:
            self._begin_epoch(again)
        self._queue.extendleft(reversed(again))
        return failed[0][1] if failed else None

    def _begin_epoch(self, again: list[Batch]) -> None:
        for batch in again:
            batch.sequence = None
        self._next_sequence = 0
        self._is_known = False
        if self._identity is None:
            return
        if self._identity.epoch == _EPOCH_MAX:
            self._spent_identity, self._identity = self._identity, None
        else:
            self._identity = ProducerIdentity(self._identity.producer_id, self._identity.epoch + 1)

    def _expire(self, error: Exception) -> None:
        """Give up what cannot be sent: at once if `error` is for good, else when it is late."""
        for_good = not is_retriable(error)
        late: list[Batch] = []
        waiting: list[Batch] = []
        for batch in self._queue:
            (late if for_good or batch.deadline.is_over else waiting).append(batch)
        if any(batch.sequence is not None for batch in late):
            self._begin_epoch(waiting)
        self._queue = deque(waiting)
        for batch in late:
            batch.done.set_exception(self._delivery_failed(error))

    def _delivery_failed(self, error: Exception) -> DeliveryFailed:
        where = f"topic {self._topic!r} partition {self._partition}"
        failure = DeliveryFailed(f"{where}: {error}")
        failure.__cause__ = error
        return failure


def _is_forgotten(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code in _FORGOTTEN


def _is_duplicate(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code is ErrorCode.duplicate_sequence_number


def _may_pass(error: Exception) -> bool:
    return is_retriable(error) or _is_forgotten(error)
