"""Arrow batches for Spark: the very schema, and the very values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from drumlin.records.columns.columns import RECORD_SCHEMA, RECORD_SCHEMA_WITH_HEADERS
from drumlin.spark.options.source_rows import COLUMNS
from drumlin.spark.reading.columns import (
    SparkColumns,
    TimestampTooLarge,
    arrow_schema,
    client_columns,
)
from drumlin.spark.source import spark_schema


def row(offset: int, **values: Any) -> dict[str, Any]:
    plain = {"partition": 3, "offset": offset, "timestamp": 1_700_000_000_123, "timestamp_type": 0}
    return plain | {"key": None, "value": b"v"} | values


WITH_HEADERS = (*COLUMNS, "headers")


@pytest.mark.parametrize("columns", [COLUMNS, WITH_HEADERS, ("offset", "topic")])
def test_the_schema_is_the_one_that_spark_takes_as_it_is(columns: tuple[str, ...]) -> None:
    # The same comparison that Spark's worker makes: anything else is an error there.
    theirs = to_arrow_schema(spark_schema(columns), timezone="UTC")
    assert theirs.equals(arrow_schema(columns))


def test_values_stay_what_they_are() -> None:
    rows = [row(5, key=b"k"), row(6, value=None, timestamp=-1), row(9, value=b"")]
    batch = pa.RecordBatch.from_pylist(rows, RECORD_SCHEMA)
    converted = SparkColumns("flights", 3, COLUMNS).convert(batch)
    converted.validate(full=True)
    assert converted.schema == arrow_schema(COLUMNS)
    assert converted.column("key").to_pylist() == [b"k", None, None]
    assert converted.column("value").to_pylist() == [b"v", None, b""]
    assert converted.column("topic").to_pylist() == ["flights"] * 3
    assert converted.column("partition").to_pylist() == [3, 3, 3]
    assert converted.column("offset").to_pylist() == [5, 6, 9]
    microseconds = converted.column("timestamp").cast(pa.int64()).to_pylist()
    assert microseconds == [1_700_000_000_123_000, -1_000, 1_700_000_000_123_000]
    assert converted.column("timestampType").to_pylist() == [0, 0, 0]


@pytest.mark.parametrize("timestamp", [1_700_000_000_000_000_000, 2**63 - 1, -(2**63) + 1])
def test_a_timestamp_that_does_not_fit_names_its_record(timestamp: int) -> None:
    rows = [row(5), row(7, timestamp=timestamp), row(8, timestamp=timestamp)]
    batch = pa.RecordBatch.from_pylist(rows, RECORD_SCHEMA)
    with pytest.raises(TimestampTooLarge, match=f"'flights' partition 3 offset 7: .* {timestamp} "):
        SparkColumns("flights", 3, COLUMNS).convert(batch)


def test_a_sliced_batch_is_converted_whole() -> None:
    batch = pa.RecordBatch.from_pylist([row(offset) for offset in range(10)], RECORD_SCHEMA)
    converted = SparkColumns("t", 3, COLUMNS).convert(batch.slice(4, 3))
    converted.validate(full=True)
    assert converted.column("offset").to_pylist() == [4, 5, 6]
    assert len(set(converted.column("timestamp").to_pylist())) == 1


def test_batches_of_all_sizes_share_the_topic_column() -> None:
    columns = SparkColumns("t", 3, COLUMNS)
    for size in (3, 1, 7):
        batch = pa.RecordBatch.from_pylist([row(offset) for offset in range(size)], RECORD_SCHEMA)
        assert columns.convert(batch).column("topic").to_pylist() == ["t"] * size


def test_headers_are_null_where_there_are_none() -> None:
    some = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    rows = [row(0, headers=[]), row(1, headers=some), row(2, headers=[]), row(3, headers=None)]
    batch = pa.RecordBatch.from_pylist(rows, RECORD_SCHEMA_WITH_HEADERS)
    for start in (0, 1):
        part = batch.slice(start)
        converted = SparkColumns("t", 3, WITH_HEADERS).convert(part)
        converted.validate(full=True)
        assert converted.schema == arrow_schema(WITH_HEADERS)
        assert converted.column("headers").to_pylist() == [None, some, None, None][start:]


def test_any_columns_in_any_order() -> None:
    wanted = ("topic", "timestampType", "value", "timestamp")
    assert client_columns(wanted) == ["timestamp_type", "value", "timestamp", "offset"]
    everything = pa.RecordBatch.from_pylist([row(7, value=b"x")], RECORD_SCHEMA)
    converted = SparkColumns("t", 3, wanted).convert(everything.select(client_columns(wanted)))
    assert converted.schema == arrow_schema(wanted)
    assert [list(each.values())[:3] for each in converted.to_pylist()] == [["t", 0, b"x"]]
