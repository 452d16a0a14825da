"""Converts rows to JSON with Spark's own functions: the same text for a row in every session.

As in the topics of `drumlin capture postgres`, numbers that JSON cannot hold are strings, so
decimals keep all their digits. Times are in UTC, so the session's time zone makes no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

_OPTIONS: Final = {"ignoreNullFields": "false"}  # null columns are not omitted
_EPOCH: Final = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"


def json_of(fields: Sequence[StructField]) -> Column:
    """A row's columns `fields` as a JSON object, in this order."""
    from pyspark.sql.functions import col, struct, to_json

    columns = [_written(col(quoted(each.name)), each.dataType).alias(each.name) for each in fields]
    return to_json(struct(*columns), _OPTIONS)


def quoted(name: str) -> str:
    """A column's name, quoted for Spark's functions."""
    return "`" + name.replace("`", "``") + "`"


def _written(column: Column, kind: DataType) -> Column:
    """The column with types that JSON lacks converted to strings, at any depth."""
    from pyspark.sql import functions as f

    match kind:
        case DecimalType():
            return column.cast("string")
        case TimestampType():
            # A cast would use the session's time zone, in which some hours occur twice.
            utc = f.timestamp_add("MICROSECOND", f.unix_micros(column), f.expr(_EPOCH))
            return f.concat(_time(utc), f.lit("Z"))
        case TimestampNTZType():
            return _time(column)
        case ArrayType(elementType=inner):
            return f.transform(column, lambda each: _written(each, inner))
        case MapType(valueType=inner):
            return f.transform_values(column, lambda _, each: _written(each, inner))
        case StructType(fields=fields):
            parts = [_written(column[each.name], each.dataType).alias(each.name) for each in fields]
            return f.when(column.isNotNull(), f.struct(*parts))
    return column


def _time(column: Column) -> Column:
    from pyspark.sql.functions import lit, replace

    return replace(column.cast("string"), lit(" "), lit("T"))
