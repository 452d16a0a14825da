"""Records for a topic of dead letters: all of the record that could not be decoded, and why.

Owns what a letter consists of: whatever is needed to write the record again as it was. The headers
that say whence it comes, and why, are those of Kafka Connect's dead letter queues, so that
tools for those know them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drumlin.spark.values.bad_records import ERROR_COLUMN, RAW_COLUMN, RAW_KEY_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The header of each column that tells where a record comes from, and why it is here.
HEADERS: Final = {
    "topic": "__connect.errors.topic",
    "partition": "__connect.errors.partition",
    "offset": "__connect.errors.offset",
    ERROR_COLUMN: "__connect.errors.exception.message",
}
#: In milliseconds. Kafka Connect has none: its letters have the record's time, which retention
#: may delete at its next check.
TIMESTAMP_HEADER: Final = "__drumlin.errors.timestamp"
_OF_RECORDS: Final = "array<struct<key:string,value:binary>>"


def dead_letters(df: DataFrame) -> DataFrame:
    """The bad records of what was decoded with `bad_records="column"`, as records to be written.

    Returns:
        A row a bad record, as `format("drumlin")` and `sink` write it: `key` and `value` binary,
            with the record's bytes, `timestamp` timestamp, and `headers` array of struct of `key`
            string and `value` binary. What `df` lacks of these is left out. To the record's headers
            are added topic, partition, offset (those that there are), reason, and time in
            milliseconds, as text.

    Raises:
        ValueError: the DataFrame has no column `error` with the bytes of bad records beside it, or
            keys were decoded by another call.
    """
    from pyspark.sql.functions import array, coalesce, col, concat

    kinds = {field.name: field.dataType.simpleString() for field in df.schema}
    if ERROR_COLUMN not in kinds or not {RAW_COLUMN, RAW_KEY_COLUMN} & kinds.keys():
        raise ValueError("dead letters are of values decoded with bad_records='column'")
    key = RAW_KEY_COLUMN if RAW_KEY_COLUMN in kinds else "key"
    value = RAW_COLUMN if RAW_COLUMN in kinds else "value"
    for name in (key, value):
        if kinds.get(name, "binary") not in ("binary", "string"):
            raise ValueError(
                f"column {name!r} has not the bytes of the record any more: decode key and value "
                "in one call, by its argument `key`"
            )
    headers = array(*(_header(HEADERS[name], col(name)) for name in HEADERS if name in kinds))
    kept = {"key": key, "value": value}
    if kinds.get("timestamp") == "timestamp":
        headers = concat(headers, array(_time_header()))
        kept["timestamp"] = "timestamp"
    if kinds.get("headers") == _OF_RECORDS:
        headers = concat(coalesce(col("headers"), array().cast(_OF_RECORDS)), headers)
    bad = df.where(col(ERROR_COLUMN).isNotNull())
    parts = [col(column).alias(name) for name, column in kept.items() if column in kinds]
    return bad.select(*parts, headers.alias("headers"))


def _time_header() -> Column:
    from pyspark.sql.functions import col, unix_millis

    return _header(TIMESTAMP_HEADER, unix_millis(col("timestamp")))


def _header(name: str, value: Column) -> Column:
    from pyspark.sql.functions import lit, struct

    return struct(lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
