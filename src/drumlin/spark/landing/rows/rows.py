"""Converts a topic's records to rows of a target: with values as bytes, or as typed columns.

Contains the names and types of all columns, and the function for tasks. Knows no kind of target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drumlin.spark.landing.rows.mode import TOMBSTONE, Mode
from drumlin.spark.values.bad_records import ERROR_COLUMN, RAW_COLUMN, BadRecords
from drumlin.spark.values.batches import BatchDecoding, ColumnDecoding

if TYPE_CHECKING:
    from drumlin.client.values.decoder import ValueDecoder
    from drumlin.spark.landing.rows.typed import TypedValues

_PLACE: Final = (
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.timestamp("us", "UTC"), nullable=False),
)
_HEADER: Final = pa.struct({"key": pa.string(), "value": pa.binary()})
_HEADERS: Final = pa.field("headers", pa.list_(pa.field("element", _HEADER, nullable=False)))
_BAD: Final = (pa.field(ERROR_COLUMN, pa.string()), pa.field(RAW_COLUMN, pa.binary()))
_OWN: Final = {
    *("partition", "offset", "timestamp", "timestamp_ms", "key", "headers", "day", "hour"),
    *(TOMBSTONE, ERROR_COLUMN, RAW_COLUMN),
}


class _Typed(NamedTuple):
    decoding: BatchDecoding
    fields: tuple[pa.Field, ...]


@dataclass(frozen=True)
class Rows:
    """The rows of a mode. Callable: for `Batch.map`, on record batches with the columns `read`.

    `schema`: the schema of the rows. A tombstone is a row as well; `live` leaves it out.
    """

    mode: Mode
    schema: pa.Schema
    _typed: _Typed | None = None

    @classmethod
    def of(cls, mode: Mode, values: TypedValues | None = None, topic: str = "") -> Rows:
        """The rows of this mode.

        Raises:
            SchemaError, RegistryError, DecoderUnavailable, ValueError: from making the decoder.
        """
        typed = None if values is None else _typed(values.decoder(topic), values.bad_records)
        key = pa.field("key", pa.binary(), nullable=mode == "append")
        fields = [*_PLACE, key, pa.field("value", pa.binary())]
        if typed is not None:
            fields[-1:] = [*typed.fields, pa.field(TOMBSTONE, pa.bool_())]
            if typed.decoding.bad_records == "column":
                fields += _BAD
        if mode == "append":
            fields.append(_HEADERS)
        return cls(mode, pa.schema(fields), typed)

    @property
    def read(self) -> str:
        """The columns of the topic to read."""
        names = ["partition", "offset", "timestamp", "key", "value"]
        return ",".join([*names, *(["headers"] if self.mode == "append" else [])])

    @property
    def is_typed(self) -> bool:
        """Whether values are typed columns."""
        return self._typed is not None

    @property
    def bad_records(self) -> BadRecords:
        """The handling of records whose values cannot be decoded."""
        return "fail" if self._typed is None else self._typed.decoding.bad_records

    @property
    def values(self) -> list[str]:
        """The columns that hold the value, which are null for a tombstone."""
        if self._typed is None:
            return ["value"]
        return [each.name for each in self._typed.fields]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of these records. In mode `upsert`, records without a key have none.

        Raises:
            BadRecord: a value cannot be decoded, and bad records fail the landing.
        """
        if self.mode == "upsert":
            batches = (batch.filter(pc.is_valid(batch["key"])) for batch in batches)
        if self._typed is not None:
            batches = self._typed.decoding(_with_tombstones(each) for each in batches)
        for batch in batches:
            yield self._row(batch)

    def live(self, rows: pa.Table) -> pa.Array:
        """A mask of the rows that are not tombstones."""
        if self._typed is None:
            return pc.is_valid(rows["value"])
        return pc.invert(rows[TOMBSTONE])

    def _row(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = {name: batch[name] for name in batch.schema.names}
        if self._typed is not None:
            decoded = columns.pop("value")
            is_record = pa.types.is_struct(self._typed.decoding.columns[0].decoder.type)
            for index, field in enumerate(self._typed.fields):
                columns[field.name] = pc.struct_field(decoded, index) if is_record else decoded
        arrays = [columns[each.name].cast(each.type) for each in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def aligned(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """These rows with the columns of `schema`; columns that they lack are null."""
    there = set(rows.schema.names)
    columns: list[Any] = [
        rows[each.name].cast(each.type) if each.name in there else pa.nulls(len(rows), each.type)
        for each in schema
    ]
    return pa.table(columns, schema=schema)


def _typed(decoder: ValueDecoder, bad_records: BadRecords) -> _Typed:
    """
    Raises:
        ValueError: two columns would have the same name.
    """
    kind = decoder.type
    given = list(kind) if pa.types.is_struct(kind) else [pa.field("value", kind)]
    fields: dict[str, pa.Field] = {}
    for each in given:
        name = f"value_{each.name}" if each.name.lower() in _OWN else each.name
        if name.lower() in {other.lower() for other in fields}:
            raise ValueError(f"the values' schema has two fields for a column {name!r}")
        fields[name] = pa.field(name, each.type)
    decoding = BatchDecoding((ColumnDecoding(decoder, "value", "value"),), bad_records)
    return _Typed(decoding, tuple(fields.values()))


def _with_tombstones(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column(TOMBSTONE, pc.is_null(batch["value"]))
