"""What a task makes of batches: no Spark is needed for that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from drumlin import Decoded, SchemaRegistry, UnknownSchema, ValueDecoder
from drumlin.client.values.framing import header
from drumlin.spark.values.bad_records import BadRecord, BadRecords
from drumlin.spark.values.batches import BatchDecoding, ColumnDecoding
from rig.servers.schema_registry import running_registry

VALUE = ColumnDecoding(ValueDecoder(pa.schema([("id", pa.int64())])), "value", "value")
KEY = ColumnDecoding(ValueDecoder(pa.schema([("k", pa.int64())])), "key", "key")
ROWS = [
    (b'{"k":1}', b'{"id":1}'),
    (b"no", b'{"id":2}'),
    (b'{"k":3}', b"no"),
    (b"no", b"no"),
    (b"no", None),
    (None, None),
]


def results(bad_records: BadRecords, *columns: ColumnDecoding) -> list[dict[str, Any]]:
    keys, values = zip(*ROWS, strict=True)
    arrays = {"key": pa.array(keys), "value": pa.array(values), "offset": pa.array(range(6))}
    batch = pa.RecordBatch.from_pydict(arrays)
    decoding = BatchDecoding(columns, bad_records)
    return [row for found in decoding(iter([batch])) for row in found.to_pylist()]


def test_a_record_is_bad_if_its_key_or_its_value_is() -> None:
    rows = results("column", VALUE, KEY)
    assert [row["key"] and row["key"]["k"] for row in rows] == [1, None, 3, None, None, None]
    assert [row["value"] and row["value"]["id"] for row in rows] == [1, 2, None, None, None, None]
    bad = [(row["raw_key"], row["raw"]) for row in rows]
    assert bad == [(None, None), *ROWS[1:5], (None, None)]
    reason = "not JSON of this schema: Expecting value: line 1 column 1 (char 0)"
    both = f"{reason}; key: {reason}"
    assert [row["error"] for row in rows] == [
        *(None, f"key: {reason}", reason, both, f"key: {reason}", None)
    ]
    assert [row["offset"] for row in results("drop", VALUE, KEY)] == [0, 5]
    with pytest.raises(BadRecord, match=r"offset 1: cannot be decoded: key: not JSON.*3 more"):
        results("fail", VALUE, KEY)


def test_each_alone() -> None:
    assert [row["raw"] for row in results("column", VALUE)] == [
        None,
        None,
        b"no",
        b"no",
        None,
        None,
    ]
    rows = results("column", KEY)
    assert [row["raw_key"] for row in rows] == [None, b"no", None, b"no", b"no", None]
    assert "raw" not in rows[0]


class _Small(ValueDecoder):
    """Decodes so many values at a time."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(pa.schema([(name, pa.int64())]))
        self._size = size

    def pieces(self, values: pa.Array) -> Iterator[tuple[int, Decoded]]:
        for start in range(0, len(values), self._size):
            for at, decoded in super().pieces(values.slice(start, self._size)):
                yield start + at, decoded


def test_pieces_of_values_and_of_keys() -> None:
    """However a batch is cut to stay within the memory, what belongs together stays so."""
    whole = results("column", VALUE, KEY)
    for sizes in ((2, 3), (3, 2), (1, 6), (6, 1)):
        value = ColumnDecoding(_Small("id", sizes[0]), "value", "value")
        key = ColumnDecoding(_Small("k", sizes[1]), "key", "key")
        assert results("column", value, key) == whole


@pytest.mark.parametrize("bad_records", ["drop", "column"])
def test_a_record_whose_schema_is_missing_for_now_is_not_dropped(bad_records: BadRecords) -> None:
    with running_registry() as rig:
        registry = SchemaRegistry(rig.url, patience_ms=0)
        decoder = ValueDecoder('"long"', format="avro", registry=registry)
        batch = pa.RecordBatch.from_pydict({"value": [header(7) + b"\2"]})
        columns = (ColumnDecoding(decoder, "value", "value"),)
        with pytest.raises(UnknownSchema, match="schema 7"):
            list(BatchDecoding(columns, bad_records)(iter([batch])))
