"""The entries of a state, which are records between the stages, and the rows made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drumlin.records.latest.latest_rows import LatestRows
from drumlin.spark.reading.columns import arrow_schema

_NEEDED: Final = ("key", "partition", "offset")


def entry_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that entries need, for a result with `columns`.

    Without values, `has_value` tells which entries are not tombstones.
    """
    value = "value" if "value" in columns else "has_value"
    more = [name for name in columns if name not in (*_NEEDED, "value", "topic")]
    return (*_NEEDED, value, *more)


def entry_schema(columns: Sequence[str]) -> pa.Schema:
    """The schema of entries with these columns."""
    fields = [
        pa.field(name, pa.bool_()) if name == "has_value" else arrow_schema((name,)).field(0)
        for name in columns
    ]
    return pa.schema(fields)


def read_columns(columns: Sequence[str]) -> list[str]:
    """The columns to read from the topic, in the order of the entries' columns."""
    return ["value" if name == "has_value" else name for name in columns]


def as_entries(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Entries from records as they were read."""
    arrays = [
        pc.is_valid(array) if name == "has_value" else array
        for name, array in zip(columns, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=entry_schema(columns))


def as_rows(entries: pa.RecordBatch, topic: str, columns: Sequence[str]) -> pa.RecordBatch:
    """Rows from entries, with exactly these columns, as Spark expects them."""
    arrays = [
        pa.repeat(pa.scalar(topic), entries.num_rows) if name == "topic" else entries.column(name)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


class Entries:
    """The entries of a task: the last one of each key, and for changes all from `since` on."""

    def __init__(self, since: Mapping[int, int]) -> None:
        self._since = offsets_by_partition(since)
        self._reset()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add records; those without a key are ignored."""
        if not len(self._since):
            self._latest.add(batch)
            return
        is_later = is_since(batch, self._since)
        if not is_later.all():
            self._latest.add(batch.filter(pa.array(~is_later)))
        if is_later.any():
            later = batch.filter(pc.and_(pa.array(is_later), pc.is_valid(batch.column("key"))))
            self._later.append(later)
            self._later_bytes += later.nbytes

    def outgrow(self, limit_bytes: int) -> bool:
        """Whether the entries take more than about this much memory, without replaced ones."""
        return self._latest.outgrow(limit_bytes - self._later_bytes)

    def taken(self) -> Iterator[pa.RecordBatch]:
        """Remove and return all entries, tombstones included."""
        latest, later = self._latest, self._later
        self._reset()
        yield from latest.rows(with_tombstones=True)
        yield from later

    def _reset(self) -> None:
        self._latest = LatestRows()
        self._later: list[pa.RecordBatch] = []
        self._later_bytes = 0


def offsets_by_partition(offsets: Mapping[int, int]) -> np.ndarray:
    """An array of offsets, indexed by partition."""
    found = np.zeros(max(offsets, default=-1) + 1, np.int64)
    found[list(offsets)] = list(offsets.values())
    return found


def is_since(batch: pa.RecordBatch, since: np.ndarray) -> np.ndarray:
    """A mask of the rows with an offset at or above that of their partition."""
    partitions = batch.column("partition").to_numpy()
    found: np.ndarray = batch.column("offset").to_numpy() >= since[partitions]
    return found
