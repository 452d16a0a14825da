"""The last row of every key, the state in a compacted log, as Arrow columns.

Rows are added in any order; for each (partition, key) the row with the largest offset is kept, with
all its columns. A tombstone is kept like any other row, and left out of the result. `LatestRows`
needs twice the memory of the rows that are kept, and 40 bytes per key. Another `LatestRows` can
merge the results of several, if they include tombstones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drumlin.records.columns.arrow_memory import Int64s, as_binary
from drumlin.records.kernels import record_kernels
from drumlin.records.kernels.row_index_layout import NOWHERE
from drumlin.records.latest.row_index import CompiledRowIndex, Int32s, PlainRowIndex, RowIndex

#: The number of rows from which kernels are used, as their tables take memory.
_ROWS_WORTH_KERNELS: Final = 10_000
#: Old rows are removed once they outnumber the last rows and there are at least this many.
#: Half as many old rows as last rows are left; removing fewer at a time would cost more per row.
_DEAD_ROWS_AT_LEAST: Final = 1 << 16
_DEAD_ROWS_LEFT: Final = 0.5
#: All old rows are removed when rows take twice as many bytes as after the last removal, since a
#: few old rows may be large.
_ROW_BYTES_AT_LEAST: Final = 64 << 20
#: With a memory limit, the part of it that the last rows may take: otherwise old rows would have to
#: be removed again and again.
_LIMIT_PART: Final = 0.75
#: A piece of which at least this part is wanted is kept without copying at first.
_WANTED_PART_MIN: Final = 0.75
_ROWS_MIN: Final = 64
#: Smaller pieces are joined when rows are removed.
_PIECE_ROWS: Final = 1 << 14
_PIECE_BYTES: Final = 2 << 20


class _Piece(NamedTuple):
    """Some rows, each with the number of its entry in the index."""

    rows: pa.RecordBatch
    ids: Int32s

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes) + self.ids.nbytes


class LatestRows:
    """Keeps the last row of every key of record batches with the same schema.

    These columns have a meaning; all others are kept with their rows:

        offset     int64
        key        bytes; rows with a null key are left out
        partition  int32, optional; equal keys of different partitions are different keys
        value      optional; null for a tombstone
        has_value  bool, in place of `value`; false for a tombstone
    """

    def __init__(self) -> None:
        self._index: RowIndex = PlainRowIndex()
        self._pieces: list[_Piece] = []
        self._row_count = 0
        self._row_bytes = 0
        self._row_bytes_before = 0  # the size after the last removal of old rows
        self._rows_seen = 0

    @property
    def key_count(self) -> int:
        """The number of keys, including those of tombstones."""
        return self._index.count

    @property
    def nbytes(self) -> int:
        """The memory of rows and keys in bytes."""
        return self._index.nbytes + self._row_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            OverflowError: more than about 2^31 keys.
        """
        self._rows_seen += batch.num_rows
        if self._rows_seen > _ROWS_WORTH_KERNELS and isinstance(self._index, PlainRowIndex):
            self._use_kernels()
        ids = self._index.add(as_binary(batch.column("key")), *_places(batch))
        self._keep(_wanted(batch, ids))
        if self._dead_rows > max(self.key_count, _DEAD_ROWS_AT_LEAST):
            self._compact(int(_DEAD_ROWS_LEFT * self.key_count))
        elif self._row_bytes > max(2 * self._row_bytes_before, _ROW_BYTES_AT_LEAST):
            self._compact(0)

    def outgrow(self, limit_bytes: int) -> bool:
        """Whether rows and keys take about `limit_bytes`, after removing old rows if that helps.

        If not, there is room for further rows.
        """
        if self.nbytes <= limit_bytes:
            return False
        if self._dead_rows:
            self._compact(0)
        return self.nbytes > _LIMIT_PART * limit_bytes

    def rows(self, *, with_tombstones: bool = False) -> Iterator[pa.RecordBatch]:
        """The last row of every key, in the order of their addition.

        Tombstones are left out, unless another `LatestRows` will merge the rows.
        """
        for piece in self._pieces:
            is_wanted = self._index.is_last(piece.ids, _offsets(piece.rows))
            if not with_tombstones:
                is_wanted &= _has_value(piece.rows)
            if is_wanted.all():
                yield piece.rows
            elif is_wanted.any():
                yield _selected(*piece, is_wanted).rows

    def _use_kernels(self) -> None:
        kernels = record_kernels.loaded
        if kernels is None:
            return
        pieces = self._pieces
        self._index = CompiledRowIndex(kernels)
        self._pieces, self._row_count, self._row_bytes = [], 0, 0
        for rows, _ in pieces:
            ids = self._index.add(as_binary(rows.column("key")), *_places(rows))
            self._keep(_wanted(rows, ids))

    @property
    def _dead_rows(self) -> int:
        return self._row_count - self.key_count

    def _keep(self, piece: _Piece) -> None:
        if len(piece.ids):
            self._pieces.append(piece)
            self._row_count += len(piece.ids)
            self._row_bytes += piece.nbytes

    def _compact(self, dead_rows_left: int) -> None:
        """Remove old rows, beginning with the pieces that have the most of them."""
        pieces = self._pieces
        masks = [self._index.is_last(each.ids, _offsets(each.rows)) for each in pieces]
        live = np.array([np.count_nonzero(each) for each in masks])
        sizes = np.array([len(each) for each in masks])
        order = np.argsort(live / sizes)
        dead_after = self._dead_rows - np.cumsum((sizes - live)[order])
        enough = int(np.searchsorted(-dead_after, -dead_rows_left)) + 1
        chosen = set(order[:enough].tolist())
        self._pieces, self._row_count, self._row_bytes = [], 0, 0
        joined: list[_Piece] = []
        for number, is_last in enumerate(masks):
            piece, pieces[number] = pieces[number], _NOTHING  # so that only a few rows exist twice
            if number in chosen:
                joined.append(_selected(*piece, is_last))
            if joined and (number not in chosen or not _is_small(joined)):
                self._keep(_joined(joined))
                joined = []
            if number not in chosen:
                self._keep(piece)
        if joined:
            self._keep(_joined(joined))
        self._row_bytes_before = self._row_bytes


_NOTHING: Final = _Piece(pa.record_batch([], names=[]), np.empty(0, np.int32))


def _is_small(pieces: list[_Piece]) -> bool:
    return (
        sum(len(each.ids) for each in pieces) < _PIECE_ROWS
        and sum(each.nbytes for each in pieces) < _PIECE_BYTES
    )


def _joined(pieces: list[_Piece]) -> _Piece:
    if len(pieces) == 1:
        return pieces[0]
    rows = pa.concat_batches([each.rows for each in pieces])
    return _Piece(rows, np.concatenate([each.ids for each in pieces]))


def _wanted(batch: pa.RecordBatch, ids: Int32s) -> _Piece:
    """The rows with an entry, and a few others if copying would cost more."""
    is_wanted = ids != NOWHERE
    if batch.num_rows >= _ROWS_MIN and is_wanted.mean() >= _WANTED_PART_MIN:
        return _Piece(batch, ids)
    return _selected(batch, ids, is_wanted)


def _selected(batch: pa.RecordBatch, ids: Int32s, is_wanted: NDArray[np.bool_]) -> _Piece:
    """A copy of these rows, as their buffers may be far larger."""
    return _Piece(batch.filter(pa.array(is_wanted)), ids[is_wanted])


def _offsets(batch: pa.RecordBatch) -> Int64s:
    offsets: Int64s = batch.column("offset").to_numpy()
    return offsets


def _places(batch: pa.RecordBatch) -> tuple[Int64s, Int32s | None]:
    """Offset and partition of each row."""
    if "partition" not in batch.schema.names:
        return _offsets(batch), None
    partitions: Any = batch.column("partition").to_numpy()
    return _offsets(batch), np.ascontiguousarray(partitions, np.int32)


def _has_value(batch: pa.RecordBatch) -> Any:
    """Whether each row has a value, and so is not a tombstone."""
    names = batch.schema.names
    if "has_value" in names:
        return batch.column("has_value").to_numpy(zero_copy_only=False)
    if "value" in names:
        return pc.is_valid(batch.column("value")).to_numpy(zero_copy_only=False)
    return np.True_
