"""The data source `drumlin` with tasks, commits and aborts that fail at the worst moments.

What it hands on is untouched; it only decides, by a seed, before and after which of the sink's own
calls and requests something raises, is killed or hangs. Tasks fail in their first attempts only.
A commit fails once, and so does an abort: files in the proof's folder remember it.
"""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
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
from drumlin.spark.writing.performer import Performer
from drumlin.spark.writing.protocol.sink_errors import RequestFailed
from drumlin.spark.writing.writers import Written
from spark.sink_proof.journal import Journal
from spark.sink_proof.processes import kill_another_executor, kill_own_session

OPTION = "sabotage"
_TASK_FAULTS = ("raise before", "raise within", "raise after", "kill within", "kill after")
_HANGING = ("hang after", "hang after", "hang after")
#: The other executor dies, and those who fetch what it has of a shuffle have their stage repeated.
_LOSING = ("lose within", "lose within", "lose after")
_FAILING_ATTEMPTS = 2
#: Longer than a twin takes to start on a busy machine. Who has lost is killed by Spark.
_ZOMBIE_S = (5.0, 25.0)
#: A commit makes some 14 requests. What is to fail at one that is never made fails at the end.
_REQUESTS = 16
_REQUEST_S = 0.005

Messages = list[WriterCommitMessage | None]


class Fault(NamedTuple):
    """What befalls a commit or an abort, at one of its requests.

    Attributes:
        how: "raise": the answer is an error; "kill": of the process that commits; "kill all": of
            the driver with all that runs beside it.
        moment: "before" the request is made, "within", or "after" it was done.
    """

    how: str
    moment: str
    request: int


class Sabotage(NamedTuple):
    """What fails; `folder` is one that all processes see."""

    seed: str
    folder: str
    tasks: float
    commits: float
    #: Some tasks hang for seconds when they have written, so that Spark starts their twins.
    zombies: bool
    #: Some tasks kill another executor, of a program whose tasks read a shuffle.
    shuffles: bool = False

    def as_text(self) -> str:
        return json.dumps(self)

    @classmethod
    def from_text(cls, text: str) -> Sabotage:
        return cls(*json.loads(text))

    def of_task(self, context: TaskContext) -> str | None:
        """What befalls the task that runs here."""
        batch = context.getLocalProperty("streaming.sql.batchId")
        attempt, partition = context.attemptNumber(), context.partitionId()
        chance = random.Random(f"{self.seed} task {batch} {partition} {attempt}")
        if attempt >= _FAILING_ATTEMPTS or chance.random() >= self.tasks:
            return None
        more = (_HANGING if self.zombies else ()) + (_LOSING if self.shuffles else ())
        chosen = chance.choice((*_TASK_FAULTS, *more))
        # A stage that is repeated counts its attempts again, and would be repeated for ever.
        return chosen if chosen not in _LOSING or self._is_first(f"lost-{batch}") else None

    def of_driver(self, call: str, batch: int | None) -> Fault | None:
        """What befalls this commit or abort; nothing if that of the batch has failed before."""
        chance = random.Random(f"{self.seed} {call} {batch}")
        if chance.random() >= self.commits:
            return None
        if not self._is_first(f"{call}-{batch}"):
            return None
        how = chance.choice(("raise", "raise", "kill", "kill", "kill all"))
        moment = chance.choice(("before", "within", "after"))
        return Fault(how, moment, chance.randrange(_REQUESTS))

    def _is_first(self, name: str) -> bool:
        try:
            Path(self.folder, name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Sabotaged(RuntimeError):
    """It was meant to fail."""


class _Writer:
    """Hands everything on to the sink's own writer, but for what fails."""

    def __init__(self, inner: Any, sabotage: Sabotage) -> None:
        self._inner = inner
        self._sabotage = sabotage

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        task = _Task(self._sabotage)
        task.strike("before")
        message: WriterCommitMessage = self._inner.write(task.interrupted(iterator))
        task.wrote()
        task.strike("after")
        return message

    def _commit(self, messages: Messages, commit: Callable[[], None]) -> None:
        run, batch = _batch_of(messages)
        journal, number = Journal(self._sabotage.folder), uuid.uuid4().hex[:8]
        journal.note("commit begun", commit=number, run=run, batch=batch)
        error: str | None = "it was interrupted"
        try:
            fault = self._sabotage.of_driver("commit", batch)
            _Watch(journal, "commit", fault, number).over(commit)
            error = None
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"[:300]
            raise
        finally:
            journal.note("commit ended", commit=number, run=run, error=error)

    def _abort(self, messages: Messages, abort: Callable[[], None]) -> None:
        run, batch = _batch_of(messages)
        journal = Journal(self._sabotage.folder)
        is_whole = bool(messages) and None not in messages
        journal.note("abort begun", run=run, batch=batch, is_whole=is_whole)
        _Watch(journal, "abort", self._sabotage.of_driver("abort", batch)).over(abort)


class _Task:
    """An attempt that runs here, and what befalls it."""

    def __init__(self, sabotage: Sabotage) -> None:
        context = TaskContext.get()
        assert context is not None
        self._journal = Journal(sabotage.folder)
        self._fault = sabotage.of_task(context)
        self._facts = {
            "run": context.getLocalProperty("spark.jobGroup.id"),
            "stage": context.stageId(),
            "partition": context.partitionId(),
            "attempt": context.attemptNumber(),
        }
        self._journal.note("task begun", **self._facts)

    def wrote(self) -> None:
        self._journal.note("task wrote", **self._facts)

    def interrupted(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            self.strike("within")
            yield batch.slice(half)

    def strike(self, moment: str) -> None:
        """Fail if it is the moment to."""
        how, _, when = (self._fault or "").partition(" ")
        if when != moment:
            return
        self._journal.note("struck", place="task", how=how)
        if how == "raise":
            raise Sabotaged(self._fault)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "lose":
            kill_another_executor()
            return
        length_s = random.uniform(*_ZOMBIE_S)
        self._journal.note("task hangs", until=time.time() + length_s, **self._facts)
        time.sleep(length_s)


def _batch_of(messages: Messages) -> tuple[str, int | None]:
    """Run and batch, as a task has told them."""
    for each in messages:
        if isinstance(each, Written) and each.message is not None:
            return each.message.identity.run, each.message.identity.batch
    return "", None


class _Watch:
    """Stands before the protocol's requests: each is noted, and the one that is to fail fails."""

    def __init__(
        self, journal: Journal, place: str, fault: Fault | None, commit: str | None = None
    ) -> None:
        self._journal = journal
        self._place = place
        self._fault = fault
        self._commit = commit
        self._made = 0

    def over(self, call: Callable[[], None]) -> None:
        perform = Performer.perform

        def watched(performer: Performer, request: Any) -> Any:
            return self._perform(functools.partial(perform, performer, request), request)

        Performer.perform = watched  # type: ignore[method-assign]
        try:
            call()
        finally:
            Performer.perform = perform  # type: ignore[method-assign]
        if self._fault is not None and self._made <= self._fault.request:
            self._strike()

    def _perform(self, perform: Callable[[], Any], request: Any) -> Any:
        moment = self._fault.moment if self._fault and self._fault.request == self._made else ""
        self._made += 1
        facts = {"commit": self._commit, "request": type(request).__name__}
        self._journal.note("asked", **facts)
        if moment == "before":
            self._strike()
        if moment == "within" and self._fault and self._fault.how != "raise":
            threading.Timer(random.uniform(0, _REQUEST_S), self._strike).start()
        answer = perform()
        if moment:
            self._strike()
        self._journal.note("answered", **facts)
        return answer

    def _strike(self) -> None:
        assert self._fault is not None
        self._journal.note("struck", place=self._place, how=self._fault.how)
        if self._fault.how == "raise":
            raise RequestFailed(f"this was meant to fail: {self._fault}")
        if self._fault.how == "kill all":
            kill_own_session()
        os.kill(os.getpid(), signal.SIGKILL)


class _StreamWriter(_Writer, DataSourceStreamArrowWriter):
    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        self._commit(messages, lambda: self._inner.commit(messages, batchId))

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        self._abort(messages, lambda: self._inner.abort(messages, batchId))


class _BatchWriter(_Writer, DataSourceArrowWriter):
    """Of a batch write; in foreachBatch there is one for each micro-batch."""

    def commit(self, messages: Messages) -> None:
        self._commit(messages, lambda: self._inner.commit(messages))

    def abort(self, messages: Messages) -> None:
        self._abort(messages, lambda: self._inner.abort(messages))


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
        return _BatchWriter(super().writer(schema, overwrite), self._sabotage)
