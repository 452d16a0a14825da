"""The calls of a `Client` that read records: tables, batches, ranges and consumers.

They check what the caller hands in before a broker is asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from drumlin.client import arguments
from drumlin.client.calls import Calls
from drumlin.client.consumer import Consumer
from drumlin.client.consumer.options import ConsumerKeywords, ConsumerOptions, Subscription
from drumlin.client.errors import translated
from drumlin.client.places import Place, check_places
from drumlin.client.read import reader
from drumlin.client.read.log_at_time import cut_at_times, without_times
from drumlin.client.read.offsets import TopicPartition
from drumlin.client.read.range_stream import OffsetRange
from drumlin.client.read.reader import ReadOptions, ReadRecord
from drumlin.peer.options import Isolation

if TYPE_CHECKING:
    import pyarrow as pa


class ReadingCalls(Calls):
    """From the log to the caller."""

    def read(
        self,
        topic: str,
        partitions: Sequence[int] | None = None,
        *,
        start: Place | Mapping[int, Place] = "earliest",
        end: Place | Mapping[int, Place] = "latest",
        **options: Unpack[ReadOptions],
    ) -> pa.Table:
        """The records from `start` up to, not including, `end`, as one table.

        Records come in offset order, partition after partition. Columns are `partition` (int32),
        `offset` (int64), `timestamp` (UTC, milliseconds), `timestamp_type`, `key` and `value`.

        Args:
            topic: the topic's name.
            partitions: their numbers; all by default.
            start, end: "earliest", "latest", an offset, or an aware datetime; or a dict with one
                of these for each partition. An `end` beyond the last record reads what is there;
                one that is a time is that of a record, never of a transaction's marker.
            decode: "utf8" makes strings of keys and values. "json" parses values, and the column
                gets the type that they have (a struct, for objects); keys become strings. By
                default both are bytes.
            columns: the columns wanted; all by default.
            headers: add the column `headers`, lists of (key, value).
            isolation: "read_committed" leaves out records of aborted transactions;
                "read_uncommitted", the default, reads everything.
            max_bytes_per_batch: bytes fetched at a time, 8 MiB by default.
            without_gaps: raise `RecordsMissing` where the log has neither a record nor a marker
                at an offset, as a cleaner leaves it.

        Raises:
            UnknownTopic: there is no such topic or partition.
            OffsetOutOfRange: `start` is a number that the log does not hold (any more).
            Undecodable: a key or a value is not what `decode` says; it names the record.
            TypeError, ValueError: an option that does not exist, or cannot have this value.
        """
        reader.check_options("read", options)
        check_places("start", start)
        check_places("end", end)
        import pyarrow as pa

        from drumlin.client import tables

        decode = options.pop("decode", None)  # all values together: they make one column
        batches = list(self._read(topic, partitions, start, end, options))
        table = pa.Table.from_batches(batches, reader.schema_of(options))
        return tables.decoded(table, decode, topic)

    def read_batches(
        self,
        topic: str,
        partitions: Sequence[int] | None = None,
        *,
        start: Place | Mapping[int, Place] = "earliest",
        end: Place | Mapping[int, Place] = "latest",
        **options: Unpack[ReadOptions],
    ) -> Iterator[pa.RecordBatch]:
        """Like `read`, piece by piece: only a few fetches are in memory at a time.

        Arguments and errors are those of `read`. With decode="json" each batch has the type that
        its own values have.
        """
        reader.check_options("read_batches", options)
        check_places("start", start)
        check_places("end", end)
        return self._read(topic, partitions, start, end, options)

    def read_records(
        self,
        topic: str,
        partitions: Sequence[int] | None = None,
        *,
        start: Place | Mapping[int, Place] = "earliest",
        end: Mapping[int, int] | None = None,
        isolation: Isolation = "read_uncommitted",
    ) -> Iterator[list[ReadRecord]]:
        """Like `read_batches`, as Python objects: slower, and without pyarrow and numpy.

        Args:
            topic, partitions, start, isolation: as in `read`.
            end: an offset for each partition; by default their ends.

        Raises:
            UnknownTopic, OffsetOutOfRange, TypeError, ValueError: as from `read`.
        """
        arguments.isolation_level(isolation)
        until: Place | Mapping[int, Place] = "latest" if end is None else dict(end)
        check_places("start", start)
        check_places("end", until)
        return self._read_records(topic, partitions, start, until, isolation)

    def _read_records(
        self,
        topic: str,
        partitions: Sequence[int] | None,
        start: Place | Mapping[int, Place],
        until: Place | Mapping[int, Place],
        isolation: Isolation,
    ) -> Iterator[list[ReadRecord]]:
        with translated():
            ranges = self._run(
                reader.plan(self._connections, topic, partitions, start, until, isolation)
            )
            yield from reader.read_records(self._thread, self._connections, ranges, isolation)

    def _read(
        self,
        topic: str,
        partitions: Sequence[int] | None,
        start: Place | Mapping[int, Place],
        end: Place | Mapping[int, Place],
        options: ReadOptions,
    ) -> Iterator[pa.RecordBatch]:
        with translated():
            isolation = options.get("isolation", "read_uncommitted")
            named = without_times(end)
            ranges = self._run(
                reader.plan(self._connections, topic, partitions, start, named, isolation)
            )
            ranges = cut_at_times(self._thread, self._connections, ranges, end, isolation)
            yield from reader.read_ranges(self._thread, self._connections, ranges, options)

    def read_range(
        self,
        topic: str,
        partition: int,
        start_offset: int,
        end_offset: int,
        **options: Unpack[ReadOptions],
    ) -> Iterator[pa.RecordBatch]:
        """The records of one partition with start_offset <= offset < end_offset.

        The low-level way: offsets are taken at their word, nothing is looked up first. Offsets
        that hold no record (compacted away, markers of transactions) are passed over. Batches
        have the schema `records.columns.RECORD_SCHEMA` (plus headers, if asked for).

        Args:
            options: decode, columns, headers, isolation and max_bytes_per_batch, as in `read`.

        Raises:
            OffsetOutOfRange: start_offset is not in the log; names the range that is.
            LogEndsEarly: the log ends (or, read_committed, is stable only) before end_offset.
        """
        reader.check_options("read_range", options)
        ranges = [OffsetRange(topic, partition, start_offset, end_offset)]
        return _translated(reader.read_ranges(self._thread, self._connections, ranges, options))

    def read_ranges(
        self, ranges: Sequence[OffsetRange], **options: Unpack[ReadOptions]
    ) -> Iterator[tuple[OffsetRange, Iterator[pa.RecordBatch]]]:
        """Like `read_range`, for many ranges, fetching ahead from one to the next.

        Each comes with its batches, which are to be read before the next range is asked for:
        then they raise a ClientError.
        What they raise concerns their range alone: the others can be read all the same.
        """
        reader.check_options("read_ranges", options)
        each = reader.read_each_range(self._thread, self._connections, ranges, options)
        return ((wanted, _translated(batches)) for wanted, batches in each)

    def consumer(
        self,
        topics: str | Sequence[str] | re.Pattern[str] | None = None,
        *,
        group: str | None = None,
        assign: Collection[TopicPartition] | None = None,
        **options: Unpack[ConsumerKeywords],
    ) -> Consumer:
        """A consumer that gives what is there and what comes, batch by batch.

        With `topics` and `group` it shares their partitions with the group's other members.
        Without a group it reads all partitions that the topics have now. With `assign` it
        reads just these; its offsets are kept in `group`, if that is given.

        Args:
            topics: names, or a compiled pattern that must match the whole name.
            group: the name of the consumer group; None: nothing is committed.
            assign: partitions as (topic, partition), instead of `topics`.
            protocol: "classic", or "consumer" for assignment by the broker (KIP-848).
            assignors: classic only: "range" and "cooperative-sticky", in order of preference.
            server_assignor: "consumer" only: "uniform" or "range"; None: the broker's choice.
            group_instance_id: a static member, which keeps its partitions over a restart.
            rack: where this consumer is, for assignors that look at racks.
            session_timeout_ms, heartbeat_interval_ms: classic only, 45,000 and 3,000.
            max_poll_interval_ms: a consumer that does not poll for so long (300,000) loses its
                partitions; a rebalance waits as long for a member.
            delivery: "at_least_once" commits a batch when the next one is asked for;
                "at_most_once" commits it before it is returned.
            commit_interval_ms: how often, and on `close` (5,000); None: only `commit` does.
            offsets_storage, dual_commit: "kafka", or "zookeeper" as high-level consumers had it;
                True keeps offsets in both, and begins at the greater.
            zookeeper, zookeeper_config: "host:port,.../chroot"; properties of TLS and digest.
            start: without a committed offset: "earliest", "latest", an aware datetime, or
                "committed": then `poll` raises `NoCommittedOffset`.
            out_of_range: where the log does not hold the position: "raise", "earliest", "latest".
            isolation: "read_committed" leaves out what aborted transactions wrote.
            columns, headers, decode: as in `read`; by decode="json" each batch has its own type.
            max_records: the most rows in a batch; None: as many as there are.
            max_bytes_per_batch: fetched of a partition at a time (8 MiB).
            buffer_bytes: fetched ahead at most (64 MiB), or a single larger record batch.
            max_wait_ms: how long a broker may hold a fetch while there is nothing (500).
            idle_timeout_ms: iteration ends when nothing came for so long; None: never.
            metadata_refresh_ms: how often to look for new topics and partitions (30,000).
            on_assigned, on_revoked, on_lost: called with a set of (topic, partition), in the
                polling thread. What is lost others may read already; by default `on_revoked`.
            on_reset: called with (topic, partition), old and new position, by `out_of_range`.

        Raises:
            UnknownTopic: without a group, a topic does not exist. A group waits for it.
            TypeError, ValueError: an option that does not exist, or cannot have this value.
        """
        chosen, subscription = _consumer_options(topics, assign, options)
        chosen.check_group(group)
        with translated():
            return Consumer(
                self._thread, self._connections, group, subscription, assign or (), chosen
            )


def _consumer_options(
    topics: str | Sequence[str] | re.Pattern[str] | None,
    assign: Collection[TopicPartition] | None,
    options: ConsumerKeywords,
) -> tuple[ConsumerOptions, Subscription | None]:
    arguments.known_options(
        "consumer", options, ConsumerKeywords.__annotations__, ("topics", "group", "assign")
    )
    if (topics is None) == (assign is None):
        raise ValueError("either topics or assign says what to read")
    return ConsumerOptions(**options), None if topics is None else Subscription.of(topics)


def _translated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with translated():
        yield from batches
