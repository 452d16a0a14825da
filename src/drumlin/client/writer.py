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
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from types import TracebackType
from typing import Final, NamedTuple, Self

from drumlin.client.errors import BufferFull, ClientError, RequestTimedOut
from drumlin.client.loop_thread import LoopThread
from drumlin.client.partition_sender import Batch
from drumlin.client.producer import Acks, Producer
from drumlin.peer.produce import Produced
from drumlin.peer.retry import Deadline
from drumlin.records.plain_columns import murmur2_plain
from drumlin.records.record import Record, encode_batch

Headers = Sequence[tuple[str, bytes | None]]
#: Given a key and the number of partitions, the partition.
Partitioner = Callable[[bytes | None, int], int]

_RECORD_OVERHEAD: Final = 24  # about what a record takes beside its key, value and headers


class Delivered(NamedTuple):
    """Where a record ended up. `offset` is -1 where the broker does not tell (acks="none")."""

    topic: str
    partition: int
    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """Limits and habits of a writer.

    batch_bytes: a batch is closed when it holds this much (before compression).
    linger_ms: how long a batch waits for more records.
    max_records: a batch is closed when it holds this many records; None for no such limit.
    buffer_bytes: how much may be waiting or on its way before `send` waits.
    max_block_ms: how long `send` waits then before it raises `BufferFull`.
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
    on_delivery: Callable[[Delivered | None, Exception | None], None] | None = None


class Delivery:
    """The future of one record."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: OpenBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Whether it is known what became of the record."""
        return self._batch.done.done()

    def result(self, timeout_ms: float | None = None) -> Delivered:
        """Where the record ended up; waits for it.

        Raises:
            DeliveryFailed: it was not written.
            RequestTimedOut: nothing is known yet after `timeout_ms`.
        """
        try:
            produced = self._batch.done.result(None if timeout_ms is None else timeout_ms / 1000)
        except FutureTimeout:
            raise RequestTimedOut(f"no news of the record after {timeout_ms:g} ms") from None
        return self._batch.delivered(self._index, produced)


class OpenBatch:
    """Records of one partition that will be one batch."""

    __slots__ = (
        "done",
        "headers",
        "keys",
        "partition",
        "size_bytes",
        "timestamps",
        "topic",
        "values",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: list[Headers] = []
        self.timestamps: list[int] = []
        self.size_bytes = 0
        self.done: Future[Produced] = Future()

    def delivered(self, index: int, produced: Produced) -> Delivered:
        offset = -1 if produced.base_offset < 0 else produced.base_offset + index
        timestamp = produced.log_append_time_ms
        if timestamp < 0:
            timestamp = self.timestamps[index]
        return Delivered(self.topic, self.partition, offset, timestamp)


class Writer:
    """Made by `Client.writer`. Thread-safe. Use it as a context manager, or `close` it."""

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
        self._unsettled = 0  # batches
        self._failure: Exception | None = None
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
        value = value.encode() if isinstance(value, str) else value
        key = key.encode() if isinstance(key, str) else key
        pairs = tuple(headers.items() if isinstance(headers, Mapping) else headers or ())
        size_bytes = _RECORD_OVERHEAD + len(value or b"") + len(key or b"")
        if pairs:
            size_bytes += sum(len(name) + len(each or b"") + 4 for name, each in pairs)
        if timestamp is None:
            timestamp = time.time_ns() // 1_000_000
        with self._lock:
            self._wait_for_room(size_bytes)
            if partition is None:
                partition = self._choose_partition(key)
            batch = self._batch_with_room(partition, size_bytes)
            delivery = Delivery(batch, len(batch.values))
            batch.keys.append(key)
            batch.values.append(value)
            batch.headers.append(pairs)
            batch.timestamps.append(timestamp)
            batch.size_bytes += size_bytes
            self._buffered_bytes += size_bytes
            if self._is_full(batch, 0):
                self._close_batch(batch)
        return delivery

    def flush(self, timeout_ms: float | None = None) -> None:
        """Write everything that was sent so far, and wait until it is acknowledged.

        Raises:
            DeliveryFailed: a record since the last flush was not written, and there is no
                `on_delivery` that was told.
            RequestTimedOut: it takes longer than `timeout_ms`.
        """
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        with self._lock:
            for batch in list(self._open.values()):
                self._close_batch(batch)
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

    def _wait_for_room(self, size_bytes: int) -> None:
        if self._is_closed:
            raise ClientError("this writer is closed")
        limit = self._options.buffer_bytes
        if self._buffered_bytes + size_bytes <= limit or self._buffered_bytes == 0:
            return
        for batch in list(self._open.values()):
            self._close_batch(batch)
        has_room = self._lock.wait_for(
            lambda: self._buffered_bytes + size_bytes <= limit or self._buffered_bytes == 0,
            self._options.max_block_ms / 1000,
        )
        if not has_room:
            waited = f"for {self._options.max_block_ms} ms"
            raise BufferFull(f"topic {self._topic!r}: {limit} bytes of buffer were full {waited}")

    def _choose_partition(self, key: bytes | None) -> int:
        count = len(self._partitions)
        if self._options.partitioner is not None:
            return self._options.partitioner(key, count)
        return self._sticky if key is None else murmur2_plain(key) % count

    def _batch_with_room(self, partition: int, size_bytes: int) -> OpenBatch:
        batch = self._open.get(partition)
        if batch is not None and self._is_full(batch, size_bytes):
            self._close_batch(batch)
            batch = None
        if batch is None:
            if partition not in self._partitions:
                raise ValueError(f"topic {self._topic!r} has no partition {partition}")
            batch = self._open[partition] = OpenBatch(self._topic, partition)
            self._unsettled += 1
            self._thread.call_soon(self._linger, batch)
        return batch

    def _is_full(self, batch: OpenBatch, more_bytes: int) -> bool:
        # With nothing more to come, "full" means that not even an empty record would fit.
        if len(batch.values) == self._options.max_records:
            return True
        room = self._options.batch_bytes - batch.size_bytes
        return room < max(more_bytes, _RECORD_OVERHEAD)

    def _close_batch(self, batch: OpenBatch) -> None:
        del self._open[batch.partition]
        if batch.partition == self._sticky:
            self._sticky = random.choice(self._partitions)
        batch.done.add_done_callback(lambda _: self._settle(batch))
        encoded = Batch(
            _encode(batch, self._options.compression),
            Deadline(self._options.delivery_timeout_ms),
            batch.done,
        )
        self._thread.call_soon(
            self._producer.put, self._topic, batch.partition, self._options.acks, encoded
        )

    # -- in the loop's thread ------------------------------------------------------------

    def _linger(self, batch: OpenBatch) -> None:
        asyncio.get_running_loop().call_later(
            self._options.linger_ms / 1000, self._end_linger, batch
        )

    def _end_linger(self, batch: OpenBatch) -> None:
        with self._lock:
            if self._open.get(batch.partition) is batch:
                self._close_batch(batch)

    def _settle(self, batch: OpenBatch) -> None:
        failure = batch.done.exception()
        on_delivery = self._options.on_delivery
        if on_delivery is not None:
            produced = None if failure else batch.done.result()
            for index in range(len(batch.values)):
                if produced is None:
                    on_delivery(None, failure)  # type: ignore[arg-type]
                else:
                    on_delivery(batch.delivered(index, produced), None)
        with self._lock:
            self._buffered_bytes -= batch.size_bytes
            self._unsettled -= 1
            self._failure = self._failure or failure  # type: ignore[assignment]
            self._lock.notify_all()


def _encode(batch: OpenBatch, compression: str) -> bytearray:
    columns = zip(batch.timestamps, batch.keys, batch.values, batch.headers, strict=True)
    records = [
        Record(offset, timestamp, key, value, tuple(headers))
        for offset, (timestamp, key, value, headers) in enumerate(columns)
    ]
    return encode_batch(records, compression=compression)
