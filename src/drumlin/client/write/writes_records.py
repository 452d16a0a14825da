"""`append` and `writer`, the calls that a client and a transaction share.

Their options, defaults and documentation are only here; `options.py` checks the values. The
subclass carries out the call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from drumlin.client import arguments
from drumlin.client.arguments import Acks, Encode
from drumlin.client.needs_arrow import needing_arrow
from drumlin.client.other_names.deprecation import was_called
from drumlin.client.other_names.kafkas_names import knows_kafkas_names
from drumlin.client.write.deliveries import (
    BATCH_BYTES,
    BUFFER_BYTES,
    DELIVERY_TIMEOUT_MS,
    DeliveryRules,
    EncodingRules,
)
from drumlin.client.write.options import (
    AppendOptions,
    IfThere,
    OnDelivery,
    Partitioner,
    WriterOptions,
)
from drumlin.client.write.writer import Writer

if TYPE_CHECKING:
    from drumlin.client.tables import TableLike
    from drumlin.client.write.appender import AppendReport
    from drumlin.client.write.partitioner import TablePartitioner
    from drumlin.client.write.stream_appender import StreamAppender


class WritesRecords(ABC):
    """The calls that write records."""

    @knows_kafkas_names
    def append(
        self,
        data: TableLike,
        topic: str,
        *,
        key: str | None = IfThere("key"),
        value: str | None = IfThere("value"),
        headers: str | None = IfThere("headers"),
        timestamp: str | None = IfThere("timestamp"),
        encode: Encode | None = None,
        partition: str | TablePartitioner | None = None,
        compression: str = "none",
        acks: Acks = "all",
        batch_bytes: int = BATCH_BYTES,
        buffer_bytes: int = BUFFER_BYTES,
        delivery_timeout_ms: float = DELIVERY_TIMEOUT_MS,
        retries: int | None = None,
    ) -> AppendReport:
        """Append many records at once; returns when the brokers have acknowledged all.

        Rows keep their order within a partition. By default the producer is idempotent: a
        retry never writes a record twice. In a transaction `acks` must be "all"; several threads
        may append at a time, and one of them ends the transaction when all are done.

        Args:
            data: a pyarrow Table or RecordBatch, a DataFrame of pandas or Polars, a relation of
                DuckDB, any other object with `__arrow_c_stream__`, a dict of columns, or a list
                of dicts, one for each record.
            topic: the topic's name.
            key, value, headers, timestamp: the names of their columns. A column that is named
                here must exist; by default `key`, `headers` and `timestamp` may be missing, and
                None leaves them out. A missing timestamp is the time of the call. Keys and
                values are bytes or strings, timestamps milliseconds or Arrow timestamps, headers
                lists of (key, value).
            encode: "json" writes whole rows as JSON objects, or the column that `value` names as
                JSON, and keys of any type as text. `headers` and `timestamp` are then used only
                if they are named.
            partition: a column of partition numbers, or a function that gets the data and the
                number of partitions and returns such a column. The default is Kafka's: murmur2
                of the key, and for null keys one partition per batch.
            compression: "none", "gzip", "snappy", "lz4" or "zstd".
            acks: "all" (-1), "leader" (1) or "none" (0); only "all" is idempotent.
            batch_bytes: the maximum size of a record batch; a broker refuses more than
                `max.message.bytes`, 1 MiB by default.
            buffer_bytes: the maximum of bytes that are encoded and not acknowledged.
            delivery_timeout_ms: the time after which a batch fails.
            retries: the maximum number of retries of a batch; None: no limit but the timeout.
                With 0 a record is written at most once.

        Returns:
            A report: `topic`, `record_count`, `size_bytes` of the encoded batches, and
            `partitions`, for each partition its `first_offset`, `end_offset` and `record_count`.

        Raises:
            UnknownTopic: the topic does not exist, and the broker does not create it.
            DeliveryFailed: a broker refused a batch permanently, or it timed out; with the
                partition, the reason, and the number of records acknowledged before. A
                transaction can then only be aborted.
            ProducerFenced, TransactionTimedOut, UnknownTransaction: the transaction is no longer
                open.
            TransactionOver: the transaction has already been ended.
            TypeError, ValueError: invalid data or options.
        """
        with needing_arrow():
            import drumlin.client.write.appender  # noqa: F401 - fails before any request

        arguments.text("topic", topic)
        options = AppendOptions(
            key=key,
            value=value,
            headers=headers,
            timestamp=timestamp,
            encode=encode,
            partition=partition,
            compression=compression,
            acks=acks,
            batch_bytes=batch_bytes,
            buffer_bytes=buffer_bytes,
            delivery_timeout_ms=delivery_timeout_ms,
            retries=retries,
        )
        return self._append(data, topic, options)

    @knows_kafkas_names
    def writer(
        self,
        topic: str,
        *,
        batch_bytes: int = 64 << 10,
        linger_ms: float = 10,
        max_records: int | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        max_block_ms: float = 60_000,
        delivery_timeout_ms: float = DELIVERY_TIMEOUT_MS,
        metadata_refresh_ms: float = 300_000,
        retries: int | None = None,
        compression: str = "none",
        acks: Acks = "all",
        partitioner: Partitioner | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Writer:
        """A writer for single records, which collects them into batches.

        In a transaction `acks` must be "all"; the commit flushes the writer, and the end closes it.

        Args:
            topic: the topic's name.
            batch_bytes: the size before compression at which a batch is closed.
            linger_ms: the time that a batch waits for more records.
            max_records: the number of records at which a batch is closed; None: no limit.
            buffer_bytes: the maximum of bytes in open batches or in flight before `send` waits.
            max_block_ms: the maximum time that `send` waits before it raises `BufferFull`.
            delivery_timeout_ms: the time after which a batch fails.
            metadata_refresh_ms: the interval at which new partitions are looked for.
            retries: the maximum number of retries of a batch; None: no limit but the timeout. With
                0 a record is written at most once, and not again if its connection breaks.
            compression: "none", "gzip", "snappy", "lz4" or "zstd".
            acks: "all" (-1), "leader" (1) or "none" (0). The writer is idempotent only with "all"
                and retries.
            partitioner: a function of a key and the number of partitions, instead of Kafka's
                hash of the key.
            on_delivery: called for each record, in the client's own thread, with
                (Delivered, None) or (None, error). It must return quickly, and not wait for the
                client. Its exceptions are logged.

        Raises:
            UnknownTopic: there is no such topic, and the broker does not create it.
            TransactionOver: in a transaction that has been ended.
            TypeError, ValueError: an option is invalid.
        """
        arguments.text("topic", topic)
        options = WriterOptions(
            batch_bytes=batch_bytes,
            linger_ms=linger_ms,
            max_records=max_records,
            buffer_bytes=buffer_bytes,
            max_block_ms=max_block_ms,
            delivery_timeout_ms=delivery_timeout_ms,
            metadata_refresh_ms=metadata_refresh_ms,
            retries=retries,
            compression=compression,
            acks=acks,
            partitioner=partitioner,
            on_delivery=on_delivery,
        )
        return self._open_writer(topic, options)

    def stream_appender(
        self,
        topic: str | None = None,
        *,
        encoding: EncodingRules | None = None,
        delivery: DeliveryRules | None = None,
    ) -> StreamAppender:
        """`lowlevel.stream_appender`. Deprecated."""
        was_called("stream_appender(...)", "drumlin.lowlevel.stream_appender(client, ...)")
        with needing_arrow():
            return self._stream_appender(topic, encoding, delivery)

    @abstractmethod
    def _append(self, data: TableLike, topic: str, options: AppendOptions) -> AppendReport: ...

    @abstractmethod
    def _open_writer(self, topic: str, options: WriterOptions) -> Writer: ...

    @abstractmethod
    def _stream_appender(
        self, topic: str | None, encoding: EncodingRules | None, delivery: DeliveryRules | None
    ) -> StreamAppender: ...
