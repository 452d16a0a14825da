"""The calls of a `Client` that read records: tables, batches, ranges and consumers.

They check their arguments before any request.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from drumlin.client import arguments
from drumlin.client.arguments import Decode
from drumlin.client.calls import Calls
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

    from drumlin.client.consumer import Consumer
    from drumlin.client.consumer.assignors import OwnAssignor
    from drumlin.client.consumer.options import (
        ConsumerDelivery,
        GroupProtocol,
        OffsetsStorage,
        OnPartitions,
        OnReset,
        OutOfRange,
        Start,
    )
    from drumlin.records.text.line_form import LineForm
    from drumlin.records.text.lines import Lines


class ReadingCalls(Calls):
    """The calls that read records."""

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
            start, end: "earliest", "latest", an offset, or a time (an aware datetime, or
                `Milliseconds`); or a dict with one of these for each partition. An `end` beyond the
                last record is the end of the log; a time as `end` refers to records, never to
                transaction markers.
            decode: "utf8" decodes keys and values to strings. "json" parses values, and the column
                gets their type (a struct for objects); keys become strings. None: both are bytes.
            columns: the columns to return; None: all.
            headers: add the column `headers`, lists of (key, value).
            isolation: "read_uncommitted" reads all records in the log; "read_committed" leaves out
                records of aborted transactions, and all from the first open transaction.
                `snapshot` reads committed records by default, as no row of a table may be
                withdrawn later.
            max_bytes_per_batch: the maximum of bytes per fetch.
            without_gaps: raise `RecordsMissing` if the log has neither a record nor a marker at
                an offset, for example after compaction.

        Returns:
            Records in offset order, partition after partition. Columns are `partition` (int32),
            `offset` (int64), `timestamp` (UTC, milliseconds), `timestamp_type` (int32: 0 is the
            producer's, 1 the broker's), `key` and `value` (binary, unless `decode` says otherwise)
            and, on request, `headers` (lists of structs of `key` and `value`).

        Raises:
            UnknownTopic: there is no such topic or partition.
            OffsetOutOfRange: `start` is an offset that the log does not have (any more).
            Undecodable: a key or a value cannot be decoded; names the record.
            TypeError, ValueError: an argument is invalid.
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
        # All values are decoded at once, as they form one column.
        return self._thread.compute(lambda: tables.decoded(table, decode, topic), table.nbytes)

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
        """Like `read`, in batches: only a few fetches are in memory at a time.

        Args:
            topic, partitions, start, end: as in `read`.
            decode: as in `read`; with "json" the type of a batch depends on its values.
            columns, headers, isolation, max_bytes_per_batch, without_gaps: as in `read`.

        Returns:
            Batches with the columns of `read`. Each holds records of one partition.

        Raises:
            UnknownTopic, OffsetOutOfRange, Undecodable, TypeError, ValueError: as from `read`.
            RecordsMissing: with `without_gaps`.
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
            end: an end offset for each partition; by default the end of the log.

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

        Low-level: no offset is looked up or checked first. Offsets without a record (compacted
        away, transaction markers) are skipped.

        Args:
            topic, partition: the topic's name, and the number of one of its partitions.
            start_offset, end_offset: the first offset, and the end (exclusive).
            decode, columns, headers, isolation, max_bytes_per_batch, without_gaps: as in `read`.

        Returns:
            Batches with the columns of `read`.

        Raises:
            UnknownTopic: there is no such topic or partition.
            OffsetOutOfRange: start_offset is not in the log; has the range of the log.
            LogEndsEarly: the log (with read_committed, its stable part) ends before end_offset.
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
        assignors: Sequence[str | OwnAssignor] = ("range", "cooperative-sticky"),
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
        """A consumer of existing and new records, batch by batch.

        With `topics` and `group` it shares their partitions with the group's other members.
        Without a group it reads all current partitions of the topics. With `assign` it reads
        only these; its offsets are committed to `group`, if there is one.

        Args:
            topics: names, or a compiled pattern that must match the whole name.
            group: the name of the consumer group; None: nothing is committed.
            assign: partitions as (topic, partition), instead of `topics`.
            protocol: "classic", or "consumer" for assignment by the broker (KIP-848).
            assignors: classic only: "range" and "cooperative-sticky", in order of preference; or
                a program's own `drumlin.lowlevel.OwnAssignor`.
            server_assignor: "consumer" only: "uniform" or "range"; None: the broker's choice.
            group_instance_id: the id of a static member, which keeps its partitions over a restart.
            rack: the rack of this consumer, for rack-aware assignors.
            session_timeout_ms: classic only: the time without heartbeats after which the group
                removes a member.
            heartbeat_interval_ms: classic only: the interval of heartbeats.
            max_poll_interval_ms: the time without polls after which a consumer loses its
                partitions; a rebalance also waits this long for a member.
            delivery: "at_least_once" marks a batch for commit at the next poll; "at_most_once"
                commits it before it is returned.
            commit_interval_ms: the interval of commits, besides that on `close`; None: only
                `commit` commits.
            offsets_storage: the store of offsets: "kafka", or "zookeeper" as in Kafka's old
                high-level consumer.
            dual_commit: store offsets in both, and start at the greater one.
            zookeeper: the address of ZooKeeper, as "host:port,.../chroot".
            zookeeper_config: properties of TLS and digest.
            start: the start without a committed offset: "earliest", "latest", a time as in `read`,
                or "committed": then `poll` raises `NoCommittedOffset`.
            out_of_range: the reset if the log does not have the position: "raise", "earliest" or
                "latest".
            isolation: as in `read`.
            columns, headers, decode: as in `read`; with decode="json" each batch has its own type.
            max_records: the maximum of rows in a batch; None: no limit.
            max_bytes_per_batch: the maximum of bytes per fetch of a partition.
            buffer_bytes: the maximum of bytes fetched ahead, or a single larger record batch.
            max_wait_ms: the time that a broker may hold a fetch while there are no records.
            idle_timeout_ms: iteration ends after this time without records; None: never. The time
                starts again when partitions are assigned, and is longer by
                `max_poll_interval_ms` before the first assignment.
            metadata_refresh_ms: the interval at which new topics and partitions are looked for.
            on_assigned, on_revoked, on_lost: called with a set of (topic, partition), in the
                polling thread. Other members may already read lost partitions; by default
                `on_revoked` is called for these, too.
            on_reset: called with (topic, partition), old and new position, after a reset.

        Returns:
            A consumer, which must be closed before its client: a context manager that iterates
            over batches with the columns of `read`.

        Raises:
            UnknownTopic: without a group, a topic does not exist. A group waits for it.
            TypeError, ValueError: an argument is invalid.
        """
        # Of many modules, which programs without a consumer need not load.
        from drumlin.client.consumer import Consumer
        from drumlin.client.consumer.options import ConsumerOptions, Subscription

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
            raise ValueError("either topics or assign is required, and not both")
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


def read_lines(
    client: ReadingCalls,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    isolation: Isolation,
    form_of: Callable[[int], LineForm],
    count_max: int,
) -> Iterator[tuple[int, Lines]]:
    """Records as lines of text, for the command line: the partition of each piece, and its lines.

    Args:
        client, topic: where to read.
        starts, ends: offsets, by partition.
        isolation: as in `Client.read`.
        form_of: the form of the lines of a partition.
        count_max: the number of records at most.

    Raises:
        UnknownTopic, OffsetOutOfRange: as from `Client.read`.
    """
    with translated():
        connections = client._connections
        planned = reader.plan(connections, topic, list(starts), starts, ends, isolation)
        ranges = client._run(planned)
        yield from reader.read_lines(
            client._thread, connections, ranges, isolation, form_of, count_max
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
    """Check and collect the options of reading.

    Raises:
        TypeError, ValueError: an option is invalid.
        ModuleNotFoundError: Arrow is not installed.
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
