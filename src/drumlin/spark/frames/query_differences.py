"""The differences between a query and the last values of a topic, as rows for the sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from drumlin.spark.frames.query_errors import QueryRefused
from drumlin.spark.options.option_values import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The columns to read from the topic.
KNOWN_COLUMNS: Final = ("key", "value", "partition")
OPERATIONS: Final = ("insert", "update", "delete")

_INSERT, _UPDATE, _DELETE = OPERATIONS
#: Values of `operation` for rows that cannot be written: the reason.
_NULL_KEY: Final = "a row of the query has null in its key"
_TWICE: Final = "several rows of the query have one key"
_NULL_VALUE: Final = "a row of the query has no value"
_SHOWN: Final = 200


def rows_of(frame: DataFrame, key: Sequence[str] | None) -> DataFrame:
    """The query's rows as `key`, `value` and `is_keyed`: whether no column of the key is null.

    Raises:
        OptionError: the DataFrame is a stream, or does not have the right columns.
    """
    from drumlin.spark.writing.columns import written_columns

    if frame.isStreaming:
        raise OptionError("this DataFrame is a stream, but a query is compared as a whole")
    if key is not None:
        return _as_json(frame, key)
    if sorted(frame.columns) != ["key", "value"]:
        raise OptionError(
            "without the argument `key` the query must have exactly the columns key and value; it "
            f"has {', '.join(frame.columns)}"
        )
    written_columns(frame.schema, "", with_timestamps=False)
    binary = [f"CAST({name} AS BINARY) AS {name}" for name in ("key", "value")]
    return frame.selectExpr(*binary, "key IS NOT NULL AS is_keyed")


def _as_json(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    import functools
    import operator

    from pyspark.sql.functions import col

    from drumlin.spark.frames.json_rows import json_of, quoted

    fields = {each.name: each for each in frame.schema}
    if len(fields) < len(frame.columns):
        raise OptionError(f"columns have the same name: {', '.join(frame.columns)}")
    if isinstance(key, str) or not key or len(set(key)) < len(key):
        raise OptionError(f"key={key!r}: expected a list of different columns")
    missing = [each for each in key if each not in fields]
    if missing:
        raise OptionError(
            f"key={list(key)!r}: there is no column {', '.join(map(repr, missing))} among "
            f"{', '.join(fields)}"
        )
    is_keyed = functools.reduce(operator.and_, (col(quoted(each)).isNotNull() for each in key))
    return frame.select(
        json_of([fields[each] for each in key]).cast("binary").alias("key"),
        json_of(list(fields.values())).cast("binary").alias("value"),
        is_keyed.alias("is_keyed"),
    )


def differences(rows: DataFrame, known: DataFrame, *, deletes: bool) -> DataFrame:
    """`operation`, `key`, `value` and `partition` of each row that differs or must be refused.

    If a key is in several partitions, `known` has a row for each, and the key is compared in each.
    """
    from pyspark.sql.functions import col, count, first, lit, when

    by_key = rows.groupBy("key", "is_keyed").agg(
        count(lit(1)).alias("rows"), first("value").alias("value")
    )
    last = known.select("key", col("value").alias("last"), "partition")
    operation = (
        when(~col("is_keyed"), _NULL_KEY)
        .when(col("rows") > 1, _TWICE)
        .when(col("rows").isNull(), _DELETE)
        .when(col("value").isNull(), _NULL_VALUE)
        .when(col("partition").isNull(), _INSERT)
        .when(col("value") != col("last"), _UPDATE)
    )
    joined = by_key.join(last, "key", "full_outer" if deletes else "left_outer")
    found = joined.select(operation.alias("operation"), "key", "value", "partition")
    return found.where("operation IS NOT NULL")


def counted(found: DataFrame) -> Mapping[str, int]:
    """The number of rows for each operation.

    Raises:
        QueryRefused: some rows cannot be written.
    """
    from pyspark.sql.functions import count, lit
    from pyspark.sql.functions import min as least

    grouped = found.groupBy("operation").agg(count(lit(1)).alias("rows"), least("key").alias("key"))
    counts = {}
    for each in grouped.collect():
        if each.operation not in OPERATIONS:
            raise QueryRefused(f"{each.operation}: {_shown(each.key)}")
        counts[each.operation] = each.rows
    return counts


def writable(found: DataFrame) -> DataFrame:
    """The rows as records. If a row has no partition, the sink chooses one."""
    return found.where(found.operation.isin(*OPERATIONS)).select("key", "value", "partition")


def _shown(key: bytes | None) -> str:
    if key is None:
        return "the column key is null"
    text = bytes(key).decode(errors="backslashreplace")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
