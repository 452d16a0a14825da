"""One batch as the tasks of one job report it to the driver. Sends no requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from drumlin.spark.writing.protocol import names
from drumlin.spark.writing.protocol.content import NO_PLAN, Content, Plan
from drumlin.spark.writing.protocol.messages import SinkSettings, TaskMessage, token_of
from drumlin.spark.writing.protocol.state import SinkState
from drumlin.spark.writing.protocol.transactions import Opened, Winner

#: How long readers may be held up by an open transaction that neither a message nor Spark reports.
_LOOK_AGAIN_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Job:
    """One batch as its tasks report it."""

    sink: str
    query: str
    batch: int
    run: str
    messages: tuple[TaskMessage, ...]
    winners: tuple[Winner, ...]
    plan: Plan = NO_PLAN

    @classmethod
    def of(cls, messages: Sequence[TaskMessage], batch: int, plan: Plan = NO_PLAN) -> Job:
        """Combine the messages of a job.

        Raises:
            ValueError: these are not the messages of one job for this batch.
        """
        sources = {(m.identity.sink, m.identity.query, m.identity.run) for m in messages}
        batches = {message.identity.batch for message in messages}
        keys = {message.identity.key for message in messages}
        if len(sources) != 1 or batches != {batch} or len(keys) != len(messages):
            raise ValueError(
                f"messages of several jobs: {sorted(sources)}, batches {sorted(batches)}"
            )
        sink, query, run = sources.pop()
        found = tuple(each for message in messages if (each := message.winner) is not None)
        return cls(sink, query, batch, names.run_name(run), tuple(messages), found, plan)

    @property
    def opened(self) -> tuple[Opened, ...]:
        return tuple(each.opened for each in self.winners)

    @property
    def token(self) -> str:
        return f"{self.batch}:{token_of(self.opened)}"

    @property
    def content(self) -> Content:
        """The content of the batch in this job."""
        return Content.of(((each.rows, each.checksum) for each in self.messages), self.plan)

    def besides(self, winners: Sequence[Winner]) -> tuple[str, ...]:
        """The ids of this job's transactions that are not among `winners`."""
        kept = {each.opened for each in winners}
        return tuple(each.transactional_id for each in self.winners if each.opened not in kept)

    def may_have_losers(self, state: SinkState | None, settings: SinkSettings, now_ms: int) -> bool:
        """Whether to look for transactions that no message names.

        A stage that is repeated as a whole leaves no trace in its messages. So the brokers are
        asked every `_LOOK_AGAIN_MS` anyway: one request to each costs little at that interval.
        """
        who = [message.identity for message in self.messages]
        if settings.speculation or any(each.attempt > 0 or each.has_twins for each in who):
            return True
        if state is None or state.run != self.run:
            return True
        # Spark numbers task attempts. A gap means other attempts in between, perhaps of our tasks.
        numbers = [each.task_id for each in who]
        has_gap = max(numbers) - min(numbers) >= len(numbers)
        return has_gap or not 0 <= now_ms - state.looked_ms < _LOOK_AGAIN_MS
