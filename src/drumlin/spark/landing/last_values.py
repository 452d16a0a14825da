"""The last value of each key in a lake of Parquet files, which holds every record."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import DataFrame, SparkSession


def last_values(spark: SparkSession, folder: str) -> DataFrame:
    """The last value of each key in a lake of Parquet files, without deleted keys.

    Within a partition, the highest offset wins. If partitions were added to the topic, a key may be
    in several of them: then the latest timestamp wins, as there is no better order.

    Args:
        folder: the folder of a lake that `land` has written, as a path for Spark.

    Returns:
        One row per key: `key` binary, `offset` long, `timestamp` timestamp, `value` binary.

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
