"""A model of Spark: a query's runs, its batches, their tasks; and everything that goes wrong.

A run's driver may die, or be taken for dead and live on beside the next run. Tasks are retried,
run twice by speculation or by a repeated stage, and taken for lost while they are running. A
checkpoint may be put back as it was some batches ago: its next batches are planned anew, perhaps
with other rows, and a run that is not through yet goes on with the other copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from zlib import crc32

from drumlin.spark.writing.protocol import abort_steps, driver, task
from drumlin.spark.writing.protocol.content import NO_PLAN, Plan
from drumlin.spark.writing.protocol.messages import (
    CommitReport,
    SinkSettings,
    SourceOffsets,
    TaskIdentity,
    TaskMessage,
)
from drumlin.spark.writing.protocol.own_ids import OwnIds
from drumlin.spark.writing.protocol.requests import AbortOwn
from drumlin.spark.writing.protocol.sink_errors import (
    BatchDiffers,
    DecisionUnknown,
    NotRepairable,
    RequestFailed,
    SinkError,
    StateLost,
    Superseded,
    Unfinished,
)
from drumlin.spark.writing.protocol.state import DriverEpoch
from spark.sink_twin.cluster import WriteRows
from spark.sink_twin.world import Process, Wait, World

SINK = "sink"
QUERY = "query"
SETTINGS = SinkSettings()
_ATTEMPTS = 4


@dataclass
class Checkpoint:
    """What a query's runs share. `plans`: for each batch how many rows of the next it takes."""

    planned: int = -1
    committed: int = -1
    plans: dict[int, Plan] = field(default_factory=dict)

    def as_of(self, batch: int) -> Checkpoint:
        """A copy that was made behind that batch."""
        plans = {number: plan for number, plan in self.plans.items() if number <= batch}
        return Checkpoint(batch, batch, plans)


class Concurrent(Exception):
    """Another run has written to the checkpoint."""


@dataclass
class Attempt:
    partition: int
    number: int
    process: Process
    worker: int
    is_given_up: bool = False  # the driver believes that it is gone


@dataclass
class Query:
    """One streaming query over `batches` batches, until it is through or has to stop."""

    world: World
    batches: int
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    runs: list[Process] = field(default_factory=list)
    workers: list[OwnIds] = field(default_factory=list)
    busy: set[int] = field(default_factory=set)
    epochs: list[DriverEpoch] = field(
        default_factory=list
    )  # what planners' processes have in memory
    stopped: Exception | None = None
    outcomes: Counter[str] = field(default_factory=Counter)
    spawned: int = 0

    def __post_init__(self) -> None:
        random = self.world.random
        self.partitions = random.randint(1, 3)
        self.moves_rows = random.random() < 0.3  # the same rows are not in the same partitions
        self.speculates = random.random() < 0.3
        self.has_holidays = random.random() < 0.2
        self.is_stubborn = random.random() < 0.3
        self.keeps_epochs = self.world.seed % 2 == 1
        self.attempts = 1 if self.world.seed % 8 == 7 else _ATTEMPTS  # so that jobs fail often
        self.patience_s = random.choice(((1.0, 5.0, 20.0), (600.0, 3000.0, 1e9), (5.0, 600.0)))
        self.call_patience_s = random.choice(((1.0, 5.0, 20.0), (400.0, 1e9)))
        self.whims = whims = Random(self.world.seed)  # what came later has dice of its own
        self.restores = whims.random() < 0.2
        self.knows_plans = whims.random() < 0.5
        self.is_unsteady = self.knows_plans and whims.random() < 0.3  # other rows of the same input
        self.was_restored = False

    def plan(self, checkpoint: Checkpoint, batch: int) -> None:
        """Say how far a batch goes. Planned anew, it may go further: more is there by then."""
        is_longer = self.was_restored and batch < self.batches - 1 and self.whims.random() < 0.7
        stamp = self.whims.randrange(1 << 30)
        checkpoint.plans[batch] = Plan("longer" if is_longer else "as ever", stamp)

    def rows(self, checkpoint: Checkpoint, batch: int) -> list[int]:
        rows = list(self.all_of(batch))
        if batch and checkpoint.plans[batch - 1].ends == "longer":
            rows = rows[3:]
        if checkpoint.plans[batch].ends == "longer":
            rows += self.all_of(batch + 1)[:3]
        return rows

    def all_of(self, batch: int) -> range:
        return range(batch * 100, batch * 100 + 6)

    @property
    def all_rows(self) -> Counter[int]:
        return Counter(row for batch in range(self.batches) for row in self.all_of(batch))

    @property
    def is_through(self) -> bool:
        return self.checkpoint.committed == self.batches - 1

    def layout(self, checkpoint: Checkpoint, batch: int, run: int) -> list[tuple[int, ...]]:
        """The rows of each partition."""
        parts: list[list[int]] = [[] for _ in range(self.partitions)]
        for row in self.rows(checkpoint, batch):
            shift = run if self.moves_rows else 0
            parts[(row // 2 + shift) % self.partitions].append(row)
        return [tuple(part) for part in parts]

    # -- runs ------------------------------------------------------------------------------

    def keep_running(self) -> Generator[Any, Any, None]:
        """An operator, who restarts a query that has failed or is silent."""
        random = self.world.random
        while not self.is_through and self.stopped is None:
            number = len(self.runs)
            if number > 60:
                raise AssertionError(f"livelock: {self.outcomes}")
            if number > 40:
                self.world.is_calm = True
            committed = self.checkpoint.committed
            if self.restores and committed >= 0 and self.whims.random() < 0.3:
                ago = self.whims.choice((0, 1, 1, 2))
                self.checkpoint = self.checkpoint.as_of(max(-1, committed - ago))
                self.was_restored = True
                self.outcomes["restored"] += 1
            process = self.world.start(f"run{number}", self.run(number))
            self.runs.append(process)
            patience = self.world.cluster.now + random.choice(self.patience_s)
            yield Wait(lambda p=process: p.is_over, patience)
            self._judge(process)
            is_holiday = self.has_holidays and random.random() < 0.1
            span = 8 * 86_400.0 if is_holiday else random.choice((0.0, 1.0, 30.0, 1000.0))
            pause = self.world.cluster.now + span
            yield Wait(lambda: False, pause)

    def operate(self) -> Generator[Any, Any, None]:
        """An operator, who aborts what is open now and then."""
        world = self.world
        for number in range(world.random.choice((0, 0, 1, 3))):
            pause = world.cluster.now + world.random.choice((1.0, 10.0, 100.0, 1000.0))
            yield Wait(lambda: self.is_through or self.stopped is not None, pause)
            world.start(f"operator{number}", abort_steps.abort_sink(SINK, SETTINGS))
            self.outcomes["operated"] += 1

    def _judge(self, process: Process) -> None:
        kind = "killed" if process.is_killed else type(process.error).__name__
        self.outcomes[kind if process.is_over else "not heard of"] += 1
        needs_an_operator = (NotRepairable, StateLost, BatchDiffers)
        if self.was_restored:
            needs_an_operator += (Superseded,)
        error = process.error.args[0] if isinstance(process.error, TaskFailed) else process.error
        if isinstance(error, needs_an_operator):
            self.stopped = error
        elif process.error is not None and not isinstance(
            process.error, SinkError | Concurrent | TaskFailed
        ):
            raise process.error

    def run(self, number: int) -> Generator[Any, Any, None]:
        checkpoint = self.checkpoint
        batch = checkpoint.planned
        if batch == checkpoint.committed:
            batch += 1
        is_first = True
        while batch < self.batches:
            if checkpoint.planned < batch:
                checkpoint.planned = batch
                self.plan(checkpoint, batch)
            elif not is_first:
                raise Concurrent
            is_first = False
            yield from self.stubborn_batch(number, batch, checkpoint)
            if checkpoint.committed >= batch:
                raise Concurrent
            checkpoint.committed = batch
            batch += 1

    def stubborn_batch(
        self, run: int, batch: int, checkpoint: Checkpoint
    ) -> Generator[Any, Any, None]:
        """Functions in `foreachBatch` may write a batch again, in the same run."""
        for _ in range(self.world.random.choice((0, 1, 2)) if self.is_stubborn else 0):
            try:
                yield from self.batch(run, batch, checkpoint)
                return
            except (RequestFailed, DecisionUnknown, Unfinished, TaskFailed):
                self.outcomes["again in its run"] += 1
        yield from self.batch(run, batch, checkpoint)

    def batch(self, run: int, batch: int, checkpoint: Checkpoint) -> Generator[Any, Any, None]:
        messages: dict[int, TaskMessage] = {}
        layout = self.layout(checkpoint, batch, run)
        try:
            yield from self.job(run, batch, layout, messages)
        except TaskFailed:
            told = [messages.get(each) for each in range(self.partitions)]
            yield from self._call(f"abort{run}.{batch}", abort_steps.abort(told, batch, SETTINGS))
            who = TaskIdentity(SINK, QUERY, batch, f"run{run}", 0)
            yield from self._call(f"sweep{run}.{batch}", abort_steps.abort_run(who, SETTINGS))
            raise
        told = [messages[each] for each in range(self.partitions)]
        committing = self.commit(told, batch, checkpoint.plans[batch])
        call = yield from self._call(f"commit{run}.{batch}", committing)
        if call.error is None and not call.is_killed and call.is_over:
            self.outcomes["repaired"] += bool(call.result.repaired)
            self.outcomes["found decided"] += bool(call.result.was_decided)
            return
        yield from self._call(f"abort{run}.{batch}", abort_steps.abort(told, batch, SETTINGS))
        raise call.error or RequestFailed("the planner's process is gone")

    def commit(
        self, told: list[TaskMessage], batch: int, plan: Plan
    ) -> Generator[Any, Any, CommitReport]:
        """In some planner's process, which may have committed an earlier batch."""
        source = SourceOffsets("readers", {("in", 0): batch}, plan if self.knows_plans else NO_PLAN)
        epoch = None
        if self.epochs and self.world.random.random() < 0.8:
            epoch = self.epochs.pop(self.world.random.randrange(len(self.epochs)))
        self.outcomes["in the epoch"] += epoch is not None
        report: CommitReport = yield from driver.commit(
            told, batch, SETTINGS, source, self.world.cluster.clock_ms, epoch
        )
        if report.driver_epoch is not None and self.keeps_epochs:
            self.epochs.append(report.driver_epoch)
        return report

    def _call(self, name: str, program: Generator[Any, Any, Any]) -> Generator[Any, Any, Process]:
        """In a process of its own, for which the driver mostly waits."""
        process = self.world.start(name, program)
        patience = self.world.cluster.now + self.world.random.choice(self.call_patience_s)
        yield Wait(lambda: process.is_over, patience)
        return process

    # -- tasks -----------------------------------------------------------------------------

    def job(
        self,
        run: int,
        batch: int,
        layout: list[tuple[int, ...]],
        messages: dict[int, TaskMessage],
    ) -> Generator[Any, Any, None]:
        """Run tasks until each partition has a message.

        Raises:
            TaskFailed: one has failed too often.
        """
        random = self.world.random
        attempts = [self.attempt(run, batch, each, 0, layout) for each in range(self.partitions)]
        failures: Counter[int] = Counter()
        while True:
            for each in attempts:
                process = each.process
                if process.is_over and not process.is_killed and process.error is None:
                    messages.setdefault(each.partition, process.result)
            if len(messages) == self.partitions:
                return
            for partition in range(self.partitions):
                mine = [each for each in attempts if each.partition == partition]
                live = [e for e in mine if not e.process.is_over and not e.is_given_up]
                number = max(each.number for each in mine)
                if partition in messages:
                    continue
                if not live:
                    failures[partition] += 1
                    if failures[partition] >= self.attempts:
                        raise TaskFailed(mine[-1].process.error)
                    attempts.append(self.attempt(run, batch, partition, number + 1, layout))
                elif random.random() < 0.01:
                    live[0].is_given_up = True
                elif self.speculates and len(mine) < 3 and random.random() < 0.05:
                    attempts.append(self.attempt(run, batch, partition, number + 1, layout))
                elif len(mine) < 3 and random.random() < 0.01:  # a stage that is repeated
                    attempts.append(self.attempt(run, batch, partition, number, layout))
            yield Wait(lambda: True)

    def attempt(
        self, run: int, batch: int, partition: int, number: int, layout: list[tuple[int, ...]]
    ) -> Attempt:
        worker = next((w for w in range(len(self.workers)) if w not in self.busy), None)
        if worker is None:
            worker = len(self.workers)
            self.workers.append(OwnIds(f"{worker:012x}"))
        self.spawned += 1
        who = TaskIdentity(
            SINK,
            QUERY,
            batch,
            f"run{run}",
            partition,
            number,
            task_id=self.spawned,
            has_twins=self.speculates,
        )
        self.busy.add(worker)
        name = f"task{run}.{batch}.{partition}.{number}#{self.spawned}"
        program = self.task(who, worker, layout[partition])
        return Attempt(partition, number, self.world.start(name, program), worker)

    def task(
        self, who: TaskIdentity, worker: int, rows: tuple[int, ...]
    ) -> Generator[Any, Any, TaskMessage]:
        ids = self.workers[worker]
        try:
            begun = yield from task.begin(who, SETTINGS)
            salt = who.run if self.is_unsteady else ""
            checksum = f"{sum(crc32(f'{row}{salt}'.encode()) for row in rows):x}"
            if isinstance(begun, TaskMessage):
                return replace(begun, rows=len(rows), checksum=checksum)
            if not rows:
                return TaskMessage(who)
            opened = yield from task.open_transaction(who, SETTINGS, ids, begun)
            try:
                for cut in (rows[:1], rows[1:]):
                    yield WriteRows(opened, cut)
                message = TaskMessage(who, False, opened, len(rows), checksum)
                return (yield from task.finish(who, SETTINGS, ids, message, begun))
            except SinkError:
                yield AbortOwn(opened)
                raise
        finally:
            self.busy.discard(worker)


class TaskFailed(Exception):
    """A task has failed too often."""
