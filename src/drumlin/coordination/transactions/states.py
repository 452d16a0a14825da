"""The states of a transactional id, and the transitions between them.

    Empty ──> Ongoing ──> PrepareCommit ──> CompleteCommit
                 │                              (then Ongoing again)
                 └──────> PrepareAbort  ──> CompleteAbort

An abort without a transaction (transactions v2) leads from Empty or Complete* directly to
PrepareAbort. Numbers are those in the log, names those in DescribeTransactions.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class TransactionState(Enum):
    """A state, with its number in the log; `label` is its name in answers."""

    EMPTY = (0, "Empty")
    ONGOING = (1, "Ongoing")
    PREPARE_COMMIT = (2, "PrepareCommit")
    PREPARE_ABORT = (3, "PrepareAbort")
    COMPLETE_COMMIT = (4, "CompleteCommit")
    COMPLETE_ABORT = (5, "CompleteAbort")
    DEAD = (6, "Dead")
    """The tombstone is being written."""
    PREPARE_EPOCH_FENCE = (7, "PrepareEpochFence")
    """Between an ongoing transaction and its abort by the coordinator; never in the log."""

    def __init__(self, number: int, label: str) -> None:
        self.number = number
        self.label = label

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, and markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        """Whether no transaction is open: a transaction may begin, or the id may expire."""
        return self in AT_REST


AT_REST: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
#: State -> the states from which it can be reached.
PREVIOUS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: AT_REST,
    TransactionState.ONGOING: AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: AT_REST
    | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: AT_REST,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
BY_NUMBER: Final = {state.number: state for state in TransactionState}
BY_LABEL: Final = {state.label: state for state in TransactionState}
