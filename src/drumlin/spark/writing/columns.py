"""Maps the columns of a DataFrame to the parts of a record; checked before a row is written.

As in Spark's Kafka sink, `value` is required, and columns of other names are ignored. So is
`timestamp`, unless `writeTimestamps` is set: retention soon deletes records with old timestamps,
and a program that only changed its format's name may have such a column by accident.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

from drumlin.spark.options.option_values import OptionError

_TEXT: Final = (StringType, CharType, VarcharType)

_TYPES: Final[dict[str, tuple[tuple[type[DataType], ...], str]]] = {
    "topic": (_TEXT, "a string"),
    "partition": ((IntegerType,), "an int"),
    "key": ((*_TEXT, BinaryType), "a string or binary"),
    "value": ((*_TEXT, BinaryType), "a string or binary"),
    "headers": ((ArrayType,), "array<struct<key: string, value: binary>>"),
    "timestamp": ((TimestampType, LongType), "a timestamp, or a bigint of milliseconds"),
}


def written_columns(
    schema: StructType, topic: str | None, *, with_timestamps: bool
) -> tuple[str, ...]:
    """The columns of the rows that are written; `topic` is the option, which overrides a column.

    Raises:
        OptionError: the value, the topic or a required timestamp is missing; or a column has the
            wrong type.
    """
    names = schema.fieldNames()
    if "value" not in names:
        raise OptionError(
            f"the rows have no column 'value'; they have {', '.join(names) or 'none'}"
        )
    if topic is None and "topic" not in names:
        raise OptionError(
            "the rows have no topic: set the option 'topic', or give them a column 'topic'"
        )
    if with_timestamps and "timestamp" not in names:
        raise OptionError(
            "the option 'writeTimestamps' is true, and the rows have no column 'timestamp'"
        )
    ignored = set() if topic is None else {"topic"}
    if not with_timestamps:
        ignored.add("timestamp")
    columns = tuple(name for name in _TYPES if name in names and name not in ignored)
    for name in columns:
        if names.count(name) > 1:
            raise OptionError(f"the rows have more than one column '{name}'")
        _check(name, schema[name].dataType)
    return columns


def _check(name: str, kind: DataType) -> None:
    kinds, expected = _TYPES[name]
    if not isinstance(kind, kinds) or (name == "headers" and not _is_headers(kind)):
        raise OptionError(
            f"column '{name}' is {kind.simpleString()}, and must be {expected}: cast it, or "
            "drop it from the rows"
        )


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return [(each.name, type(each.dataType)) for each in fields] == [
        ("key", StringType),
        ("value", BinaryType),
    ]
