"""The Spark session of the pipelines, and what each of them is told on its command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

import drumlin
from drumlin.security import read_properties
from drumlin.spark.java import ensure_java

#: All cores of this machine; a task is tried four times, as on a cluster.
_HERE = "--master local[*,4] --conf spark.sql.shuffle.partitions=4 pyspark-shell"


class Cluster(NamedTuple):
    """Where the brokers are, and the properties of Kafka's clients for TLS and login."""

    brokers: str
    security: Mapping[str, str] = {}

    @property
    def options(self) -> dict[str, str]:
        """The properties as options of Spark."""
        return {f"kafka.{name}": text for name, text in self.security.items()}

    @property
    def arguments(self) -> dict[str, Any]:
        """What the functions of `drumlin.spark` take."""
        return {"bootstrap": self.brokers, **self.options}

    def connect(self) -> drumlin.Client:
        return drumlin.connect(self.brokers, security=self.security)


def start_spark(name: str) -> SparkSession:
    """A session as `spark-submit` has it, or on this machine if Python starts the program."""
    ensure_java()
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", _HERE)
    spark = SparkSession.builder.appName(name)
    return spark.config("spark.sql.session.timeZone", "UTC").getOrCreate()


def parser(description: str | None, **arguments: str) -> argparse.ArgumentParser:
    """Takes the cluster, and the `arguments`, each with the text that explains it."""
    made = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    made.add_argument("--brokers", default="127.0.0.1:9092", help="host:port,...")
    made.add_argument("--command-config", help="properties of Kafka's clients: TLS, login")
    for name, meaning in arguments.items():
        made.add_argument(f"--{name}", required=True, help=meaning)
    return made


def cluster_of(arguments: argparse.Namespace) -> Cluster:
    """The cluster that a command line names."""
    path = arguments.command_config
    return Cluster(arguments.brokers, read_properties(path) if path else {})
