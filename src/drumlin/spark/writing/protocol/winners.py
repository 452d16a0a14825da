"""Determines the outcome of the transactions that a decision names, and commits them.

Any task or driver may commit a winner that is open: the commit can be repeated. This module must
never abort one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from drumlin.spark.writing.protocol.requests import CommitAll, Describe, Description, Steps
from drumlin.spark.writing.protocol.sink_errors import NotRepairable, Unfinished
from drumlin.spark.writing.protocol.state import SinkState
from drumlin.spark.writing.protocol.transactions import Winner

ONGOING = "Ongoing"
COMMITTED = ("PrepareCommit", "CompleteCommit")
_ABORTED = ("PrepareAbort", "CompleteAbort", "PrepareEpochFence")


class Fates(NamedTuple):
    """Winners by their outcome."""

    committed: tuple[Winner, ...]
    lost: tuple[Winner, ...]

    @property
    def is_void(self) -> bool:
        """No reader has seen or will see any part of the decision."""
        return bool(self.lost) and not self.committed


def finish(sink: str, batch: int, winners: tuple[Winner, ...]) -> Steps[Fates]:
    """Commit the winners of a decided batch that are still open.

    Raises:
        Unfinished: the outcome of some is not known yet.
        NotRepairable: the outcome of some cannot be known any more.
    """
    if not winners:
        return Fates((), ())
    outcomes = yield CommitAll(tuple(each.opened for each in winners))
    found = {each: outcomes[each.opened] for each in winners}
    waiting = [each for each, outcome in found.items() if outcome == "unanswered"]
    if waiting:
        raise Unfinished(
            f"sink {sink!r}: batch {batch} is decided, and {len(waiting)} of its {len(winners)} "
            "transactions could not be committed in time. Run the batch again to commit them"
        )
    unknown = [each for each, outcome in found.items() if outcome == "unknown"]
    if unknown:
        why = (
            "may be in the topics or not: their transactional ids have expired, or another client "
            "has initialised them, or their coordinator has lost its state of them, so it is "
            "unknown whether they were committed"
        )
        raise NotRepairable(sink, batch, unknown, why)
    return Fates(
        tuple(each for each, outcome in found.items() if outcome == "committed"),
        tuple(each for each, outcome in found.items() if outcome == "aborted"),
    )


def is_open(winner: Winner, known: dict[str, Description]) -> bool:
    """Whether this transaction, not a later one of the same id, could be committed now."""
    found = known.get(winner.transactional_id)
    return found is not None and found.state == ONGOING and found.is_of(winner.opened)


def is_lost(winner: Winner, known: dict[str, Description]) -> bool:
    """Whether it was aborted, judging by its description while the batch is not done."""
    found = known.get(winner.transactional_id)
    if found is None or found.producer_id != winner.producer_id:
        return False  # unknown: the driver finds out, and reports it
    # An id taken over after a commit has the next epoch, too, but not one of these states.
    return found.state in _ABORTED or found.epoch > winner.epoch + 1


def must_write(state: SinkState, key: tuple[str, int]) -> Steps[bool]:
    """Whether a task of a decided batch must write its rows again; commits its winner if open.

    It must if its own winner was lost, or if all were: then nothing was decided, in effect.
    """
    known = yield Describe(tuple(each.transactional_id for each in state.winners))
    own = next((each for each in state.winners if each.key == key), None)
    if all(is_lost(each, known) for each in state.winners):
        return True
    if own is None:
        return False
    if is_open(own, known):
        outcomes = yield CommitAll((own.opened,))
        return bool(outcomes[own.opened] == "aborted")
    return is_lost(own, known)


def missing(winners: Iterable[Winner], known: dict[str, Description]) -> list[Winner]:
    """The winners that are not open."""
    return [each for each in winners if not is_open(each, known)]
