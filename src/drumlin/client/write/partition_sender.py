"""Delivers record batches to one partition: in order, each exactly once, up to 5 in flight.

An idempotent sender gives every batch a producer id, an epoch and a sequence, so that the broker
recognises a duplicate, and refuses a batch that arrives before its predecessor. After an
error nothing new is sent until everything in flight has been answered. Then

- batches with a retriable error are sent again, in the old order and with the old sequences, so
  that there are no duplicates;
- batches that were refused permanently or have timed out fail. Each leaves a gap in the sequences,
  unless it is in the log after all. Later batches may be in the log, so they keep their sequences.
  Only when the broker reports the gap, or no batch is left that may be in the log, are the others
  sent with the next epoch, from sequence 0.

If the topic does not have the partition (any more), batches fail after a few seconds.

Without idempotence a retry may duplicate or reorder batches; without retries a batch is sent at
most once.

In a transaction there is no next epoch: after a failed batch nothing more is sent. Batches in
flight are still awaited, so that none is left when the transaction ends.

Used in the loop only. All changes of state are plain functions; only recovery awaits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from drumlin.background import look_at
from drumlin.client.errors import ClientError, as_delivery_failed
from drumlin.client.write.too_large import explained, is_too_large, largest_bytes
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.connection import BrokerConnection
from drumlin.peer.peer_error import ConnectionLost
from drumlin.peer.produce import Produced, produced, send_batch
from drumlin.peer.retry import STALE_METADATA, Deadline, backoff_s, is_retriable, is_stale_metadata
from drumlin.records.batch.batch import (
    SEQUENCE_MODULO,
    TRANSACTIONAL_MASK,
    parse_header,
    seal,
    write_header,
)
from drumlin.wire.error_codes import ErrorCode, KafkaError

IN_FLIGHT_MAX: Final = 5  # brokers recognise duplicates among the last 5 batches only
_EPOCH_MAX: Final = 2**15 - 1
#: A new partition is not known to all brokers at once.
_MISSING_MAX_S: Final = 5.0

#: The broker has lost the state of this producer, or never had it.
_FORGOTTEN: Final = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_epoch,
    }
)
#: Errors that a broker may return after it has appended the batch, while it waits for followers
#: or later. All other errors precede the append.
_PERHAPS_WRITTEN: Final = STALE_METADATA | {
    ErrorCode.request_timed_out,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.network_exception,
    ErrorCode.unknown_server_error,
}


@dataclass(slots=True, eq=False)
class Batch:
    """One encoded batch, and the future of its outcome."""

    buffer: bytearray | memoryview
    deadline: Deadline
    done: Future[Produced] = field(default_factory=Future)
    retries: int | None = None  # the maximum number of retries; None: until the deadline
    ordinal: int = 0  # counts the batches of the partition
    sequence: int | None = None  # of its first record, once it was sent
    sends: int = 0
    may_be_written: bool = False  # it was sent, and may be in the log

    @property
    def record_count(self) -> int:
        return parse_header(self.buffer).record_count


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The producer id and epoch by which brokers recognise a duplicate batch."""

    producer_id: int
    epoch: int


class PartitionSender:
    """The sender of one partition; the futures of its batches complete in order."""

    def __init__(
        self,
        connections: BrokerConnections,
        topic: str,
        partition: int,
        acks: int,
        identify: Callable[[ProducerIdentity | None], Awaitable[ProducerIdentity]],
        *,
        is_idempotent: bool,
        transactional_id: str | None = None,
        first_sequence: int = 0,
    ) -> None:
        self._connections = connections
        self._topic = topic
        self._partition = partition
        self._acks = acks
        self._identify = identify
        self._is_idempotent = is_idempotent
        self._transactional_id = transactional_id
        self._ended_by: Exception | None = None  # only in a transaction; nothing is sent after it
        self._identity: ProducerIdentity | None = None
        self._spent_identity: ProducerIdentity | None = None
        self._next_ordinal = 0
        self._next_sequence = first_sequence
        # The broker has acknowledged a batch of this identity, and nothing has failed since.
        self._is_known = False
        # The last batch that failed with its sequence, until a later batch is acknowledged.
        self._gap_ordinal: int | None = None
        self._connection: BrokerConnection | None = None
        self._trouble: Exception | None = None  # the error to recover from before more is sent
        self._missing_since: float | None = None  # when the partition was missed (loop's time)
        self._queue: deque[Batch] = deque()
        self._in_flight: list[Batch] = []
        self._failed: list[tuple[Batch, Exception]] = []
        self._recovery: asyncio.Task[None] | None = None
        self._largest_bytes: int | None = None  # the topic's limit, once a batch was refused

    @property
    def next_sequence(self) -> int:
        """The sequence of the next record to be sent."""
        return self._next_sequence

    def put(self, batch: Batch) -> None:
        """Deliver `batch` after all earlier ones."""
        batch.ordinal = self._next_ordinal
        self._next_ordinal += 1
        self._queue.append(batch)
        self._send_what_may_go()

    def end(self, error: Exception) -> None:
        """Fail unsent batches; those in flight are still awaited."""
        if self._recovery is not None:
            self._recovery.cancel()
        self._ended_by = self._ended_by or error
        self._send_what_may_go()

    def fail_all(self, error: Exception) -> None:
        """Fail all batches that are not acknowledged yet."""
        if self._recovery is not None:
            self._recovery.cancel()
        self._give_up_all(error)

    # -- sending -------------------------------------------------------------------------

    def _send_what_may_go(self) -> None:
        if self._ended_by is not None:
            self._give_up_unsent(self._ended_by)
            return
        self._close_gap()
        while self._may_send:
            self._send(self._queue.popleft())
        # While a batch is in flight, its response or failure will call this method again.
        if (self._queue or self._failed) and not self._in_flight and self._recovery is None:
            self._recovery = asyncio.ensure_future(self._recovering())

    @property
    def _may_send(self) -> bool:
        is_held_up = not self._queue or self._failed or self._recovery is not None
        return not is_held_up and self._is_ready and self._has_window

    @property
    def _has_window(self) -> bool:
        first = self._queue[0]
        if self._gap_ordinal is not None and first.sequence is None:
            return False  # the sequence that the broker expects is unknown
        if not self._in_flight:
            return True
        if self._is_idempotent and not self._is_known:
            # A broker accepts any sequence from a producer that is new to it: the second batch
            # could be written although the first was not.
            return False
        # Counted from the oldest unanswered batch: if it was written and the response was lost,
        # the broker must still recognise the batch when it is sent again.
        return first.ordinal < self._in_flight[0].ordinal + IN_FLIGHT_MAX

    @property
    def _is_ready(self) -> bool:
        has_identity = self._identity is not None or not self._is_idempotent
        is_connected = self._connection is not None and self._connection.is_open
        return has_identity and is_connected and self._trouble is None

    def _send(self, batch: Batch) -> None:
        assert self._connection is not None
        self._in_flight.append(batch)
        try:
            if self._is_idempotent and batch.sequence is None:
                self._stamp(batch)
            answer = send_batch(
                self._connection,
                self._topic,
                self._partition,
                batch.buffer,
                acks=self._acks,
                timeout_ms=self._connections.options.request_timeout_ms,
                transactional_id=self._transactional_id,
            )
        except Exception as error:  # noqa: BLE001 - not sent; the batch's future gets the error
            self._in_flight.remove(batch)
            self._failed.append((batch, error))
        else:
            batch.sends += 1
            answer.add_done_callback(lambda future: self._answered(batch, future))

    def _stamp(self, batch: Batch) -> None:
        assert self._identity is not None
        header = parse_header(batch.buffer)
        mask = 0 if self._transactional_id is None else TRANSACTIONAL_MASK
        header = header._replace(
            attributes=header.attributes | mask,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=self._next_sequence,
        )
        write_header(batch.buffer, 0, header)
        seal(batch.buffer, 0, header.size)
        batch.sequence = self._next_sequence
        self._next_sequence = (self._next_sequence + header.record_count) % SEQUENCE_MODULO

    # -- answers -------------------------------------------------------------------------

    def _answered(self, batch: Batch, answer: asyncio.Future[Any]) -> None:
        if batch not in self._in_flight:  # failed meanwhile
            look_at(answer)
            return
        self._in_flight.remove(batch)
        try:
            self._written(batch, produced(answer.result(), self._topic, self._partition))
        except asyncio.CancelledError:  # the loop ends
            self._give_up(batch, ConnectionLost("the client was closed meanwhile"))
        except Exception as error:  # noqa: BLE001 - the batch's future gets the error
            if _is_duplicate(error):
                self._written(batch, Produced(-1, -1, -1))  # its offset is unknown
            else:
                batch.may_be_written = _may_be_written(batch, error)
                self._failed.append((batch, error))
        self._send_what_may_go()

    def _written(self, batch: Batch, where: Produced) -> None:
        self._is_known = True
        if self._gap_ordinal is not None and batch.ordinal > self._gap_ordinal:
            self._gap_ordinal = None  # a later batch was accepted, so there is no gap
        batch.done.set_result(where)

    # -- failed batches ------------------------------------------------------------------

    def _give_up(self, batch: Batch, error: Exception) -> None:
        if self._transactional_id is not None:
            self._ended_by = self._ended_by or error
        elif batch.sequence is not None:
            self._gap_ordinal = max(batch.ordinal, self._gap_ordinal or 0)
        batch.done.set_exception(
            as_delivery_failed(
                self._topic, self._partition, error, may_be_written=batch.may_be_written
            )
        )

    def _give_up_all(self, error: Exception) -> None:
        for batch in self._in_flight:
            batch.may_be_written = True
        self._failed += [(batch, error) for batch in self._in_flight]
        self._in_flight.clear()
        self._give_up_unsent(error)

    def _give_up_unsent(self, error: Exception) -> None:
        pending = [each for each, _ in self._failed] + list(self._queue)
        self._queue.clear()
        self._failed.clear()
        for batch in pending:
            self._give_up(batch, error)

    def _expire(self, error: Exception) -> None:
        """Fail queued batches: all if `error` is permanent, else those past their deadline."""
        for_good = not is_retriable(error)
        batches, self._queue = self._queue, deque()
        late = [each for each in batches if for_good or each.deadline.is_over]
        self._queue.extend(each for each in batches if each not in late)
        for batch in late:
            self._give_up(batch, error)

    # -- recovery ------------------------------------------------------------------------

    async def _recovering(self) -> None:
        try:
            await self._explain_failed()
            self._sort_failed()
            pauses = backoff_s(self._connections.options)
            while self._queue and self._ended_by is None:
                try:
                    await self._prepare(pauses)
                    break
                except Exception as failure:  # noqa: BLE001 - a retriable error must not fail all
                    self._trouble = failure
                    self._expire(self._missing() if self._is_missing(failure) else failure)
        except Exception as error:  # noqa: BLE001 - a fault of ours; callers that wait must see it
            self._give_up_all(error)
        finally:
            self._recovery = None
        self._send_what_may_go()

    async def _explain_failed(self) -> None:
        """Add the limit to the errors of batches that are too large. Nothing is in flight now."""
        for place, (batch, error) in enumerate(self._failed):
            if isinstance(error, KafkaError) and is_too_large(error):
                size = len(batch.buffer)
                if self._largest_bytes is None or size <= self._largest_bytes:
                    self._largest_bytes = await largest_bytes(self._connections, self._topic)
                why = explained(error, size, batch.record_count, self._largest_bytes)
                self._failed[place] = (batch, why)

    async def _prepare(self, pauses: Iterator[float]) -> None:
        is_stale = self._connection is not None and not self._connection.is_open
        if self._trouble is not None:
            await asyncio.sleep(next(pauses))
            is_stale = is_stale or is_stale_metadata(self._trouble)
        if is_stale or self._topic not in self._connections.view.topics:
            await self._connections.refresh((self._topic,), create_missing=True)
        self._connection = await self._connections.leader(self._topic, self._partition)
        if self._is_idempotent and self._identity is None:
            self._identity = await self._identify(self._spent_identity)
        self._trouble = None
        self._missing_since = None

    def _is_missing(self, failure: Exception) -> bool:
        """Whether the topic has existed without this partition for `_MISSING_MAX_S`."""
        topic = self._connections.view.topics.get(self._topic)
        if not _is_unknown(failure) or topic is None or self._partition in topic.partitions:
            self._missing_since = None
            return False
        now = asyncio.get_running_loop().time()
        if self._missing_since is None:
            self._missing_since = now
        return now - self._missing_since >= _MISSING_MAX_S

    def _missing(self) -> ClientError:
        count = len(self._connections.view.topics[self._topic].partitions)
        why = "was it deleted and created again?"
        return ClientError(f"there is no such partition, the topic has only {count}: {why}")

    def _sort_failed(self) -> None:
        """Fail the batches that cannot be retried, and queue the other failed ones again."""
        if not self._failed:
            return
        failed, self._failed = self._failed, []
        failed.sort(key=lambda each: each[0].ordinal)
        first_error = failed[0][1]
        is_for_good = self._transactional_id is not None and _is_forgotten(first_error)
        again = [each for each in failed if _may_go_again(*each) and not is_for_good]
        self._queue.extendleft(batch for batch, _ in reversed(again))
        for batch, error in failed:
            if (batch, error) not in again:
                self._give_up(batch, error)
        self._is_known = False
        if is_for_good:
            return
        if is_retriable(first_error) or _is_forgotten(first_error):
            self._trouble = first_error
        if _is_forgotten(first_error):
            # All earlier batches are acknowledged or not in the log, so no later one is in the log.
            self._begin_epoch()

    def _close_gap(self) -> None:
        """Continue with the next epoch, unless a queued batch may be in the log with this one."""
        if self._gap_ordinal is None or self._in_flight or self._failed:
            return
        if not any(each.may_be_written for each in self._queue):
            self._begin_epoch()

    def _begin_epoch(self) -> None:
        for batch in self._queue:
            batch.sequence = None
            batch.may_be_written = False
        self._next_sequence = 0
        self._is_known = False
        self._gap_ordinal = None
        if self._identity is None:
            return
        if self._identity.epoch == _EPOCH_MAX:
            self._spent_identity, self._identity = self._identity, None
        else:
            self._identity = ProducerIdentity(self._identity.producer_id, self._identity.epoch + 1)


def _is_forgotten(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code in _FORGOTTEN


def _is_unknown(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code is ErrorCode.unknown_topic_or_partition


def _is_duplicate(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code is ErrorCode.duplicate_sequence_number


def _may_be_written(batch: Batch, error: Exception) -> bool:
    """Whether a batch may be in the log although it was answered with `error`."""
    if not isinstance(error, KafkaError) or error.code in _PERHAPS_WRITTEN:
        return True
    # Only these errors say that the broker did not find the sequence. After other errors an earlier
    # attempt may have been written.
    is_looked_for = error.code in _FORGOTTEN and error.code is not ErrorCode.invalid_producer_epoch
    return batch.may_be_written and not is_looked_for


def _may_go_again(batch: Batch, error: Exception) -> bool:
    if batch.deadline.is_over or (batch.retries is not None and batch.sends > batch.retries):
        return False
    # With another epoch the broker would not recognise the duplicate.
    is_safe = not _is_forgotten(error) or not batch.may_be_written
    return is_safe and (is_retriable(error) or _is_forgotten(error))
