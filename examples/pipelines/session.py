"""The Spark session of the pipelines, and what each of them is told on its command line."""

from __future__ import annotations

import argparse
import os

from pyspark.sql import SparkSession

from drumlin.spark.java import ensure_java

#: All cores of this machine; a task is tried four times, as on a cluster.
_HERE = "--master local[*,4] --conf spark.sql.shuffle.partitions=4 pyspark-shell"


def start_spark(name: str) -> SparkSession:
    """A session as `spark-submit` has it, or on this machine if Python starts the program."""
    ensure_java()
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", _HERE)
    spark = SparkSession.builder.appName(name)
    return spark.config("spark.sql.session.timeZone", "UTC").getOrCreate()


def parser(description: str | None, **arguments: str) -> argparse.ArgumentParser:
    """Takes the brokers, and the `arguments`, each with the text that explains it."""
    made = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    made.add_argument("--brokers", default="127.0.0.1:9092", help="host:port,...")
    for name, meaning in arguments.items():
        made.add_argument(f"--{name}", required=True, help=meaning)
    return made
