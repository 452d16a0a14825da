"""What has become of the transactions that a decision names.

A winner that is open is committed, by whoever comes along: that can be repeated. None is ever
aborted here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from drumlin.spark.writing.protocol.errors import NotRepairable, Unfinished
from drumlin.spark.writing.protocol.requests import CommitAll, Describe, Description, Steps
from drumlin.spark.writing.protocol.state import SinkState
from drumlin.spark.writing.protocol.transactions import Winner

ONGOING = "Ongoing"
COMMITTED = ("PrepareCommit", "CompleteCommit")
_ABORTED = ("PrepareAbort", "CompleteAbort", "PrepareEpochFence")


class Fates(NamedTuple):
    """Winners by what has become of them."""

    committed: tuple[Winner, ...]
    lost: tuple[Winner, ...]

    @property
    def is_void(self) -> bool:
        """Nothing of the decision was or will be seen by anybody."""
        return bool(self.lost) and not self.committed


def finish(sink: str, batch: int, winners: tuple[Winner, ...]) -> Steps[Fates]:
    """Commit the winners of a decided batch, as far as they are open.

    Raises:
        Unfinished: of some it is not known yet.
        NotRepairable: of some it can not be known any more.
    """
    if not winners:
        return Fates((), ())
    outcomes = yield CommitAll(tuple(each.opened for each in winners))
    found = {each: outcomes[each.opened] for each in winners}
    waiting = [each for each, outcome in found.items() if outcome == "unanswered"]
    if waiting:
        raise Unfinished(
            f"sink {sink!r}: batch {batch} is decided, and {len(waiting)} of its {len(winners)} "
            "transactions could not be committed in time. Run the batch again: that goes on"
        )
    unknown = [each for each, outcome in found.items() if outcome == "unknown"]
    if unknown:
        why = (
            "may be in the topics or not: their transactional ids have expired, or somebody else "
            "has initialised them, or their coordinator has lost what it knew of them, so nothing "
            "tells whether they were committed"
        )
        raise NotRepairable(sink, batch, unknown, why)
    return Fates(
        tuple(each for each, outcome in found.items() if outcome == "committed"),
        tuple(each for each, outcome in found.items() if outcome == "aborted"),
    )


def is_open(winner: Winner, known: dict[str, Description]) -> bool:
    """Whether this very transaction could be committed now."""
    found = known.get(winner.transactional_id)
    return found is not None and found.state == ONGOING and found.is_of(winner.opened)


def is_lost(winner: Winner, known: dict[str, Description]) -> bool:
    """Whether it was aborted, as far as one look can tell while its batch is not done."""
    found = known.get(winner.transactional_id)
    if found is None or found.producer_id != winner.producer_id:
        return False  # who knows: the driver finds out, and says so
    # An id that was taken when all was over has the next epoch, too: but not this state.
    return found.state in _ABORTED or found.epoch > winner.epoch + 1


def must_write(state: SinkState, key: tuple[str, int]) -> Steps[bool]:
    """Whether a task of a decided batch has to write its rows again; commits what it had written.

    It has to if its own winner was lost, or if all were: then nothing was decided, in effect.
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
    """Those that are not open."""
    return [each for each in winners if not is_open(each, known)]
