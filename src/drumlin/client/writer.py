"""Records one by one, collected into batches by bytes, count and time.

`Writer.send` puts a record into the open batch of its partition and returns at once. A batch
is closed when it is full, when it has been open for `linger_ms`, or on `flush`. What is open
or on its way counts against `buffer_bytes`: when that is used up, `send` waits. So a writer
trades memory and latency for throughput within limits that its owner sets.

One lock guards the open batches. Callers hold it while they add a record or close a batch,
the loop's thread when a batch has lingered; both hand closed batches to the loop under it, so
that they arrive there in order.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from drumlin.client.errors import BufferFull, ClientError, RequestTimedOut
from drumlin.client.loop_thread import LoopThread
from drumlin.client.open_batch import (
    HEADER_OVERHEAD,
    RECORD_OVERHEAD,
    Delivered,
    Delivery,
    Headers,
    OpenBatch,
)
from drumlin.client.partition_sender import Batch
from drumlin.client.producer import Acks, Producer
from drumlin.peer.retry import Deadline
from drumlin.records.plain_columns import murmur2_plain

#: Given a key and the number of partitions, the partition.
Partitioner = Callable[[bytes | None, int], int]


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """Limits and habits of a writer.

    batch_bytes: a batch is closed when it holds this much (before compression).
    linger_ms: how long a batch waits for more records.
    max_records: a batch is closed when it holds this many records; None for no such limit.
    buffer_bytes: how much may be waiting or on its way before `send` waits.
    max_block_ms: how long `send` waits then before it raises `BufferFull`.
    delivery_timeout_ms: how long to go on trying to write a batch.
    partitioner: chooses partitions in place of Kafka's hash of the key.
    on_delivery: called for each record, in the client's own thread, with what became of it:
        (Delivered, None) or (None, error). It must return quickly.
    """

    batch_bytes: int = 64 * 1024
    linger_ms: float = 10
    max_records: int | None = None
    buffer_bytes: int = 32 << 20
    max_block_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    compression: str = "none"
    acks: Acks = "all"
    partitioner: Partitioner | None = None
    on_delivery: Callable[[Delivered | None, BaseException | None], None] | None = None


class Writer:
    """Made by `Client.writer`. Thread-safe. Use it as a context manager, or `close` it.

    It writes to the partitions that the topic had when it was made.
    """

    def __init__(
        self, thread: LoopThread, producer: Producer, topic: str, options: WriterOptions
    ) -> None:
        self._thread = thread
        self._producer = producer
        self._topic = topic
        self._options = options
        self._partitions = thread.run(producer.partitions(topic))
        self._lock = threading.Condition()
        self._open: dict[int, OpenBatch] = {}
        self._sticky = random.choice(self._partitions)
        self._buffered_bytes = 0
        self._unsettled = 0  # batches that are open or on their way
        self._acknowledged = 0  # records
        self._failure: BaseException | None = None
        self._is_closed = False

    def send(
        self,
        value: bytes | str | None,
        key: bytes | str | None = None,
        headers: Headers | Mapping[str, bytes | None] | None = None,
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Take a record; it is written soon. Strings are written as UTF-8.

        Args:
            timestamp: milliseconds since 1970; now, by default.
            partition: by default the partitioner chooses: by the key, or for records without
                one the same partition for a whole batch.

        Raises:
            BufferFull: the brokers did not take enough off the buffer within `max_block_ms`.
        """
        if isinstance(value, str):
            value = value.encode()
        if isinstance(key, str):
            key = key.encode()
        size_bytes = RECORD_OVERHEAD + len(value or b"") + len(key or b"")
        pairs: Headers = ()
        if headers:
            pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
            size_bytes += sum(
                HEADER_OVERHEAD + len(name) + len(each or b"") for name, each in pairs
            )
        if timestamp is None:
            timestamp = time.time_ns() // 1_000_000
        with self._lock:
            if self._is_closed:
                raise ClientError("this writer is closed")
            if not self._has_room(size_bytes):
                self._wait_for_room(size_bytes)
            if partition is None:
                partition = self._choose_partition(key)
            batch = self._open.get(partition)
            if batch is None or batch.room_bytes < size_bytes:
                batch = self._next_batch(partition)
            delivery = batch.add(size_bytes, key, value, pairs, timestamp)
            self._buffered_bytes += size_bytes
            if batch.room_bytes < RECORD_OVERHEAD or batch.room_records == 0:
                self._close_batch(batch)
        return delivery

    @property
    def acknowledged(self) -> int:
        """How many records have been written; with `acks="none"`, sent."""
        return self._acknowledged

    def flush(self, timeout_ms: float | None = None) -> None:
        """Write everything that was sent so far, and wait until it is acknowledged.

        Raises:
            DeliveryFailed: a record since the last flush was not written, and there is no
                `on_delivery` that was told.
            RequestTimedOut: it takes longer than `timeout_ms`.
        """
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        with self._lock:
            self._close_batches()
            if not self._lock.wait_for(lambda: self._unsettled == 0, timeout_s):
                raise RequestTimedOut(f"{self._unsettled} batches on their way still")
            failure, self._failure = self._failure, None
        if failure is not None and self._options.on_delivery is None:
            raise failure

    def close(self) -> None:
        """Flush, and take no more. Raises as `flush` does."""
        if not self._is_closed:
            self._is_closed = True
            self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- under the lock ------------------------------------------------------------------

    def _has_room(self, size_bytes: int) -> bool:
        # A record larger than the whole buffer goes alone.
        room = self._options.buffer_bytes - self._buffered_bytes
        return size_bytes <= room or self._buffered_bytes == 0

    def _wait_for_room(self, size_bytes: int) -> None:
        self._close_batches()
        timeout_ms = self._options.max_block_ms
        if not self._lock.wait_for(lambda: self._has_room(size_bytes), timeout_ms / 1000):
            full = f"{self._options.buffer_bytes} bytes of buffer were full for {timeout_ms} ms"
            raise BufferFull(f"topic {self._topic!r}: {full}")

    def _choose_partition(self, key: bytes | None) -> int:
        if self._options.partitioner is not None:
            return self._options.partitioner(key, len(self._partitions))
        if key is None:
            return self._sticky
        return self._partitions[murmur2_plain(key) % len(self._partitions)]

    def _next_batch(self, partition: int) -> OpenBatch:
        full = self._open.get(partition)
        if full is not None:
            self._close_batch(full)
        if partition not in self._partitions:
            raise ValueError(f"topic {self._topic!r} has no partition {partition}")
        room_records = self._options.max_records or sys.maxsize
        batch = OpenBatch(self._topic, partition, self._options.batch_bytes, room_records)
        self._open[partition] = batch
        self._unsettled += 1
        self._thread.call_soon(self._linger, batch)
        return batch

    def _close_batches(self) -> None:
        for batch in list(self._open.values()):
            self._close_batch(batch)

    def _close_batch(self, batch: OpenBatch) -> None:
        del self._open[batch.partition]
        if batch.partition == self._sticky:
            self._sticky = random.choice(self._partitions)
        batch.done.add_done_callback(lambda _: self._settle(batch))
        encoded = Batch(
            batch.encode(self._options.compression),
            Deadline(self._options.delivery_timeout_ms),
            batch.done,
        )
        self._thread.call_soon(
            self._producer.put, self._topic, batch.partition, self._options.acks, encoded
        )

    # -- in the loop's thread ------------------------------------------------------------

    def _linger(self, batch: OpenBatch) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self._options.linger_ms / 1000, self._end_linger, batch)

    def _end_linger(self, batch: OpenBatch) -> None:
        with self._lock:
            if self._open.get(batch.partition) is batch:
                self._close_batch(batch)

    def _settle(self, batch: OpenBatch) -> None:
        failure = batch.done.exception()
        if self._options.on_delivery is not None:
            for index in range(len(batch)):
                if failure is None:
                    delivered = batch.delivered(index, batch.done.result())
                    self._options.on_delivery(delivered, None)
                else:
                    self._options.on_delivery(None, failure)
        with self._lock:
            self._buffered_bytes -= batch.size_bytes
            self._unsettled -= 1
            if failure is None:
                self._acknowledged += len(batch)
            self._failure = self._failure or failure
            self._lock.notify_all()
