"""The open batch of a partition, which collects records, and the delivery of each record."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Final, NamedTuple

from drumlin.client.errors import RequestTimedOut
from drumlin.client.loops.core_loop import CoreLoop, done_in_loop
from drumlin.client.needs_arrow import has_arrow
from drumlin.peer.produce import Produced
from drumlin.records.plain.record import Record, encode_batch

Headers = Sequence[tuple[str, bytes | None]]

RECORD_OVERHEAD: Final = 24  # about the bytes of a record besides its key, value and headers
HEADER_OVERHEAD: Final = 4
_FIXED_FIELDS_MAX: Final = 64  # the maximum of `RECORD_OVERHEAD`, with a share of the batch header
_COLUMNS_FROM: Final = 16  # fewer records are encoded faster one by one


class Delivered(NamedTuple):
    """A record's place in the log. `offset` is -1 if brokers do not return it (acks="none")."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class OpenBatch:
    """Collects records as columns, up to a number of bytes and of records."""

    __slots__ = (
        "_headers",
        "_keys",
        "_timestamps",
        "_values",
        "done",
        "free_bytes",
        "free_records",
        "partition",
        "size_bytes",
        "thread",
        "topic",
    )

    def __init__(
        self, thread: CoreLoop, topic: str, partition: int, free_bytes: int, free_records: int
    ) -> None:
        self.thread = thread
        self.topic = topic
        self.partition = partition
        self.free_bytes = free_bytes
        self.free_records = free_records
        self.size_bytes = 0
        self.done: Future[Produced] = Future()
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[Headers] = []
        self._timestamps: list[int] = []

    def __len__(self) -> int:
        return len(self._values)

    def add(
        self,
        size_bytes: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp: int,
    ) -> Delivery:
        """Add a record even if it does not fit: a batch has at least one."""
        delivery = Delivery(self, len(self._values))
        self._keys.append(key)
        self._values.append(value)
        self._headers.append(headers)
        self._timestamps.append(timestamp)
        self.size_bytes += size_bytes
        self.free_bytes -= size_bytes
        self.free_records -= 1
        return delivery

    def encode(self, compression: str) -> bytearray | memoryview:
        """The sealed record batch."""
        encode_columns = _encode_columns() if len(self) >= _COLUMNS_FROM else None
        if encode_columns is None:
            columns = zip(self._timestamps, self._keys, self._values, self._headers, strict=True)
            records = [
                Record(index, timestamp, key, value, tuple(headers))
                for index, (timestamp, key, value, headers) in enumerate(columns)
            ]
            return encode_batch(records, compression=compression)
        return encode_columns(
            self._values,
            self._keys,
            self._timestamps,
            self._headers if any(self._headers) else None,
            3 * self.size_bytes + _FIXED_FIELDS_MAX * len(self),
            compression,
        )

    def delivered(self, index: int, produced: Produced) -> Delivered:
        """The place of the record at `index` in the written batch."""
        offset = -1 if produced.base_offset < 0 else produced.base_offset + index
        timestamp = produced.log_append_time_ms
        if timestamp < 0:
            timestamp = self._timestamps[index]
        return Delivered(self.topic, self.partition, offset, timestamp)


class Delivery:
    """The future of one record."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: OpenBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __repr__(self) -> str:
        where = f"topic {self._batch.topic!r} partition {self._batch.partition}"
        if not self.done():
            return f"<drumlin.Delivery to {where}, in flight>"
        if self._batch.done.exception() is not None:
            return f"<drumlin.Delivery to {where}, failed>"
        return f"<drumlin.Delivery to {where}, offset {self.result().offset}>"

    def done(self) -> bool:
        """Whether the record is written or has failed."""
        return self._batch.done.done()

    def __await__(self) -> Generator[Any, None, Delivered]:
        """`result`, in any event loop. Cancelling the wait does not cancel the record."""
        return self._in_loop().__await__()

    async def _in_loop(self) -> Delivered:
        if not self.done():
            await done_in_loop(self._batch.done)
        return self._batch.delivered(self._index, self._batch.done.result())

    def result(self, timeout_ms: float | None = None) -> Delivered:
        """Wait until the record is written, and return its place.

        Raises:
            DeliveryFailed: the record was not written.
            RequestTimedOut: there is no result after `timeout_ms`.
        """
        if not self.done():
            self._batch.thread.check_may_wait()
        try:
            produced = self._batch.done.result(None if timeout_ms is None else timeout_ms / 1000)
        except FutureTimeout:
            raise RequestTimedOut(f"the record is not settled after {timeout_ms:g} ms") from None
        return self._batch.delivered(self._index, produced)


@functools.cache
def _encode_columns() -> Callable[..., memoryview] | None:
    """The function that encodes many records at once; None without Arrow."""
    if not has_arrow():
        return None
    import pyarrow as pa

    from drumlin.records.columns.columns import HEADERS_TYPE, encode_from_arrow

    def encode(
        values: list[bytes | None],
        keys: list[bytes | None],
        timestamps: list[int],
        headers: list[Headers] | None,
        max_batch_bytes: int,
        compression: str,
    ) -> memoryview:
        encoded = encode_from_arrow(
            pa.array(values, pa.binary()),
            keys=pa.array(keys, pa.binary()),
            timestamps=pa.array(timestamps, pa.int64()),
            headers=None if headers is None else pa.array(headers, HEADERS_TYPE),
            default_timestamp_ms=0,
            max_batch_bytes=max_batch_bytes,
            compression=compression,
        )
        assert len(encoded) == 1, "the maximum size of a batch was underestimated"
        return encoded[0]

    return encode
