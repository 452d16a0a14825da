"""The messages between tasks and drivers, and the settings that both get from the options.

These cross processes by pickle, so all must be plain values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from drumlin.spark.options.portable import Portable
from drumlin.spark.writing.protocol import names
from drumlin.spark.writing.protocol.content import NO_PLAN, Plan
from drumlin.spark.writing.protocol.state import DriverEpoch
from drumlin.spark.writing.protocol.transactions import Opened, Winner


@dataclass(frozen=True, slots=True)
class SinkSettings(Portable):
    """The settings of one sink, the same for all its writers.

    Attributes:
        decision_topic: where decisions are written; created, compacted, if it is missing.
        transaction_timeout_ms: of tasks' transactions; None: the longest that the broker allows.
        may_begin_late: the sink's first batch may be other than 0. Otherwise such a batch is
            refused, as an earlier decision may have been lost.
        speculation: look for losers with each batch, whatever Spark says about twins.
        is_for_once: the sink's name was generated for one write and is never used again: without an
            offset in its group nothing was decided, and a finished write leaves no record.
        rows_may_differ: a batch with an unknown plan stays as it was decided, even if a new run has
            other rows.
    """

    decision_topic: str = names.DECISION_TOPIC
    transaction_timeout_ms: int | None = None
    may_begin_late: bool = False
    speculation: bool = False
    is_for_once: bool = False
    rows_may_differ: bool = False


@dataclass(frozen=True, slots=True)
class TaskIdentity(Portable):
    """The identity of a task attempt and its batch.

    Attributes:
        sink: the sink's name: the query's id and the topic, unless an option gives another.
        query: the id of the query whose batches are counted; "" if batches are not counted.
        batch: Spark's number of the micro-batch; 0 for a single batch write.
        run: new at every start of the query (`spark.jobGroup.id`), or of the write.
        partition, attempt: those of TaskContext.
        part: distinguishes several writes of one batch that share one decision.
        task_id: Spark's number of the attempt in the application; -1: not known.
        has_twins: Spark may run another attempt at the same time (`spark.speculation`).
    """

    sink: str
    query: str
    batch: int
    run: str
    partition: int
    attempt: int = 0
    part: str = ""
    task_id: int = -1
    has_twins: bool = False

    def __post_init__(self) -> None:
        names.check_sink(self.sink)

    @property
    def key(self) -> tuple[str, int]:
        return self.part, self.partition


@dataclass(frozen=True, slots=True)
class TaskMessage(Portable):
    """A task's report to the driver.

    Attributes:
        found_decided: the batch was decided already, so the task has written nothing.
        opened: its transaction, open and with all rows acknowledged; None: it had no rows, or has
            not written them.
        rows: how many it had, written or not.
        checksum: of its rows, independent of their order, in hexadecimal digits; "" without rows.
    """

    identity: TaskIdentity
    found_decided: bool = False
    opened: Opened | None = None
    rows: int = 0
    checksum: str = ""

    @property
    def winner(self) -> Winner | None:
        """The task's transaction as a candidate."""
        if self.opened is None:
            return None
        who = self.identity
        return Winner(who.part, who.partition, *self.opened, self.rows, self.checksum)


@dataclass(frozen=True, slots=True)
class SourceOffsets(Portable):
    """Offsets of the source, committed to a group together with the decision; "": to none.

    `plan`: the batch's end offsets in its sources, if known.
    """

    group: str = ""
    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    plan: Plan = NO_PLAN


class CommitReport(NamedTuple):
    """The result of a commit.

    Attributes:
        was_decided: an earlier run of the batch has decided; this one wrote no decision.
        repaired: how many tasks' rows were written again, as their transactions had timed out.
        is_marked_done: if not, a later commit marks it; nothing is wrong with the batch.
        aborted: how many transactions of losers and zombies were aborted.
        open_ms: how long the oldest winner was open; 0: not known.
        timeout_ms: after how long it would have been aborted.
        driver_epoch: saves the sink's next commit from fencing and reading.
        doubt: a warning about a batch that was found decided; "": the batches are the same.
    """

    batch: int
    rows: int
    transactions: int
    was_decided: bool = False
    repaired: int = 0
    is_marked_done: bool = True
    aborted: int = 0
    open_ms: int = 0
    timeout_ms: int = 0
    driver_epoch: DriverEpoch | None = None
    doubt: str = ""

    @property
    def was_close(self) -> bool:
        """Whether a batch that takes twice as long would be lost."""
        return self.open_ms * 2 > self.timeout_ms > 0


def token_of(opened: Iterable[Opened]) -> str:
    """A name for the transactions of one job; a repeated job has other transactions."""
    text = "\n".join(sorted(f"{each[0]} {each[1]} {each[2]}" for each in opened))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
