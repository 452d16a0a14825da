"""Appends rows that arrive in small pieces to many topics, as in a long task.

Each partition has an open batch: rows are encoded into it as they arrive, and it is handed to the
loop when it is full. Memory is bounded for any number of rows: by a window for all open batches,
the largest of which are sent when it is full, and by the bytes that may be unacknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drumlin.client.errors import translated
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.topic_partition import TopicPartition
from drumlin.client.write.deliveries import (
    AppendedRange,
    Deliveries,
    DeliveryRules,
    EncodingRules,
    Target,
)
from drumlin.client.write.partitioner import Rows, StickyTurns, as_chosen, partitions_needed
from drumlin.client.write.row_sum import ROW_COLUMNS, RowsRefused, RowSum, topics_of
from drumlin.records.columns.columns import RecordColumns, milliseconds
from drumlin.records.columns.open_batches import OpenBatches, Sealed

#: Smaller pieces are encoded together with the next ones.
_PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class StreamReport:
    """The rows that were written. Offsets are -1 if brokers do not return them (acks="none").

    `checksum` is computed as in `records.arrow_checksum` from the data of the rows: a partition or
    timestamp that was assigned to a row is not included. 0 unless `with_checksum` is set.
    """

    record_count: int
    size_bytes: int
    checksum: int
    partitions: dict[TopicPartition, AppendedRange]


class StreamAppender:
    """`add` rows, then `finish`; after an error of either, `settle`.

    Rows are RecordBatches with columns of ROW_COLUMNS, all of one schema: keys and values are
    bytes or strings, `partition` is a whole number, `timestamp` an Arrow timestamp or
    milliseconds, `headers` lists of (key, value). A `topic` given here is used for all rows.
    A row without a partition gets the one that Kafka's producers would choose. Rows keep their
    order within a partition.
    """

    def __init__(
        self,
        thread: CoreLoop,
        target: Target,
        topic: str | None = None,
        *,
        encoding: EncodingRules | None = None,
        delivery: DeliveryRules | None = None,
    ) -> None:
        self._thread = thread
        self._target = target
        self._topic = topic
        self._encoding = encoding or EncodingRules()
        delivery = delivery or DeliveryRules()
        self._deliveries = Deliveries(thread, target, delivery)
        rules = self._encoding
        self._open = OpenBatches(
            rules.batch_bytes,
            rules.window_bytes,
            rules.compression,
            rules.compression_level,
            with_crc=not delivery.mode.is_idempotent,  # otherwise the sender sets ids and CRC
        )
        self._held: list[pa.RecordBatch] = []  # until they have enough bytes for a piece
        self._held_bytes = 0
        self._is_unfinished = False
        self._has_lost_rows = False
        self._rows_before = 0  # the number of rows before those that are being encoded
        self._sum = RowSum(topic)
        self._partitions: dict[str, list[int]] = {}
        self._places: dict[str, Rows] = {}  # by topic: of each partition, among the open batches
        self._place_names: list[TopicPartition] = []
        self._turns: dict[str, StickyTurns] = {}

    def add(self, rows: pa.RecordBatch) -> None:
        """Accept rows; waits while too many bytes are unacknowledged.

        Raises:
            RowsRefused: one of these rows, or an earlier one, cannot be a record.
            DeliveryFailed: a broker refused a batch permanently, or it timed out.
            UnknownTopic: a topic does not exist, and the broker does not create it.
        """
        self._is_unfinished = True
        window_bytes = self._encoding.window_bytes
        enough = min(_PIECE_BYTES, window_bytes)
        for piece in _pieces(rows, window_bytes):
            if piece.nbytes >= enough // 2:  # encoded by itself, so that it is not copied
                self._encode_held()
            self._held.append(piece)
            self._held_bytes += piece.nbytes
            if self._held_bytes >= enough // (2 if len(self._held) == 1 else 1):
                self._encode_held()

    def finish(self) -> StreamReport:
        """Write the remaining rows, and wait until all are acknowledged.

        Raises:
            RowsRefused, DeliveryFailed, UnknownTopic: as `add`.
        """
        self._encode_held()
        self._send(self._open.reduce(0))
        partitions = self._deliveries.finish()
        self._is_unfinished = self._has_lost_rows
        return StreamReport(
            self._deliveries.record_count,
            self._deliveries.size_bytes,
            self._sum.checksum,
            partitions,
        )

    @property
    def is_unfinished(self) -> bool:
        """Whether some of the accepted rows are not known to be written."""
        return self._is_unfinished

    def settle(self) -> int:
        """Drop unsent rows, wait for the rest, and return the number of records acknowledged."""
        self._held.clear()
        self._open.clear()
        return self._deliveries.settle()

    def _encode_held(self) -> None:
        if not self._held:
            return
        pieces = self._held
        if len(pieces) > 1:
            pieces = pa.Table.from_batches(pieces).combine_chunks().to_batches()
        self._held = []
        self._held_bytes = 0
        had_lost_rows, self._has_lost_rows = self._has_lost_rows, True  # if it raises
        for rows in pieces:  # one, unless a column has more than 2 GiB
            self._encode(rows)
            self._rows_before += rows.num_rows
        self._has_lost_rows = had_lost_rows

    def _encode(self, rows: pa.RecordBatch) -> None:
        columns = {name: rows.column(name) for name in ROW_COLUMNS if name in rows.schema.names}
        if "value" not in columns:
            raise RowsRefused(f"the rows have no column 'value'; they have {rows.schema.names}")
        self._check_times(columns.get("timestamp"))
        topics = list(topics_of(self._topic, columns.get("topic"), rows.num_rows, self._row))
        places = self._places_of(columns, topics, rows)
        records = self._records(columns)
        if self._encoding.with_checksum:
            self._sum.add_columns(columns, topics)
        self._send(self._open.add(records, places))
        if self._open.size_bytes > self._encoding.window_bytes:
            self._send(self._open.reduce(self._encoding.window_bytes // 2))

    def _send(self, batches: Iterable[Sealed]) -> None:
        for place, batch in batches:
            self._deliveries.send(*self._place_names[place], batch)

    def _records(self, columns: dict[str, pa.Array]) -> RecordColumns:
        try:
            return RecordColumns(
                columns["value"],
                keys=columns.get("key"),
                timestamps=columns.get("timestamp"),
                headers=columns.get("headers"),
                default_timestamp_ms=time.time_ns() // 1_000_000,
            )
        except ValueError as error:
            rows = enumerate(columns["headers"].to_pylist() if "headers" in columns else ())
            first = next((row for row, headers in rows if _has_nameless(headers)), None)
            if first is None:  # Arrow's error: a column cannot be converted to bytes
                raise
            raise RowsRefused(f"{self._row(first)}: {error}") from error

    # -- partitions of rows --------------------------------------------------------------

    def _places_of(
        self, columns: dict[str, pa.Array], topics: list[tuple[str, Rows]], rows: pa.RecordBatch
    ) -> Rows:
        """The place of each row's partition among the open batches."""
        count = rows.num_rows
        rows_per_batch = max(1, self._encoding.batch_bytes * count // max(1, rows.nbytes))
        places = np.empty(count, np.int64)
        for topic, of_topic in topics:
            whole = len(of_topic) == count  # the topic has all rows, in their order
            picked = {
                name: columns[name] if whole else columns[name].take(pa.array(of_topic))
                for name in ("partition", "key")
                if name in columns
            }
            needed = partitions_needed(picked["partition"]) if "partition" in picked else 0
            partitions = self._partitions_of(topic, needed)
            turns = self._turns.setdefault(topic, StickyTurns(len(partitions)))
            assigned = turns.assign(picked.get("key"), len(of_topic), rows_per_batch)
            if "partition" in picked:
                assigned = as_chosen(picked["partition"], assigned)
                self._check(topic, partitions, assigned, of_topic)
            places[slice(None) if whole else of_topic] = self._places[topic][assigned]
        return places

    def _partitions_of(self, topic: str, needed: int) -> list[int]:
        """The partitions of a topic, looked up at its first row, and again for a higher number."""
        known = self._partitions.get(topic)
        if known is None or len(known) < needed:
            with translated():
                found = self._thread.run(self._target.partitions(topic, needed))
            if known is not None and len(found) > len(known):
                self._turns.pop(topic)
            self._partitions[topic] = known = found
            self._extend_places(topic, len(found))
        return known

    def _extend_places(self, topic: str, partitions: int) -> None:
        """Add places for new partitions. Known ones keep theirs, as their batches may be open."""
        before = self._places.get(topic, np.empty(0, np.int64))
        first = len(self._place_names)
        self._place_names += [
            TopicPartition(topic, number) for number in range(len(before), partitions)
        ]
        more = np.arange(first, len(self._place_names), dtype=np.int64)
        self._places[topic] = np.concatenate([before, more])

    def _check(
        self, topic: str, partitions: list[int], assigned: NDArray[np.int64], rows: Rows
    ) -> None:
        wrong = (assigned < 0) | (assigned >= len(partitions))
        if wrong.any():
            first = int(np.argmax(wrong))
            raise RowsRefused(
                f"{self._row(int(rows[first]))} is for partition {assigned[first]} of topic "
                f"{topic!r}, which has the partitions 0 to {len(partitions) - 1}"
            )

    def _check_times(self, column: pa.Array | None) -> None:
        if column is None:
            return
        times = milliseconds(column, otherwise=0)
        if times.size and times.min() < 0:
            first = int(np.argmax(times < 0))
            raise RowsRefused(
                f"{self._row(first)} has the timestamp {times[first]}: milliseconds since 1970 "
                "cannot be below 0"
            )

    def _row(self, index: int) -> str:
        return f"row {self._rows_before + index}"


def _pieces(rows: pa.RecordBatch, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows in slices of about this size."""
    count = max(1, rows.num_rows * size_bytes // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, count):
        yield rows.slice(start, count)


def _has_nameless(headers: list[dict[str, Any] | None] | None) -> bool:
    return any(header is None or header["key"] is None for header in headers or ())
