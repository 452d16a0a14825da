"""Delivers encoded batches to many partitions, with a limit on unacknowledged bytes.

The caller's thread hands batches in and waits while too many bytes are unacknowledged; the loop
delivers. After a failure nothing is left in flight, so that no later call overtakes it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple, NoReturn, Protocol

from drumlin.client.arguments import Acks
from drumlin.client.errors import ClientError, DeliveryFailed, as_delivery_failed
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.topic_partition import TopicPartition
from drumlin.client.write.partition_sender import Batch
from drumlin.client.write.producer import DeliveryMode
from drumlin.peer.produce import Produced
from drumlin.peer.retry import Deadline

BATCH_BYTES: Final = 1_000_000  # just below a broker's max.message.bytes
BUFFER_BYTES: Final = 32 << 20
DELIVERY_TIMEOUT_MS: Final = 120_000
#: Spark's writing tasks have little memory besides this.
WINDOW_BYTES: Final = 8 << 20
#: Batches up to this total size are handed to the loop together.
_TOGETHER_BYTES: Final = 1 << 20


class Target(Protocol):
    """The producer that batches are handed to: a client's or a transaction's."""

    async def partitions(self, topic: str, at_least: int = 0) -> list[int]:
        """The partitions of a topic; refreshes metadata if fewer than `at_least` are known."""

    def put(self, topic: str, partition: int, mode: DeliveryMode, batch: Batch) -> None:
        """Deliver a batch after those put earlier for the same partition."""


class EncodingRules(NamedTuple):
    """The limits and options with which rows are encoded as record batches."""

    batch_bytes: int = BATCH_BYTES
    compression: str = "none"
    compression_level: int | None = None
    window_bytes: int = WINDOW_BYTES
    with_checksum: bool = False


class DeliveryRules(NamedTuple):
    """The options of delivery, and the number of bytes that may be unacknowledged."""

    acks: Acks = "all"
    retries: int | None = None
    timeout_ms: float = DELIVERY_TIMEOUT_MS
    buffer_bytes: int = BUFFER_BYTES
    is_idempotent: bool = True

    @property
    def mode(self) -> DeliveryMode:
        mode = DeliveryMode.of(self.acks, self.retries)
        return mode._replace(is_idempotent=mode.is_idempotent and self.is_idempotent)


class AppendedRange(NamedTuple):
    """The offset range of appended records in one partition. Other records may be in between."""

    first_offset: int
    end_offset: int
    record_count: int


@dataclass(slots=True)
class _Delivery:
    where: TopicPartition
    batch: Batch


@dataclass(slots=True)
class Deliveries:
    """The deliveries of one append: `send` batches, then `finish`; after an error, `settle`."""

    thread: CoreLoop
    target: Target
    rules: DeliveryRules
    size_bytes: int = 0  # of all batches sent
    done: dict[TopicPartition, AppendedRange] = field(default_factory=dict)
    _on_their_way: deque[_Delivery] = field(default_factory=deque)
    _bytes_on_their_way: int = 0
    _held: list[_Delivery] = field(default_factory=list)  # the latest, not yet handed to the loop
    _held_bytes: int = 0

    def send(self, topic: str, partition: int, buffer: memoryview) -> None:
        """Hand a batch to the loop, small ones together, so that they share requests.

        Waits for older ones while too many bytes are unacknowledged.

        Raises:
            DeliveryFailed: an older one was refused permanently, or timed out.
        """
        limit = self.rules.buffer_bytes
        while self._on_their_way and self._bytes_on_their_way + len(buffer) > limit:
            self._await_oldest()
        batch = Batch(buffer, Deadline(self.rules.timeout_ms), retries=self.rules.retries)
        delivery = _Delivery(TopicPartition(topic, partition), batch)
        self._on_their_way.append(delivery)
        self._bytes_on_their_way += len(buffer)
        self.size_bytes += len(buffer)
        self._held.append(delivery)
        self._held_bytes += len(buffer)
        if self._held_bytes >= _TOGETHER_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        if self._held:
            held, self._held, self._held_bytes = self._held, [], 0
            for each in held:  # the timeout does not run while a batch is held here
                each.batch.deadline = Deadline(self.rules.timeout_ms)
            try:
                self.thread.call_soon(_put_all, self.target, self.rules.mode, held)
            except ClientError as error:  # the client is closed
                for each in held:
                    each.batch.done.set_exception(as_delivery_failed(*each.where, error))

    def finish(self) -> dict[TopicPartition, AppendedRange]:
        """Wait for all acknowledgements; returns the offsets of the records.

        Raises:
            DeliveryFailed: as `send`.
        """
        while self._on_their_way:
            self._await_oldest()
        return dict(sorted(self.done.items()))

    @property
    def record_count(self) -> int:
        """Records that were acknowledged."""
        return sum(each.record_count for each in self.done.values())

    def settle(self) -> int:
        """Drop unsent batches, wait for the rest, and return the number of records acknowledged."""
        for _ in self._held:
            self._on_their_way.pop()
        self._held, self._held_bytes = [], 0
        self.thread.wait([each.batch.done for each in self._on_their_way])
        for each in self._on_their_way:
            if each.batch.done.exception() is None:
                self._acknowledged(each, each.batch.done.result())
        self._on_their_way.clear()
        self._bytes_on_their_way = 0
        return self.record_count

    def _await_oldest(self) -> None:
        self._hand_over()
        oldest = self._on_their_way[0]
        try:
            self.thread.wait([oldest.batch.done])
            produced = oldest.batch.done.result()
        except DeliveryFailed as error:
            self._fail(oldest.batch, error)
        self._on_their_way.popleft()
        self._bytes_on_their_way -= len(oldest.batch.buffer)
        self._acknowledged(oldest, produced)

    def _acknowledged(self, delivery: _Delivery, produced: Produced) -> None:
        count = delivery.batch.record_count
        first, end = produced.base_offset, produced.base_offset + count
        before = self.done.get(delivery.where)
        if before is not None:
            first = before.first_offset if before.first_offset >= 0 else first
            count += before.record_count
        if produced.base_offset < 0:
            end = before.end_offset if before else -1
        self.done[delivery.where] = AppendedRange(first, end, count)

    def _fail(self, batch: Batch, error: DeliveryFailed) -> NoReturn:
        """Wait until nothing is in flight, and report the failure."""
        count = batch.record_count
        size = f"{count} {'record' if count == 1 else 'records'}, {len(batch.buffer)} bytes"
        failures = [each.batch.done for each in self._on_their_way]
        acknowledged = self.settle()
        may_be_written = any(
            getattr(each.exception(), "may_be_written", False) for each in failures
        )
        raise DeliveryFailed(
            f"{error} ({size}; {acknowledged} records of this append were written)",
            acknowledged,
            may_be_written=may_be_written,
        ) from error


def _put_all(target: Target, mode: DeliveryMode, deliveries: list[_Delivery]) -> None:
    for each in deliveries:
        target.put(*each.where, mode, each.batch)
