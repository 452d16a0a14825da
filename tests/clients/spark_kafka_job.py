"""A PySpark program as users have it today: Spark's own Kafka connector, reading and writing.

Run as `python spark_kafka_job.py <jars> <bootstrap> <source topic> <target topic>`; prints JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from pyspark.sql import SparkSession

from drumlin.spark.java import ensure_java


def main(jars: str, bootstrap: str, source: str, target: str) -> None:
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
    builder = builder.config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    where = {"kafka.bootstrap.servers": bootstrap}

    def read(topic: str) -> int:
        reader = spark.read.format("kafka").options(**where, subscribe=topic)
        return reader.option("startingOffsets", "earliest").load().distinct().count()

    stream = spark.readStream.format("kafka").options(**where, subscribe=source)
    values = stream.option("startingOffsets", "earliest").load().select("key", "value")
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = values.writeStream.format("kafka").options(**where, topic=target)
        writer = writer.option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
    print(json.dumps({"read": read(source), "written": read(target)}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
