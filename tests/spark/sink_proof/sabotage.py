"""The data source `drumlin` with tasks and commits that fail at the worst moments.

What it hands on is untouched; it only decides, by a seed, before and after which of the sink's own
calls something raises, is killed or hangs. Tasks fail in their first attempts only. A commit fails
once: a file in the proof's folder remembers it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from drumlin.spark.source import DrumlinDataSource

OPTION = "sabotage"
_TASK_FAULTS = ("raise before", "raise within", "raise after", "kill within", "kill after")
_COMMIT_FAULTS = ("raise before", "raise after", "kill within", "kill after")
_FAILING_ATTEMPTS = 2
_ZOMBIE_S = (1.0, 8.0)
_KILL_WITHIN_S = (0.0, 0.1)


class Sabotage(NamedTuple):
    """What fails; `folder` is one that all processes see."""

    seed: str
    folder: str
    tasks: float
    commits: float
    #: Some tasks hang for seconds when they have written, so that Spark starts their twins.
    zombies: bool

    def as_text(self) -> str:
        return json.dumps(self)

    @classmethod
    def from_text(cls, text: str) -> Sabotage:
        return cls(*json.loads(text))

    def of_task(self) -> str | None:
        """What befalls the task that runs here."""
        context = TaskContext.get()
        assert context is not None
        batch = context.getLocalProperty("streaming.sql.batchId")
        attempt, partition = context.attemptNumber(), context.partitionId()
        chance = random.Random(f"{self.seed} task {batch} {partition} {attempt}")
        if attempt >= _FAILING_ATTEMPTS or chance.random() >= self.tasks:
            return None
        return chance.choice((*_TASK_FAULTS, *(["hang after"] if self.zombies else [])))

    def of_commit(self, key: str) -> str | None:
        """What befalls this commit; nothing if it has failed before."""
        chance = random.Random(f"{self.seed} commit {key}")
        if chance.random() >= self.commits:
            return None
        try:
            Path(self.folder, f"commit-{key}").touch(exist_ok=False)
        except FileExistsError:
            return None
        return chance.choice(_COMMIT_FAULTS)


class Sabotaged(RuntimeError):
    """It was meant to fail."""


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _strike(fault: str | None, moment: str) -> None:
    """Fail if it is the moment to."""
    if fault == f"raise {moment}":
        raise Sabotaged(fault)
    if fault == f"kill {moment}":
        _kill()
    if fault == f"hang {moment}":
        time.sleep(random.uniform(*_ZOMBIE_S))


class _Writer:
    """Hands everything on to the sink's own writer, but for what fails."""

    def __init__(self, inner: Any, sabotage: Sabotage) -> None:
        self._inner = inner
        self._sabotage = sabotage

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        fault = self._sabotage.of_task()
        _strike(fault, "before")
        message: WriterCommitMessage = self._inner.write(_interrupted(iterator, fault))
        _strike(fault, "after")
        return message

    def _end(self, key: str, commit: Any) -> None:
        fault = self._sabotage.of_commit(key)
        _strike(fault, "before")
        if fault == "kill within":
            threading.Timer(random.uniform(*_KILL_WITHIN_S), _kill).start()
        commit()
        _strike(fault, "after")


def _interrupted(batches: Iterator[Any], fault: str | None) -> Iterator[Any]:
    for batch in batches:
        half = batch.num_rows // 2
        yield batch.slice(0, half)
        _strike(fault, "within")
        yield batch.slice(half)


class _StreamWriter(_Writer, DataSourceStreamArrowWriter):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._end(str(batchId), lambda: self._inner.commit(messages, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._inner.abort(messages, batchId)


class _BatchWriter(_Writer, DataSourceArrowWriter):
    """Of a batch write; in foreachBatch there is one for each micro-batch."""

    def __init__(self, inner: Any, sabotage: Sabotage, key: str) -> None:
        super().__init__(inner, sabotage)
        self._key = key

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._end(self._key, lambda: self._inner.commit(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._inner.abort(messages)


class SabotagedSource(DrumlinDataSource):
    """`format("drumlin")`, once it is registered; a sink takes the option `sabotage` as well."""

    def __init__(self, options: dict[str, str]) -> None:
        plain = {name: value for name, value in options.items() if name != OPTION}
        super().__init__(plain)
        if OPTION in options:
            self._sabotage = Sabotage.from_text(options[OPTION])

    def streamWriter(self, schema: StructType, overwrite: bool) -> _StreamWriter:  # noqa: N802
        return _StreamWriter(super().streamWriter(schema, overwrite), self._sabotage)

    def writer(self, schema: StructType, overwrite: bool) -> _BatchWriter:
        key = f"batch-{time.monotonic_ns()}"
        return _BatchWriter(super().writer(schema, overwrite), self._sabotage, key)
