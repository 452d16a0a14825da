"""The Spark session of the pipelines, and what each of them is told on its command line."""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

from drumlin.spark.java import ensure_java


def start_spark(name: str) -> SparkSession:
    """A session on all cores of this machine, which runs a task again if its worker dies.

    With `spark-submit --master ...` the session is that cluster's.
    """
    ensure_java()
    return (
        SparkSession.builder.appName(name)
        .config("spark.master", "local[*,4]")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )


def parser(description: str | None, **arguments: str) -> argparse.ArgumentParser:
    """Takes the brokers, and the `arguments`, each with the text that explains it."""
    made = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    made.add_argument("--brokers", default="127.0.0.1:9092", help="host:port,...")
    for name, meaning in arguments.items():
        made.add_argument(f"--{name}", required=True, help=meaning)
    return made
