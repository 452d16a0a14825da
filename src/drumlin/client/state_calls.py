"""The calls of a `Client` for the state of a log: the last value of every key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from drumlin.client import arguments
from drumlin.client.arguments import STATE_BYTES, Decode
from drumlin.client.calls import Calls
from drumlin.client.errors import translating
from drumlin.client.needs_arrow import needing_arrow
from drumlin.client.places import Point, check_point
from drumlin.client.state import exact_states
from drumlin.client.state.exact_reading import ExactReader
from drumlin.client.state.snapshot_ranges import ranges_until
from drumlin.peer.options import Isolation

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.read.range_stream import OffsetRange
    from drumlin.client.state.snapshots import SnapshotOptions, StateReader


class StateCalls(Calls):
    """The calls that read states."""

    def snapshot(
        self,
        topic: str,
        *,
        at: Point | None = None,
        columns: Sequence[str] | None = None,
        partitions: Sequence[int] | None = None,
        headers: bool = False,
        decode: Decode | None = None,
        isolation: Isolation = "read_committed",
        allow_inexact: bool = False,
    ) -> pa.Table:
        """A compacted topic as a table: the last record of every key, without tombstones.

        Equal keys in two partitions are two keys. Records without a key are left out. Only
        leaders are read.

        Args:
            topic: the topic's name.
            at: the state at a time (an aware datetime, or `Milliseconds`): that of the log
                before the first later record; or at these end offsets, one for each partition
                that is read. None: now, which is one point for all partitions.
            columns: the columns to return, in this order; all by default.
            partitions: their numbers; all by default.
            headers: add the column `headers`, lists of (key, value).
            decode: "utf8" or "json", as in `read`.
            isolation: "read_committed" leaves out records of aborted transactions, and all from
                the first open transaction; "read_uncommitted", the default of `read`, reads all
                records in the log.
            allow_inexact: return the rest of a state even if the cleaner has removed some of it.

        Returns:
            A row for each key, in offset order, partition after partition. Columns are `key` and
            `value` (binary, unless `decode` says otherwise), `headers` (lists of structs of `key`
            and `value`, on request), `partition` (int32), `offset` (int64) and `timestamp` (UTC,
            milliseconds).

        Raises:
            StateNotExact: a cleaner has removed, or may have removed, records of that state
                which later ones have replaced.
            UnknownTopic: there is no such topic or partition.
            OffsetOutOfRange: an offset in `at` is not in the log (yet).
            Undecodable: a key or a value cannot be decoded; names the record.
            TypeError, ValueError: an argument is invalid.
        """
        with needing_arrow():
            import pyarrow as pa

            from drumlin.client import tables
            from drumlin.client.state import snapshots

        schema = snapshots.schema_of(columns, headers=headers)
        arguments.decoding(decode)
        options = snapshots.SnapshotOptions(schema, isolation, None)
        batches = self._snapshot(topic, at, partitions, options, allow_inexact=allow_inexact)
        table = pa.Table.from_batches(list(batches), schema)
        return tables.decoded(table, decode, topic)

    def snapshot_batches(
        self,
        topic: str,
        *,
        at: Point | None = None,
        columns: Sequence[str] | None = None,
        partitions: Sequence[int] | None = None,
        headers: bool = False,
        decode: Decode | None = None,
        isolation: Isolation = "read_committed",
        memory_bytes: int = STATE_BYTES,
        allow_inexact: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Like `snapshot`, in batches, for states larger than memory.

        Each partition is read when the iteration reaches it.

        Args:
            topic, at, columns, partitions, headers, isolation, allow_inexact: as in `snapshot`.
            decode: as in `snapshot`; with "json" each batch has its own type.
            memory_bytes: the memory limit of one partition's state. A larger one is read several
                times, each time for a part of its keys, and then its rows are in no order.

        Returns:
            Batches with the columns of `snapshot`.

        Raises:
            OffsetOutOfRange: an offset in `at` is not in the log (yet); or the log start offset
                moves past the current position.
            StateNotExact, UnknownTopic, Undecodable, TypeError, ValueError: as with `snapshot`.
        """
        with needing_arrow():
            from drumlin.client import tables
            from drumlin.client.state import snapshots

        schema = snapshots.schema_of(columns, headers=headers)
        arguments.decoding(decode)
        arguments.whole_number("memory_bytes", memory_bytes, 1, 2**63 - 1)
        options = snapshots.SnapshotOptions(schema, isolation, memory_bytes)
        batches = self._snapshot(topic, at, partitions, options, allow_inexact=allow_inexact)
        return (tables.decoded(batch, decode, topic) for batch in batches)

    def _snapshot(
        self,
        topic: str,
        at: Point | None,
        partitions: Sequence[int] | None,
        options: SnapshotOptions,
        *,
        allow_inexact: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Read a snapshot; its point is looked up at once, not with the first batch."""
        states, ranges = self._states(topic, at, partitions, options, allow_inexact=allow_inexact)
        return translating(batch for wanted in ranges for batch in states.read(wanted))

    def _states(
        self,
        topic: str,
        at: Point | None,
        partitions: Sequence[int] | None,
        options: SnapshotOptions,
        *,
        allow_inexact: bool,
    ) -> tuple[StateReader, Sequence[OffsetRange]]:
        """The reader of states, and the ranges that it must read."""
        from drumlin.client.state.snapshots import StateReader

        partitions = arguments.partition_numbers(partitions)
        check_point("at", at)
        isolation = options.isolation
        arguments.isolation_level(isolation)
        ranges = ranges_until(self._thread, self._connections, topic, partitions, at, isolation)
        ends = {each.place: each.end_offset for each in ranges}
        claims = self._run(
            exact_states.claim_states(
                self._connections, ends, is_now=at is None, allow_inexact=allow_inexact
            )
        )
        exact_reader = ExactReader(self._thread, self._connections, claims)
        return StateReader(exact_reader, options), ranges
