"""The last value of each key in a lake of Parquet files, which holds every record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from drumlin.spark.landing.lake_files import visible
from drumlin.spark.landing.rows.mode import TOMBSTONE
from drumlin.spark.landing.s3_account import S3Account
from drumlin.spark.landing.targets.urls import is_s3

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import DataFrame, SparkSession


def read_lake(
    spark: SparkSession, folder: str, *, s3: Mapping[str, str] | None = None
) -> DataFrame:
    """Every record of a lake of Parquet files, even while small files are merged.

    (`spark.read.parquet(folder)` is the same, except at a moment when loads are merged.) Typed
    values have the columns of all loads.

    Args:
        folder: the folder of a lake that `land` has written: a path, `hdfs://…` or `s3://…`, for
            which Spark needs `hadoop-aws`.
        s3: as for `land`; for listing files, which Spark reads by its own settings.

    Returns:
        One row per record, with the columns that the page on landing lists.

    Raises:
        LandingRefused: loads are missing.
        AnalysisException: Spark finds no files there.
    """
    base, paths, may_differ = visible(folder, S3Account.of(s3 or {}))
    if is_s3(folder):  # by the name of Hadoop's client
        base, *paths = (f"s3a:{each.partition(':')[2]}" for each in (base, *paths))
    options = {"basePath": base, "mergeSchema": str(may_differ).lower()}
    return spark.read.options(**options).parquet(*paths)


def last_values(
    spark: SparkSession, folder: str, *, s3: Mapping[str, str] | None = None
) -> DataFrame:
    """The last value of each key in a lake of Parquet files, without deleted keys.

    Within a partition, the highest offset wins. If partitions were added to the topic, a key may be
    in several of them: then the latest timestamp wins, as there is no better order.

    Args:
        folder: the folder of a lake that `land` has written: a path, `hdfs://…` or `s3://…`, for
            which Spark needs `hadoop-aws`.
        s3: as for `land`; for listing files, which Spark reads by its own settings.

    Returns:
        One row per key: `key` binary, `offset` long, `timestamp` timestamp, and `value` binary, or
            the columns of typed values.

    Raises:
        LandingRefused: loads are missing.
        AnalysisException: Spark finds no files there.
    """
    from pyspark.sql import functions as f

    records = read_lake(spark, folder, s3=s3).where("key IS NOT NULL")
    is_typed = TOMBSTONE in records.columns
    place = ("timestamp", "partition", "offset")
    left_out = {"key", "headers", "load", "day", "hour", *place}
    values = [name for name in records.columns if name not in left_out]
    record = f.struct(*place, *values)
    by_partition = records.groupBy("key", "partition").agg(f.max_by(record, "offset").alias("last"))
    last = f.max_by("last", f.struct("last.timestamp", "last.partition")).alias("last")
    is_live = f"NOT last.{TOMBSTONE}" if is_typed else "last.value IS NOT NULL"
    found = by_partition.groupBy("key").agg(last).where(is_live)
    shown = [f.col("last")[name].alias(name) for name in values if name != TOMBSTONE]
    return found.select("key", "last.offset", "last.timestamp", *shown)
