"""A program whose Python workers die once in each stage of a snapshot; prints the table.

With the arguments ADDRESS, TOPIC and FOLDER. It needs a process of its own, as its session is one
that repeats tasks, and as its workers must find this module.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from drumlin.spark import snapshot
from drumlin.spark.java import ensure_java
from drumlin.spark.state import shuffle, stages

FOLDER = "DYING_FOLDER"


def dying(stage: str, batches: Iterator[Any]) -> Iterator[Any]:
    """The batches; the first worker of a stage is killed when some are out."""
    for number, batch in enumerate(batches):
        yield batch
        if number == 1:
            try:
                (Path(os.environ[FOLDER]) / stage).touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)


class DyingReading(stages.Reading):
    __slots__ = ()

    def run(self, code: Any, numbers: Iterator[Any]) -> Iterator[Any]:
        return dying("reading", super().run(code, numbers))


class DyingMerging(stages.Merging):
    __slots__ = ()

    def run(self, code: Any, batches: Iterator[Any]) -> Iterator[Any]:
        return dying("merging", super().run(code, batches))


def main() -> None:
    address, topic, folder = sys.argv[1:]
    ensure_java()
    os.environ |= {"PYSPARK_PYTHON": sys.executable, FOLDER: folder}
    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    builder = SparkSession.builder.master("local[2, 4]")  # four attempts of each task
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    shuffle.Reading, stages.Merging = DyingReading, DyingMerging  # type: ignore[misc]
    tiny = {"taskMemory": 3000, "minPartitions": 5, "reducers": 3, "batchBytes": 500}
    rows = snapshot(session, topic, bootstrap_servers=address, **tiny).collect()
    died = sorted(path.name for path in Path(folder).iterdir())
    found = [[row.partition, bytes(row.key).hex(), bytes(row.value).hex()] for row in rows]
    print(json.dumps({"died": died, "rows": found}))
