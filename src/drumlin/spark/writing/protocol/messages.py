"""What tasks and drivers tell each other, and what they are told by their options.

These cross processes by pickle; all are plain values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from drumlin.spark.crossing import Crossing
from drumlin.spark.writing.protocol import names
from drumlin.spark.writing.protocol.state import Office
from drumlin.spark.writing.protocol.transactions import Opened, Winner


@dataclass(frozen=True, slots=True)
class SinkSettings(Crossing):
    """The same for all who write to one sink.

    Attributes:
        decision_topic: where decisions are; made, compacted, if it is not there.
        transaction_timeout_ms: of tasks' transactions; None: the longest that the broker allows.
        may_begin_late: a batch other than 0 may be the first that the cluster knows of. Without
            it such a batch is refused, as its decision may have been lost.
        speculation: look for losers with each batch, whatever Spark says about twins.
        is_for_once: the sink's name was made up for one write, so nobody ever comes back to it:
            what its group does not know was never decided, and what is done leaves no record.
    """

    decision_topic: str = names.DECISION_TOPIC
    transaction_timeout_ms: int | None = None
    may_begin_late: bool = False
    speculation: bool = False
    is_for_once: bool = False


@dataclass(frozen=True, slots=True)
class TaskIdentity(Crossing):
    """Which task of what this is.

    Attributes:
        sink: the sink's name: the query's id and the topic, unless an option gives another.
        query: whose batches are counted: the query's id; "" where batches are not counted.
        batch: Spark's number of the micro-batch; 0 for what is one batch alone.
        run: new at every start of the query (`spark.jobGroup.id`), or of the write.
        partition, attempt: as TaskContext has them.
        part: tells several writes of one batch apart, if one decision is made for all.
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
class TaskMessage(Crossing):
    """What a task tells the driver.

    Attributes:
        found_decided: the batch was decided already, so the task has written nothing.
        opened: its transaction, all acknowledged and open; None: it had no rows.
        rows: how many it has written.
        checksum: of its rows, whatever their order; the same rows always have the same.
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
class SourceOffsets(Crossing):
    """Offsets of what was read, committed to a group together with the decision."""

    group: str
    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)


class CommitReport(NamedTuple):
    """What a commit has come to.

    Attributes:
        was_decided: by an earlier run of the batch; this one has changed nothing.
        repaired: so many tasks' rows were written again, as their transactions had timed out.
        is_marked_done: else a later commit marks it; nothing is wrong with the batch.
        aborted: transactions of losers and zombies.
        open_ms: how long the first of the winners was open; 0: not known.
        timeout_ms: after how long it would have been aborted.
        office: spares the sink's next commit to fence and to read.
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
    office: Office | None = None

    @property
    def was_close(self) -> bool:
        """Whether a batch that takes twice as long would be lost."""
        return self.open_ms * 2 > self.timeout_ms > 0


def token_of(opened: Iterable[Opened]) -> str:
    """Names a set of transactions: that of one job, as a repeated job has others."""
    text = "\n".join(sorted(f"{each[0]} {each[1]} {each[2]}" for each in opened))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
