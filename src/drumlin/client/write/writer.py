"""A writer of single records, collected into batches by bytes, count and time.

`Writer.send` puts a record into the open batch of its partition and returns at once. A batch
is closed when it is full, when it has been open for `linger_ms`, or on `flush`. Batches that are
open or in flight count against `buffer_bytes`: when that is used up, `send` waits. So the options
limit the memory and the latency with which a writer buys throughput.

One lock guards the open batches. Callers hold it while they add a record or close a batch, and so
does a thread of the loop's pool when `linger_ms` is over; both hand closed batches to the loop
under the lock, so that they arrive in order. No user code runs under it. Every record that `send`
accepts completes: if it cannot be encoded or sent, it fails, so that no caller waits for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final, Self

from drumlin.client import arguments
from drumlin.client.errors import (
    BufferFull,
    ClientError,
    DeliveryFailed,
    RequestTimedOut,
    as_delivery_failed,
    translated,
)
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.write.open_batch import (
    HEADER_OVERHEAD,
    RECORD_OVERHEAD,
    Delivered,
    Delivery,
    OpenBatch,
)
from drumlin.client.write.options import OnDelivery, WriterOptions
from drumlin.client.write.partition_sender import Batch
from drumlin.client.write.producer import DeliveryMode, Producer
from drumlin.peer.peer_error import PeerError
from drumlin.peer.retry import Deadline
from drumlin.records.plain.plain_columns import murmur2_plain
from drumlin.wire.error_codes import KafkaError

_log = logging.getLogger(__name__)

_RECORD_BYTES_MAX: Final = 2**31 - 1 - 1024  # a batch of one record stays below 2 GiB
_PARTITION_MAX: Final = 2**31 - 1

#: The names and values of headers; strings are written as UTF-8.
Headers = Sequence[tuple[str, bytes | str | None]] | Mapping[str, bytes | str | None]


class Writer:
    """A writer for one topic. Thread-safe. Use it as a context manager, or `close` it."""

    def __init__(
        self, thread: CoreLoop, producer: Producer, topic: str, options: WriterOptions
    ) -> None:
        self._thread = thread
        self._producer = producer
        self._topic = topic
        self._options = options
        self._mode = DeliveryMode.of(options.acks, options.retries)
        self._partitions = thread.run(producer.partitions(topic))
        self._lock = thread.condition()
        self._deliver = thread.in_order(self._encode_and_put, lambda batch: batch.size_bytes)
        self._open: dict[int, OpenBatch] = {}
        self._look_again_at = time.monotonic() + options.metadata_refresh_ms / 1000
        self._looking: asyncio.Task[None] | None = None
        self._sticky = random.choice(self._partitions)
        self._buffered_bytes = 0
        self._unsettled: set[OpenBatch] = set()  # open or in flight
        self._acknowledged = 0  # records
        self._failure: BaseException | None = None
        self._is_closed = False
        self._closed_by: Exception | None = None
        thread.call_soon(producer.attach, self._give_up)

    def send(
        self,
        value: bytes | str | None,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Accept a record, to be written in the background. Strings are written as UTF-8.

        Args:
            value, key: bytes or strings; None is null.
            headers: (name, value) pairs, or a mapping.
            timestamp: milliseconds since 1970; now, by default.
            partition: by default chosen by the partitioner: by the key, or for records without
                a key the same partition for a whole batch.

        Returns:
            The record's delivery, a future with its offset.

        Raises:
            BufferFull: the buffer stayed full for `max_block_ms`.
            ClientError: the writer is closed.
            TypeError, ValueError: an argument cannot be part of a record.
        """
        value = arguments.as_bytes("value", value)
        key = arguments.as_bytes("key", key)
        size_bytes = RECORD_OVERHEAD + len(value or b"") + len(key or b"")
        pairs = () if headers is None else arguments.as_headers(headers)
        for name, each in pairs:
            name_bytes = len(name) if name.isascii() else len(name.encode())
            size_bytes += HEADER_OVERHEAD + name_bytes + len(each or b"")
        if size_bytes > _RECORD_BYTES_MAX:
            raise ValueError(f"a record of {size_bytes} bytes: it must be smaller than 2 GiB")
        if timestamp is None:
            timestamp = time.time_ns() // 1_000_000
        else:
            timestamp = arguments.timestamp_ms(timestamp)
        partition = self._choose_partition(key, partition)
        with self._lock:
            self._check_open()
            if not self._fits(size_bytes):
                self._wait_until_fits(size_bytes)
            if partition is None:
                partition = self._sticky
            batch = self._open.get(partition)
            if batch is None or batch.free_bytes < size_bytes:
                batch = self._next_batch(partition)
            delivery = batch.add(size_bytes, key, value, pairs, timestamp)
            self._buffered_bytes += size_bytes
            if batch.free_bytes < RECORD_OVERHEAD or batch.free_records == 0:
                self._close_batch(batch)
        return delivery

    @property
    def acknowledged(self) -> int:
        """The number of records written; with `acks="none"`, of those sent."""
        return self._acknowledged

    @property
    def _has_partitioner(self) -> bool:
        """Whether the program chooses the partitions of keys."""
        return self._options.partitioner is not None

    def flush(self, timeout_ms: float | None = None) -> None:
        """Write all records sent so far, and wait until they are acknowledged.

        Raises:
            DeliveryFailed: a record since the last flush was not written, and there is no
                `on_delivery` to report it to.
            RequestTimedOut: the flush takes longer than `timeout_ms`.
        """
        self._thread.check_may_wait()
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        with self._lock:
            self._close_batches()
            mine = set(self._unsettled)
            if not self._lock.wait_for(lambda: mine.isdisjoint(self._unsettled), timeout_s):
                count = len(mine & self._unsettled)
                raise RequestTimedOut(f"{count} batches are still in flight")
            failure, self._failure = self._failure, None
        if failure is not None and self._options.on_delivery is None:
            raise failure

    def close(self) -> None:
        """Flush, and accept no more records. Raises as `flush` does."""
        self._thread.check_may_wait()
        if not self._is_closed:
            self._is_closed = True
            self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<drumlin.Writer to {self._topic!r}{', closed' if self._is_closed else ''}>"

    def _choose_partition(self, key: bytes | None, partition: int | None) -> int | None:
        """The partition of a record; None: the one whose batch is being filled."""
        known = self._partitions  # the loop's thread may replace the attribute
        if partition is not None:
            partition = arguments.whole_number("partition", partition, 0, _PARTITION_MAX)
        elif self._options.partitioner is not None:
            chosen = self._options.partitioner(key, len(known))
            partition = arguments.whole_number("the partitioner's", chosen, 0, _PARTITION_MAX)
        elif key is not None:
            return known[murmur2_plain(key) % len(known)]
        if partition is not None and partition not in known and not self._is_there(partition):
            raise ValueError(f"topic {self._topic!r} has no partition {partition}")
        return partition

    def _is_there(self, partition: int) -> bool:
        """Whether the partition exists; asks the brokers, except in a callback of the loop."""
        if self._thread.may_wait:
            with translated():
                self._partitions = self._thread.run(
                    self._producer.partitions(self._topic, at_least=partition + 1)
                )
        return partition in self._partitions

    # -- under the lock ------------------------------------------------------------------

    def _fits(self, size_bytes: int) -> bool:
        # A record larger than the whole buffer is sent alone.
        free_bytes = self._options.buffer_bytes - self._buffered_bytes
        return size_bytes <= free_bytes or self._buffered_bytes == 0

    def _wait_until_fits(self, size_bytes: int) -> None:
        self._close_batches()
        limit_bytes, timeout_ms = self._options.buffer_bytes, self._options.max_block_ms
        self._thread.check_may_wait()
        if not self._lock.wait_for(lambda: self._fits(size_bytes), timeout_ms / 1000):
            full = f"{limit_bytes} bytes of buffer were full for {timeout_ms:g} ms"
            raise BufferFull(f"topic {self._topic!r}: {full}")
        self._check_open()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientError("this writer is closed") from self._closed_by

    def _next_batch(self, partition: int) -> OpenBatch:
        full = self._open.get(partition)
        if full is not None:
            self._close_batch(full)
        free_records = self._options.max_records or sys.maxsize
        batch = OpenBatch(
            self._thread, self._topic, partition, self._options.batch_bytes, free_records
        )
        self._open[partition] = batch  # before the loop looks for it
        try:
            self._thread.call_soon(self._linger, batch)
        except BaseException:
            del self._open[partition]
            raise
        self._unsettled.add(batch)
        batch.done.add_done_callback(lambda _: self._settle(batch))
        return batch

    def _close_batches(self) -> None:
        for batch in list(self._open.values()):
            self._close_batch(batch)

    def _close_batch(self, batch: OpenBatch) -> None:
        del self._open[batch.partition]
        if batch.partition == self._sticky:
            self._sticky = random.choice(self._partitions)
        self._deliver(batch)

    def _encode_and_put(self, batch: OpenBatch) -> None:
        options = self._options
        try:
            encoded = Batch(
                batch.encode(options.compression),
                Deadline(options.delivery_timeout_ms),
                batch.done,
                options.retries,
            )
            self._thread.call_soon(
                self._producer.put, self._topic, batch.partition, self._mode, encoded
            )
        except BaseException as error:
            self._fail(batch, as_delivery_failed(self._topic, batch.partition, error))
            if not isinstance(error, Exception):
                raise

    def _fail(self, batch: OpenBatch, failure: DeliveryFailed) -> None:
        try:
            self._thread.call_soon(batch.done.set_exception, failure)
        except ClientError:  # the client is closed, and its loop with it
            batch.done.set_exception(failure)

    # -- in the loop's thread ------------------------------------------------------------

    def _linger(self, batch: OpenBatch) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self._options.linger_ms / 1000, self._lingered, batch)
        if time.monotonic() >= self._look_again_at:
            self._look_again_at = time.monotonic() + self._options.metadata_refresh_ms / 1000
            self._looking = asyncio.ensure_future(self._look_for_partitions())

    async def _look_for_partitions(self) -> None:
        """Refresh the partitions: some may be added, or the topic recreated with fewer."""
        # Without a response the known partitions stay; a sender notices if one is gone.
        with contextlib.suppress(KafkaError, PeerError):
            found = await self._producer.partitions(self._topic, max_age_s=0)
            self._partitions = found
            if self._sticky not in found:
                self._sticky = random.choice(found)

    def _lingered(self, batch: OpenBatch) -> None:
        if self._open.get(batch.partition) is batch:
            self._thread.as_caller(self._end_linger, batch)

    def _end_linger(self, batch: OpenBatch) -> None:
        with self._lock:
            if self._open.get(batch.partition) is batch:
                self._close_batch(batch)

    def _give_up(self, error: Exception) -> None:
        """Fail the open batches, and accept no more records: the producer has ended."""
        with self._lock:
            self._is_closed = True
            self._closed_by = error
            batches = list(self._open.values())
            self._open.clear()
        for batch in batches:
            batch.done.set_exception(error)

    def _settle(self, batch: OpenBatch) -> None:
        failure = batch.done.exception()
        if failure is not None:
            self._look_again_at = 0
        if self._options.on_delivery is not None:
            for index in range(len(batch)):
                delivered = None if failure else batch.delivered(index, batch.done.result())
                self._tell(self._options.on_delivery, delivered, failure)
        with self._lock:
            self._buffered_bytes -= batch.size_bytes
            self._unsettled.discard(batch)
            if failure is None:
                self._acknowledged += len(batch)
            self._failure = self._failure or failure
            self._lock.notify_all()

    def _tell(
        self, on_delivery: OnDelivery, delivered: Delivered | None, failure: BaseException | None
    ) -> None:
        try:
            on_delivery(delivered, failure)
        except BaseException:  # noqa: BLE001 - user code must not stop other records or callers
            _log.exception("on_delivery of the writer to topic %r", self._topic)
