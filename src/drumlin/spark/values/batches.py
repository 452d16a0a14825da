"""Decodes a column of Arrow batches in a worker, and does with bad records what was chosen.

Owns what a task yields for a batch: its columns, the decoded ones among them, and the two that
tell of bad records. It reads no topic and knows nothing of DataFrames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drumlin.spark.values.bad_records import ERROR_COLUMN, RAW_COLUMN, BadRecord, BadRecords

if TYPE_CHECKING:
    from drumlin.client.values.decoded import Decoded
    from drumlin.client.values.decoder import ValueDecoder


@dataclass(frozen=True)
class BatchDecoding:
    """What is done with each batch: a function for `mapInArrow`, `map_batches` and `map_stream`.

    `into` is the name of the decoded column; None, if its fields become columns of their own.
    """

    decoder: ValueDecoder
    column: str
    into: str | None
    bad_records: BadRecords

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches with the decoded column.

        Raises:
            BadRecord: a value cannot be decoded, and that is to stop the query.
        """
        for batch in batches:
            values = batch.column(self.column)
            for start, decoded in self.decoder.pieces(values):
                piece = batch.slice(start, len(decoded.values))
                if self.bad_records == "fail":
                    _refuse(piece, decoded)
                yield self._result(piece, decoded)

    def _result(self, piece: pa.RecordBatch, decoded: Decoded) -> pa.RecordBatch:
        bad = np.zeros(len(decoded.values), bool)
        bad[list(decoded.reasons)] = True
        columns = {name: piece.column(name) for name in piece.schema.names}
        raw = columns[self.column]
        if self.into is None:
            del columns[self.column]
            for index, field in enumerate(decoded.values.type):
                columns[field.name] = _field(decoded.values, index)
        else:
            columns[self.into] = decoded.values
        if self.bad_records == "column":
            reasons = [decoded.reasons.get(row) for row in range(len(bad))]
            columns[ERROR_COLUMN] = pa.array(reasons, pa.string())
            columns[RAW_COLUMN] = pc.if_else(pa.array(bad), raw, pa.scalar(None, raw.type))
        result = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return result.filter(pa.array(~bad)) if self.bad_records == "drop" and bad.any() else result


def _field(values: pa.Array, index: int) -> pa.Array:
    """A field of structs; null where the struct is."""
    return pc.struct_field(values, index)


def _refuse(piece: pa.RecordBatch, decoded: Decoded) -> None:
    if not decoded.reasons:
        return
    row = min(decoded.reasons)
    where = [
        f"{name} {piece.column(name)[row].as_py()}" for name in _PLACE if name in piece.schema.names
    ]
    others = len(decoded.reasons) - 1
    more = f"; so are {others} more in this batch" if others else ""
    raise BadRecord(
        f"{' '.join(where) or 'a record'}: the value cannot be decoded: "
        f"{decoded.reasons[row]}{more}"
    )


_PLACE: Final[Sequence[str]] = ("topic", "partition", "offset")
