"""Programs whose Python workers die once in each stage, of a snapshot or of a restore.

With the arguments ADDRESS, TOPIC and FOLDER. They need a process of their own, as their session is
one that repeats tasks, and as their workers must find this module.
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

from drumlin.spark import restore, snapshot
from drumlin.spark.frames import restored_rows
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

    def run(self, ranges: Any) -> Iterator[Any]:
        return dying("reading", super().run(ranges))


class DyingMerging(stages.Merging):
    __slots__ = ()

    def run(self, batches: Iterator[Any]) -> Iterator[Any]:
        return dying("merging", super().run(batches))


class DyingCopying(restored_rows.Copying):
    __slots__ = ()

    def run(self, ranges: Any) -> Iterator[Any]:
        return dying("copying", super().run(ranges))


TINY: dict[str, Any] = {"taskMemory": 3000, "minPartitions": 5, "reducers": 3, "batchBytes": 500}


def snapshot_program() -> None:
    """Prints the table."""
    session, address, topic, folder = dying_session()
    rows = snapshot(session, topic, bootstrap=address, **TINY).collect()
    found = [[row.partition, bytes(row.key).hex(), bytes(row.value).hex()] for row in rows]
    print(json.dumps({"died": died(folder), "rows": found}))


def restore_program() -> None:
    """Restores into topics whose names are printed: the state and the records up to now."""
    session, address, topic, folder = dying_session()
    targets = {}
    for what in ("state", "records"):
        targets[what] = f"{topic}-{what}"
        more = {"records": what == "records", "allowInexact": True, "kafka.batch.size": 2000}
        restore(session, topic, targets[what], bootstrap=address, **TINY | more)
    print(json.dumps({"died": died(folder), **targets}))


def died(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def dying_session() -> tuple[SparkSession, str, str, str]:
    """The session, and the arguments."""
    address, topic, folder = sys.argv[1:]
    ensure_java()
    os.environ |= {"PYSPARK_PYTHON": sys.executable, FOLDER: folder}
    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    builder = SparkSession.builder.master("local[2, 4]")  # four attempts of each task
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    shuffle.Reading, stages.Merging = DyingReading, DyingMerging  # type: ignore[misc]
    restored_rows.Copying = DyingCopying  # type: ignore[misc]
    return session, address, topic, folder
