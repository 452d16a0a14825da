"""The calls of a `Client` about the state that a log tells: the last value of every key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from drumlin.client import arguments
from drumlin.client.arguments import STATE_BYTES, Decode
from drumlin.client.calls import Calls
from drumlin.client.errors import translated
from drumlin.client.needs_arrow import needing_arrow
from drumlin.client.places import Point, check_point
from drumlin.client.read.log_at_time import ends_at
from drumlin.client.read.offsets import TopicPartition
from drumlin.client.state import exact_states
from drumlin.client.state.exact_reading import ExactReader
from drumlin.client.state.snapshot_ranges import ranges_until
from drumlin.client.state.state_claims import Claims
from drumlin.peer.options import Isolation

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.state.snapshots import SnapshotOptions


class StateCalls(Calls):
    """From a log to the table that was written as it."""

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
        """What a compacted topic stands for: the last record of every key, without tombstones.

        Equal keys in two partitions are two keys. Records without a key are left out. Only
        leaders are read. Columns are `key`, `value`, `headers` (if asked for), `partition`,
        `offset` and `timestamp`; rows come in offset order, partition after partition.

        Args:
            topic: the topic's name.
            at: the state at a time (an aware datetime, or `Milliseconds`): as the log
                is before the first record that is younger; or at these end offsets, one for each
                partition that is read. None: now, which is one point for all partitions.
            columns: the columns wanted, in this order; all by default.
            partitions: their numbers; all by default.
            headers: add the column `headers`, lists of (key, value).
            decode: "utf8" or "json", as in `read`.
            isolation: "read_committed" leaves out records of transactions that are aborted, and
                everything from the first open transaction on.
            allow_inexact: give what the log still tells of a state that it does not tell exactly.

        Raises:
            StateNotExact: a cleaner has removed, or may have removed, records of that state
                which later ones have replaced.
            UnknownTopic: there is no such topic or partition.
            OffsetOutOfRange: an offset of `at` is not in the log, or not yet.
            Undecodable: a key or a value is not what `decode` says; it names the record.
            TypeError, ValueError: an argument cannot have this value.
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
        """Like `snapshot`, piece by piece, for states that are larger than memory.

        Each partition is read when its rows are asked for. A partition whose state takes more
        than `memory_bytes` (1 GiB) is read several times, each time for a part of its keys; then
        its rows come in no particular order. With decode="json" each batch has a type of its own.

        Raises:
            OffsetOutOfRange: an offset of `at` is not in the log, or not yet; or the log's start
                moves past what is still to be read.
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
        """The point is found at once, not when the first batch is asked for."""
        from drumlin.client.state.snapshots import StateReader

        check_point("at", at)
        isolation = options.isolation
        arguments.isolation_level(isolation)
        ranges = ranges_until(self._thread, self._connections, topic, partitions, at, isolation)
        ends = {(topic, each.partition): each.end_offset for each in ranges}
        claims = self.claim_states(ends, is_now=at is None, allow_inexact=allow_inexact)
        exact_reader = ExactReader(self._thread, self._connections, claims)
        states = StateReader(exact_reader, options)
        return _translated(batch for wanted in ranges for batch in states.read(wanted))

    def exact_from(self, topic: str) -> dict[int, int]:
        """From which end offset on the log tells every state that it had, for each partition.

        A state before that can't be read exactly any more: the cleaner has removed records of it.
        Partitions whose brokers do not tell are left out, and so all of an Apache Kafka.

        Raises:
            UnknownTopic: there is no such topic.
        """
        arguments.text("topic", topic)
        return self._run(self._exact_from(topic))

    async def _exact_from(self, topic: str) -> dict[int, int]:
        partitions = await self._connections.partitions(topic)
        places = [(topic, each) for each in partitions]
        found = await exact_states.exact_from(self._connections, places)
        return {partition: each.exact_from for (_, partition), each in found.items()}

    def ends_at(
        self,
        end_offsets: Mapping[TopicPartition, int],
        at_ms: int,
        *,
        isolation: Isolation = "read_committed",
    ) -> dict[TopicPartition, int]:
        """How far logs reached at a time: the offset of the first record that is younger.

        Unlike those of `list_offsets`, it is never that of a transaction's marker.

        Args:
            end_offsets: the ends of the logs, looked up just now: what they are where no record
                is younger.
            at_ms: milliseconds since 1970, whose records count.
            isolation: for "read_committed", records of aborted transactions are none.
        """
        with translated():
            return ends_at(self._thread, self._connections, end_offsets, at_ms, isolation)

    def claim_states(
        self,
        end_offsets: Mapping[TopicPartition, int],
        *,
        is_now: bool = False,
        allow_inexact: bool = False,
    ) -> Claims:
        """Make sure, before logs are read, that they tell the states which they had at offsets.

        What is read afterwards is exact if `confirm_states` finds so; a claim that `needs_all` has
        to be read with `without_gaps`, from offset 0 on. All must be read from the leaders.

        Args:
            end_offsets: the offset after the last record of each state.
            is_now: these are the ends of the logs, looked up just now.
            allow_inexact: what is left of the states will do.

        Raises:
            StateNotExact: a log does not tell its state.
        """
        claiming = exact_states.claim_states(
            self._connections, end_offsets, is_now=is_now, allow_inexact=allow_inexact
        )
        return self._run(claiming)

    def confirm_states(self, claims: Claims) -> None:
        """Make sure, after logs were read, that what was read is what was claimed.

        Raises:
            StateNotExact: a cleaner, or another leader, has come in between.
        """
        self._run(exact_states.confirm_states(self._connections, claims))


def _translated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with translated():
        yield from batches
