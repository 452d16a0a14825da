"""The calls of a `Client` that write records: tables, rows in pieces, and records one by one.

They check what the caller hands in before a broker is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from drumlin.client import arguments
from drumlin.client.calls import Calls
from drumlin.client.errors import translated
from drumlin.client.needs_arrow import needing_arrow
from drumlin.client.write.writer import Writer, WriterKeywords, WriterOptions

if TYPE_CHECKING:
    from drumlin.client.tables import TableLike
    from drumlin.client.write.appender import AppendOptions, AppendReport
    from drumlin.client.write.deliveries import DeliveryRules
    from drumlin.client.write.stream_appender import EncodingRules, StreamAppender


class WritingCalls(Calls):
    """From the caller to the log."""

    def append(self, data: TableLike, topic: str, **options: Unpack[AppendOptions]) -> AppendReport:
        """Append many records at once; returns when the brokers have acknowledged all.

        Rows keep their order within a partition. By default the producer is idempotent: a
        retry never writes a record twice.

        Args:
            data: a pyarrow Table or RecordBatch, a DataFrame of pandas or Polars, a relation of
                DuckDB, any other object with `__arrow_c_stream__`, a dict of columns, or a list
                of dicts, one for each record.
            topic: the topic's name.
            key, value, headers, timestamp: the columns to take them from. "key", "headers" and
                "timestamp" may be missing; a missing timestamp is the time of the call. Keys and
                values are bytes or strings, timestamps milliseconds or Arrow timestamps, headers
                lists of (key, value).
            encode: "json" writes whole rows as JSON objects, or the column that `value` names as
                JSON, and keys of any type as text. `headers` and `timestamp` are then used only
                if they are named.
            partition: a column of partition numbers, or a function that is given the data and
                the number of partitions and returns such a column. By default Kafka's: murmur2
                of the key, and for null keys one partition a batch.
            compression: "none", "gzip", "snappy", "lz4" or "zstd".
            acks: "all" (-1), "leader" (1) or "none" (0); anything but "all" is not idempotent.
            batch_bytes: the largest record batch, 1,000,000 by default; a broker refuses more
                than `max.message.bytes`, 1 MiB by default.
            buffer_bytes: how much may be encoded and not acknowledged, 32 MiB by default.
            delivery_timeout_ms: how long to keep trying, two minutes by default.
            retries: how often a batch may be sent again; None: as often as there is time. With
                0 a record is written once at most.

        Raises:
            UnknownTopic: there is no such topic, and the broker does not create it.
            DeliveryFailed: a broker refused a batch for good, or time ran out; says which
                partition, why, and what had been acknowledged before.
            TypeError, ValueError: data or options that cannot be.
        """
        with needing_arrow():
            from drumlin.client.write.appender import append

        arguments.text("topic", topic)
        with translated():
            return append(self._thread, self._producer, data, topic, options)

    def stream_appender(
        self,
        topic: str | None = None,
        *,
        encoding: EncodingRules | None = None,
        delivery: DeliveryRules | None = None,
    ) -> StreamAppender:
        """An appender of rows that arrive in pieces, to one topic or to those that they name.

        Args:
            topic: the topic of all rows; None: each row has a `topic`.
            encoding: how rows become batches.
            delivery: acks, retries, and how long and how much of it may be under way.
        """
        with needing_arrow():
            from drumlin.client.write.stream_appender import StreamAppender

        return StreamAppender(
            self._thread, self._producer, topic, encoding=encoding, delivery=delivery
        )

    def writer(self, topic: str, **options: Unpack[WriterKeywords]) -> Writer:
        """A writer for records one by one, which collects them into batches.

        Args:
            topic: the topic's name.
            batch_bytes: a batch is closed when it holds this much before compression, 64 KiB by
                default.
            linger_ms: how long a batch waits for more records, 10 by default.
            max_records: a batch is closed when it holds this many; None, the default: no limit.
            buffer_bytes: how much may be waiting or on its way before `send` waits, 32 MiB by
                default.
            max_block_ms: how long `send` waits then before it raises `BufferFull`, one minute by
                default.
            delivery_timeout_ms: how long to keep trying to write a batch, two minutes by default.
            metadata_refresh_ms: how often to look whether the topic has more partitions by now,
                every five minutes by default.
            retries: how often a batch may be sent again; None, the default: as often as there is
                time. With 0 a record is written once at most, and not again if its connection
                breaks.
            compression: "none" (the default), "gzip", "snappy", "lz4" or "zstd".
            acks: "all" (-1, the default), "leader" (1) or "none" (0). Only with "all", and
                retries, brokers recognise a record that is sent again.
            partitioner: a function of a key and the number of partitions, in place of Kafka's
                hash of the key.
            on_delivery: called for each record, in the client's own thread, with
                (Delivered, None) or (None, error). It must return quickly, and not wait for the
                client. What it raises is logged.

        Raises:
            UnknownTopic: there is no such topic, and the broker does not create it.
            TypeError, ValueError: an option that does not exist, or cannot have this value.
        """
        arguments.text("topic", topic)
        arguments.known_options("writer", options, WriterKeywords.__annotations__)
        chosen = WriterOptions(**options)
        with translated():
            return Writer(self._thread, self._producer, topic, chosen)
