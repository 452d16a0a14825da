"""Records for a dead letter topic: the whole record that could not be decoded, and the reason.

Owns the content of a dead letter: enough to write the record again as it was. The headers for its
origin and the reason are those of Kafka Connect's dead letter queues, so that tools for such
queues understand dead letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drumlin.spark.values.bad_records import ERROR_COLUMN, RAW_COLUMN, RAW_KEY_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The header for each column with a record's origin, and with the reason.
HEADERS: Final = {
    "topic": "__connect.errors.topic",
    "partition": "__connect.errors.partition",
    "offset": "__connect.errors.offset",
    ERROR_COLUMN: "__connect.errors.exception.message",
}
#: In milliseconds. Kafka Connect has no such header: its letters keep the record's timestamp, by
#: which retention may delete them at its next check.
TIMESTAMP_HEADER: Final = "__drumlin.errors.timestamp"
_OF_RECORDS: Final = "array<struct<key:string,value:binary>>"


def dead_letters(df: DataFrame) -> DataFrame:
    """The bad records of a DataFrame decoded with `bad_records="column"`, as records to write.

    Returns:
        One row per bad record, for `format("drumlin")` and `sink`: `key` and `value` binary,
            with the record's bytes, `timestamp` timestamp, and `headers` array of struct of `key`
            string and `value` binary. Columns that `df` lacks are left out. The record's headers
            are followed by topic, partition, offset (as far as `df` has them), reason, and time in
            milliseconds, as text.

    Raises:
        ValueError: the DataFrame has no columns `error` and `raw`, or keys were decoded by another
            call.
    """
    from pyspark.sql.functions import array, coalesce, col, concat

    kinds = {field.name: field.dataType.simpleString() for field in df.schema}
    if ERROR_COLUMN not in kinds or not {RAW_COLUMN, RAW_KEY_COLUMN} & kinds.keys():
        raise ValueError("dead letters need values decoded with bad_records='column'")
    key = RAW_KEY_COLUMN if RAW_KEY_COLUMN in kinds else "key"
    value = RAW_COLUMN if RAW_COLUMN in kinds else "value"
    for name in (key, value):
        if kinds.get(name, "binary") not in ("binary", "string"):
            raise ValueError(
                f"column {name!r} no longer has the bytes of the record: decode key and value in "
                "one call, by its argument `key`"
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
