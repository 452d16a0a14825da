"""Errors of the sink about a batch that was not written. Each describes the effect of a restart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drumlin.spark.writing.protocol.transactions import Winner

#: What to do about transactions that time out.
LONGER: Final = (
    "If batches take so long, raise the option 'kafka.transaction.timeout.ms' (and "
    "transaction.max.timeout.ms of the brokers, which limits it), or make them smaller"
)


class SinkError(RuntimeError):
    """Base class of the protocol's errors."""


class NotDecided(SinkError):
    """The batch was not decided, and nothing of it will be seen. Run it again."""


class Superseded(SinkError):
    """Another run of the query writes to this sink, or another query. Nothing is lost."""


class DecisionUnknown(SinkError):
    """It is unknown whether the decision was made. The next run of the batch finds out."""


class Unfinished(SinkError):
    """The batch is decided, but not all of its transactions are known to be committed yet.

    The next run of the batch commits the rest.
    """


class WinnersLost(SinkError):
    """The batch is decided, but some of its transactions timed out before they were committed.

    The next run of the batch writes their rows again, if it can prove that they are the same.
    """

    def __init__(self, sink: str, batch: int, lost: Sequence[Winner]) -> None:
        super().__init__(
            f"sink {sink!r}: batch {batch} is decided, and the transactions of {_named(lost)} were "
            "aborted before they could be committed. Run the batch again: its tasks write these "
            "rows again"
        )
        self.batch = batch
        self.lost = tuple(lost)


class NotRepairable(SinkError):
    """Rows of a decided batch are missing, and cannot safely be written again.

    The query has to stop: continuing would lose these rows, and writing the batch again would
    duplicate others.
    """

    def __init__(self, sink: str, batch: int, lost: Sequence[Winner], why: str) -> None:
        super().__init__(
            f"sink {sink!r}: batch {batch} is decided, and the rows of {_named(lost)} {why}. "
            f"Compare the topics with the batch's input; then "
            f"`drumlin sinks forget {sink}` lets the query continue"
        )
        self.batch = batch
        self.lost = tuple(lost)


class BatchDiffers(SinkError):
    """The batch is decided, and another one now has its number.

    The query's checkpoint is older than the sink, or a copy, or the query is not repeatable. None
    of the new rows is written: dropping them would lose rows, and writing them would duplicate
    others. The query has to stop until an operator decides.
    """

    def __init__(
        self, sink: str, query: str, batch: int, *, differs: str, may_be_rows: bool
    ) -> None:
        """`may_be_rows`: it is unknown whether the input differs, or only the rows do."""
        whose = f"batch {batch} of query {query}" if query else "this write"
        what_to_do = (
            "Its checkpoint is older than its last batch (a restored backup, or a copy used beside "
            "the original). Restore the newest checkpoint, or begin with a new one where the "
            "decided batch ends."
            if query
            else "Its name is taken: give it another writeId."
        )
        rows = "If the same input gives other rows, rowsMayDiffer=true keeps the decided ones. "
        super().__init__(
            f"sink {sink!r}: {whose} was decided with {differs}, which was not written. "
            f"{what_to_do} {rows if may_be_rows else ''}Or run `drumlin sinks forget {sink}`: "
            "then this batch is written in addition to the decided one"
        )
        self.batch = batch


class StateLost(SinkError):
    """The sink's last decision cannot be read: the decision topic or the group is gone."""


class RequestFailed(SinkError):
    """The cluster refused a request, or did not answer in time; it may have taken effect."""


class Fenced(RequestFailed):
    """Another process has initialised the transactional id since, or it timed out."""


def _named(winners: Sequence[Winner]) -> str:
    shown = [
        f"task {each.part + ':' if each.part else ''}{each.partition} ({each.rows} rows, "
        f"{each.transactional_id})"
        for each in winners[:20]
    ]
    more = f" and {len(winners) - 20} more" if len(winners) > 20 else ""
    return ", ".join(shown) + more
