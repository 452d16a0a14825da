"""Records for a topic of dead letters: the bytes that could not be decoded, whence, and why.

The headers are those of Kafka Connect's dead letter queues, so that tools for those know them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drumlin.spark.values.bad_records import ERROR_COLUMN, RAW_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The header of each column that tells where a record comes from, and why it is here.
HEADERS: Final = {
    "topic": "__connect.errors.topic",
    "partition": "__connect.errors.partition",
    "offset": "__connect.errors.offset",
    ERROR_COLUMN: "__connect.errors.exception.message",
}


def dead_letters(df: DataFrame) -> DataFrame:
    """The bad records of what was decoded with `bad_records="column"`, as records to be written.

    Columns are `key` (if there is one), `value` with the bytes, and `headers` with topic,
    partition, offset (those that there are) and reason, as text.

    Raises:
        ValueError: the DataFrame has no columns `error` and `raw`.
    """
    from pyspark.sql.functions import array, col, lit, struct

    if not {ERROR_COLUMN, RAW_COLUMN} <= set(df.columns):
        raise ValueError("dead letters are of values decoded with bad_records='column'")
    headers = [
        struct(lit(name).alias("key"), col(column).cast("string").cast("binary").alias("value"))
        for column, name in HEADERS.items()
        if column in df.columns
    ]
    kept = [col("key")] if "key" in df.columns else []
    bad = df.where(col(ERROR_COLUMN).isNotNull())
    return bad.select(*kept, col(RAW_COLUMN).alias("value"), array(*headers).alias("headers"))
