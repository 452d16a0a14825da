"""Where a follower's log and its leader's part, by leader epochs. Pure.

A follower tells the epoch of its last record; a leader that ends that epoch earlier answers with
the largest epoch that both may share, and where that ends in its own log (KIP-101, 279, 595). What
is cut off here is never in the leader's log, and what both logs agree on is never cut off, as far
as batches that were cleaned away leave that to be seen.

A leader knows nothing of what was before its log start. Where both part there or before, no record
of the follower's is known to be the leader's, and it begins anew where the leader's log begins.
Where they part at the follower's own log start it does not: what it has deleted was committed, and
its log must not end before that.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class EpochEnd(Protocol):
    """An epoch, and where its records end."""

    @property
    def epoch(self) -> int: ...
    @property
    def end_offset(self) -> int: ...


class Epochs(Protocol):
    """The leader epochs of the follower's log."""

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch not above `epoch`, and where its records end; (-1, -1): none."""


class Extent(NamedTuple):
    """From where to where a log has offsets."""

    start: int
    end: int


class Cut(NamedTuple):
    """What is to become of a follower's log."""

    #: The end of what stays; or where it begins anew.
    offset: int
    is_anew: bool = False


def cut_after(own: Epochs, extent: Extent, leaders: EpochEnd, leaders_start: int) -> Cut:
    """What to do before the next fetch, after a leader's answer `leaders`.

    Where the follower has no record of that epoch, it takes the largest epoch below it, and the
    next answer says more: it may take several rounds.
    """
    mine = own.end_offset_for(leaders.epoch, extent.end)
    if mine.end_offset < 0:  # it knows of no epoch, or of none so late
        shared_end = leaders.end_offset
    elif mine.epoch == leaders.epoch:
        shared_end = min(mine.end_offset, leaders.end_offset)
    else:
        shared_end = mine.end_offset
    return _cut_at(min(shared_end, extent.end), extent, leaders_start)


def cut_out_of_range(extent: Extent, leaders: Extent) -> Cut | None:
    """What to do when the leader does not have the follower's next offset; None: fetch on."""
    if leaders.end < extent.end:
        return _cut_at(leaders.end, extent, leaders.start)
    if leaders.start > extent.end:
        return Cut(leaders.start, is_anew=True)
    return None  # it has come to have it meanwhile


def _cut_at(shared_end: int, extent: Extent, leaders_start: int) -> Cut:
    if shared_end < extent.start or shared_end <= leaders_start:
        return Cut(leaders_start, is_anew=True)
    return Cut(shared_end)
