"""The calls of a `Client` that read records: tables, batches, ranges and consumers.

They check what the caller hands in before a broker is asked.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from drumlin.client import arguments
from drumlin.client.arguments import Decode
from drumlin.client.calls import Calls
from drumlin.client.consumer import Consumer
from drumlin.client.consumer.options import (
    ConsumerDelivery,
    ConsumerOptions,
    GroupProtocol,
    OffsetsStorage,
    OnPartitions,
    OnReset,
    OutOfRange,
    Start,
    Subscription,
)
from drumlin.client.errors import translated, translating
from drumlin.client.other_names.kafkas_names import knows_kafkas_names
from drumlin.client.places import Place, check_places
from drumlin.client.read import reader
from drumlin.client.read.log_at_time import cut_at_times, without_times
from drumlin.client.read.range_stream import OffsetRange
from drumlin.client.read.reader import FETCH_BYTES, ReadOptions, ReadRecord
from drumlin.client.topic_partition import as_partitions
from drumlin.peer.options import Isolation

if TYPE_CHECKING:
    import pyarrow as pa


class ReadingCalls(Calls):
    """From the log to the caller."""

    @knows_kafkas_names
    def read(
        self,
        topic: str,
        partitions: Sequence[int] | None = None,
        *,
        start: Place | Mapping[int, Place] = "earliest",
        end: Place | Mapping[int, Place] = "latest",
        decode: Decode | None = None,
        columns: Sequence[str] | None = None,
        headers: bool = False,
        isolation: Isolation = "read_uncommitted",
        max_bytes_per_batch: int = FETCH_BYTES,
        without_gaps: bool = False,
    ) -> pa.Table:
        """The records from `start` up to, not including, `end`, as one table.

        Args:
            topic: the topic's name.
            partitions: their numbers; all by default.
            start, end: "earliest", "latest", an offset, or an aware datetime; or a dict with one
                of these for each partition. An `end` beyond the last record reads what is there;
                one that is a time is that of a record, never of a transaction's marker.
            decode: "utf8" makes strings of keys and values. "json" parses values, and the column
                gets the type that they have (a struct, for objects); keys become strings. None:
                both are bytes.
            columns: the columns wanted; None: all.
            headers: add the column `headers`, lists of (key, value).
            isolation: "read_uncommitted" reads what is in the log; "read_committed" leaves out
                records of aborted transactions, and all from the first open transaction on.
                `snapshot` reads committed records unless it is told otherwise: a table is to have
                no rows that are taken back.
            max_bytes_per_batch: how many bytes are fetched at a time.
            without_gaps: raise `RecordsMissing` where the log has neither a record nor a marker
                at an offset, as a cleaner leaves it.

        Returns:
            Records in offset order, partition after partition. Columns are `partition` (int32),
            `offset` (int64), `timestamp` (UTC, milliseconds), `timestamp_type` (int32: 0 is the
            producer's, 1 the broker's), `key` and `value` (binary, unless `decode` says otherwise)
            and, if asked for, `headers` (lists of structs of `key` and `value`).

        Raises:
            UnknownTopic: there is no such topic or partition.
            OffsetOutOfRange: `start` is a number that the log does not hold (any more).
            Undecodable: a key or a value is not what `decode` says; it names the record.
            TypeError, ValueError: an argument cannot have this value.
        """
        options = _read_options(
            decode=decode,
            columns=columns,
            headers=headers,
            isolation=isolation,
            max_bytes_per_batch=max_bytes_per_batch,
            without_gaps=without_gaps,
        )
        partitions = arguments.partition_numbers(partitions)
        check_places("start", start)
        check_places("end", end)
        import pyarrow as pa

        from drumlin.client import tables

        undecoded = dataclasses.replace(options, decode=None)
        batches = list(self._read(topic, partitions, start, end, undecoded))
        table = pa.Table.from_batches(batches, reader.schema_of(options))
        # All values together: they make one column.
        return tables.decoded(table, decode, topic)

    @knows_kafkas_names
    def read_batches(
        self,
        topic: str,
        partitions: Sequence[int] | None = None,
        *,
        start: Place | Mapping[int, Place] = "earliest",
        end: Place | Mapping[int, Place] = "latest",
        decode: Decode | None = None,
        columns: Sequence[str] | None = None,
        headers: bool = False,
        isolation: Isolation = "read_uncommitted",
        max_bytes_per_batch: int = FETCH_BYTES,
        without_gaps: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Like `read`, piece by piece: only a few fetches are in memory at a time.

        Args:
            topic, partitions, start, end: as in `read`.
            decode: as in `read`; with "json" each batch has the type that its own values have.
            columns, headers, isolation, max_bytes_per_batch, without_gaps: as in `read`.

        Returns:
            Batches with the columns of `read`. Each holds records of one partition.

        Raises:
            UnknownTopic, OffsetOutOfRange, Undecodable, TypeError, ValueError: as from `read`.
            RecordsMissing: as `without_gaps` says.
        """
        options = _read_options(
            decode=decode,
            columns=columns,
            headers=headers,
            isolation=isolation,
            max_bytes_per_batch=max_bytes_per_batch,
            without_gaps=without_gaps,
        )
        partitions = arguments.partition_numbers(partitions)
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

        Returns:
            Lists of records of one partition, each with `partition`, `offset`, `timestamp`
            (milliseconds since 1970), `key`, `value` (bytes or None) and `headers`.

        Raises:
            UnknownTopic, OffsetOutOfRange, TypeError, ValueError: as from `read`.
        """
        arguments.isolation_level(isolation)
        until: Place | Mapping[int, Place] = "latest" if end is None else dict(end)
        partitions = arguments.partition_numbers(partitions)
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
            isolation = options.isolation
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
        *,
        decode: Decode | None = None,
        columns: Sequence[str] | None = None,
        headers: bool = False,
        isolation: Isolation = "read_uncommitted",
        max_bytes_per_batch: int = FETCH_BYTES,
        without_gaps: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The records of one partition with start_offset <= offset < end_offset.

        The low-level way: offsets are taken at their word, nothing is looked up first. Offsets
        that hold no record (compacted away, markers of transactions) are passed over.

        Args:
            topic, partition: the topic's name, and the number of one of its partitions.
            start_offset, end_offset: where to begin, and where to end, not including it.
            decode, columns, headers, isolation, max_bytes_per_batch, without_gaps: as in `read`.

        Returns:
            Batches with the columns of `read`.

        Raises:
            UnknownTopic: there is no such topic or partition.
            OffsetOutOfRange: start_offset is not in the log; names the range that is.
            LogEndsEarly: the log ends (or, read_committed, is stable only) before end_offset.
        """
        options = _read_options(
            decode=decode,
            columns=columns,
            headers=headers,
            isolation=isolation,
            max_bytes_per_batch=max_bytes_per_batch,
            without_gaps=without_gaps,
        )
        ranges = [OffsetRange(topic, partition, start_offset, end_offset)]
        return translating(reader.read_ranges(self._thread, self._connections, ranges, options))

    @knows_kafkas_names
    def consumer(
        self,
        topics: str | Sequence[str] | re.Pattern[str] | None = None,
        *,
        group: str | None = None,
        assign: Collection[tuple[str, int]] | None = None,
        protocol: GroupProtocol = "classic",
        assignors: Sequence[str] = ("range", "cooperative-sticky"),
        server_assignor: str | None = None,
        group_instance_id: str | None = None,
        rack: str | None = None,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        delivery: ConsumerDelivery = "at_least_once",
        commit_interval_ms: int | None = 5_000,
        offsets_storage: OffsetsStorage = "kafka",
        dual_commit: bool = False,
        zookeeper: str | None = None,
        zookeeper_config: Mapping[str, str] | None = None,
        start: Start = "earliest",
        out_of_range: OutOfRange = "raise",
        isolation: Isolation = "read_uncommitted",
        columns: Sequence[str] | None = None,
        headers: bool = False,
        decode: Decode | None = None,
        max_records: int | None = None,
        max_bytes_per_batch: int = FETCH_BYTES,
        buffer_bytes: int = 64 << 20,
        max_wait_ms: int = 500,
        idle_timeout_ms: int | None = None,
        metadata_refresh_ms: int = 30_000,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
        on_reset: OnReset | None = None,
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
            session_timeout_ms: classic only: how long the group waits for a member that is silent.
            heartbeat_interval_ms: classic only: how often a member shows that it is there.
            max_poll_interval_ms: a consumer that does not poll for so long loses its partitions;
                a rebalance waits as long for a member.
            delivery: "at_least_once" commits a batch when the next one is asked for;
                "at_most_once" commits it before it is returned.
            commit_interval_ms: how often, and on `close`; None: only `commit` does.
            offsets_storage: where offsets are kept: "kafka", or "zookeeper" as high-level
                consumers had it.
            dual_commit: keep offsets in both, and begin at the greater.
            zookeeper: where ZooKeeper is, as "host:port,.../chroot".
            zookeeper_config: properties of TLS and digest.
            start: without a committed offset: "earliest", "latest", an aware datetime, or
                "committed": then `poll` raises `NoCommittedOffset`.
            out_of_range: where the log does not hold the position: "raise", "earliest", "latest".
            isolation: as in `read`.
            columns, headers, decode: as in `read`; by decode="json" each batch has its own type.
            max_records: the most rows in a batch; None: as many as there are.
            max_bytes_per_batch: fetched of a partition at a time.
            buffer_bytes: fetched ahead at most, or a single larger record batch.
            max_wait_ms: how long a broker may hold a fetch while there is nothing.
            idle_timeout_ms: iteration ends when nothing came for so long; None: never.
            metadata_refresh_ms: how often to look for new topics and partitions.
            on_assigned, on_revoked, on_lost: called with a set of (topic, partition), in the
                polling thread. What is lost others may read already; by default `on_revoked`.
            on_reset: called with (topic, partition), old and new position, by `out_of_range`.

        Returns:
            A consumer, to be closed before its client: it is a context manager, and iterates over
            batches with the columns of `read`.

        Raises:
            UnknownTopic: without a group, a topic does not exist. A group waits for it.
            TypeError, ValueError: an argument cannot have this value.
        """
        options = ConsumerOptions(
            protocol=protocol,
            assignors=assignors,
            server_assignor=server_assignor,
            group_instance_id=group_instance_id,
            rack=rack,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            delivery=delivery,
            commit_interval_ms=commit_interval_ms,
            offsets_storage=offsets_storage,
            dual_commit=dual_commit,
            zookeeper=zookeeper,
            zookeeper_config=zookeeper_config,
            start=start,
            out_of_range=out_of_range,
            isolation=isolation,
            columns=columns,
            headers=headers,
            decode=decode,
            max_records=max_records,
            max_bytes_per_batch=max_bytes_per_batch,
            buffer_bytes=buffer_bytes,
            max_wait_ms=max_wait_ms,
            idle_timeout_ms=idle_timeout_ms,
            metadata_refresh_ms=metadata_refresh_ms,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
            on_lost=on_lost,
            on_reset=on_reset,
        )
        if (topics is None) == (assign is None):
            raise ValueError("either topics or assign says what to read")
        subscription = None if topics is None else Subscription.of(topics)
        options.check_group(group)
        with translated():
            return Consumer(
                self._thread,
                self._connections,
                group,
                subscription,
                as_partitions(assign or ()),
                options,
            )


def _read_options(
    *,
    decode: Decode | None,
    columns: Sequence[str] | None,
    headers: bool,
    isolation: Isolation,
    max_bytes_per_batch: int,
    without_gaps: bool,
) -> ReadOptions:
    """
    Raises:
        TypeError, ValueError: an option cannot have this value.
        ModuleNotFoundError: there is no Arrow to read into.
    """
    options = ReadOptions(
        decode=decode,
        columns=columns,
        headers=headers,
        isolation=isolation,
        max_bytes_per_batch=max_bytes_per_batch,
        without_gaps=without_gaps,
    )
    reader.schema_of(options)
    return options
