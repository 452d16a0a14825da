"""Decodes columns of Arrow batches in a worker, and handles bad records as chosen.

Owns the columns that a task yields for a batch: decoded ones, and those for bad records. It reads
no topic and knows nothing of DataFrames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drumlin.spark.values.bad_records import ERROR_COLUMN, BadRecord, BadRecords, raw_column

if TYPE_CHECKING:
    from drumlin.client.values.decoder import ValueDecoder


@dataclass(frozen=True)
class ColumnDecoding:
    """The decoding of one column of bytes.

    `into` is the name of the decoded column; None, if its fields become columns of their own.
    """

    decoder: ValueDecoder
    column: str
    into: str | None


@dataclass(frozen=True)
class BatchDecoding:
    """The decoding of batches: a function for `mapInArrow` and `map_batches`."""

    columns: tuple[ColumnDecoding, ...]
    bad_records: BadRecords

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches with the decoded columns.

        Raises:
            BadRecord: a value or a key cannot be decoded, and `bad_records` is `fail`.
        """
        for batch in batches:
            for piece, decoded, reasons in self._decoded(batch, self.columns):
                if self.bad_records == "fail":
                    _refuse(piece, reasons)
                yield self._result(piece, decoded, reasons)

    def _decoded(
        self, batch: pa.RecordBatch, columns: Sequence[ColumnDecoding]
    ) -> Iterator[tuple[pa.RecordBatch, list[pa.Array], dict[int, str]]]:
        """Slices of a batch, each with its decoded columns, and the reasons for bad records."""
        if not columns:
            yield batch, [], {}
            return
        last = columns[-1]
        for piece, decoded, reasons in self._decoded(batch, columns[:-1]):
            for start, found in last.decoder.pieces(piece.column(last.column)):
                end = start + len(found.values)
                what = "key: " if last.column == "key" else ""
                both = {row - start: each for row, each in reasons.items() if start <= row < end}
                for row, reason in found.reasons.items():
                    both[row] = f"{both[row]}; {what}{reason}" if row in both else what + reason
                values = [each.slice(start, len(found.values)) for each in decoded]
                yield piece.slice(start, len(found.values)), [*values, found.values], both

    def _result(
        self, piece: pa.RecordBatch, decoded: Sequence[pa.Array], reasons: dict[int, str]
    ) -> pa.RecordBatch:
        bad = np.zeros(piece.num_rows, bool)
        bad[list(reasons)] = True
        columns = {name: piece.column(name) for name in piece.schema.names}
        kept = {raw_column(each.column): columns[each.column] for each in self.columns}
        for each, values in zip(self.columns, decoded, strict=True):
            if each.into is not None:
                columns[each.into] = values
                continue
            del columns[each.column]
            for index, field in enumerate(values.type):
                columns[field.name] = _field(values, index)
        if self.bad_records == "column":
            found = [reasons.get(row) for row in range(len(bad))]
            columns[ERROR_COLUMN] = pa.array(found, pa.string())
            for name, raw in kept.items():
                raw = raw.cast(pa.binary())
                columns[name] = pc.if_else(pa.array(bad), raw, pa.scalar(None, raw.type))
        result = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return result.filter(pa.array(~bad)) if self.bad_records == "drop" and bad.any() else result


def _field(values: pa.Array, index: int) -> pa.Array:
    """A field of structs; null where the struct is null."""
    return pc.struct_field(values, index)


def _refuse(piece: pa.RecordBatch, reasons: dict[int, str]) -> None:
    if not reasons:
        return
    row = min(reasons)
    where = [
        f"{name} {piece.column(name)[row].as_py()}" for name in _PLACE if name in piece.schema.names
    ]
    others = len(reasons) - 1
    more = f"; {others} more in this batch cannot be decoded" if others else ""
    raise BadRecord(f"{' '.join(where) or 'a record'}: cannot be decoded: {reasons[row]}{more}")


_PLACE: Final[Sequence[str]] = ("topic", "partition", "offset")
