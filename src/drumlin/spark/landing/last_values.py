"""What a lake of Parquet files says of each key: it has every record, the last one counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import DataFrame, SparkSession


def last_values(spark: SparkSession, folder: str) -> DataFrame:
    """The last value of each key in a lake of Parquet files, without keys that are deleted.

    Within a partition offsets say what is last. A key is in several partitions if the topic was
    given more of them: then the latest timestamp decides, as nothing else says what came first.

    Args:
        folder: of the lake that `land` has made, as Spark names it.

    Returns:
        A row a key: `key` binary, `offset` long, `timestamp` timestamp, `value` binary.

    Raises:
        AnalysisException: Spark finds no files there.
    """
    from pyspark.sql import functions as f

    records = spark.read.parquet(folder).where("key IS NOT NULL")
    record = f.struct("timestamp", "partition", "offset", "value")
    by_partition = records.groupBy("key", "partition").agg(f.max_by(record, "offset").alias("last"))
    last = f.max_by("last", f.struct("last.timestamp", "last.partition")).alias("last")
    found = by_partition.groupBy("key").agg(last).where("last.value IS NOT NULL")
    return found.select("key", "last.offset", "last.timestamp", "last.value")
