"""Where a follower's log and its leader's part, by leader epochs. Pure.

A follower tells the epoch of its last record; a leader that ends that epoch earlier answers with
the largest epoch that both may share, and where that ends in its own log (KIP-101, 279, 595). What
is cut off here is never in the leader's log, and what both logs agree on is never cut off.
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


class Reset(NamedTuple):
    """What to do with a log of which the leader has not the next offset."""

    #: Cut the log to this offset; or begin anew there; or None: fetch on.
    offset: int | None
    is_anew: bool = False


def truncation_offset(own: Epochs, log_end_offset: int, leaders: EpochEnd) -> int:
    """To which offset to truncate before the next fetch, after a leader's answer `leaders`.

    Where the follower has no record of that epoch, it takes the largest epoch below it, and the
    next answer says more: it may take several rounds.
    """
    mine = own.end_offset_for(leaders.epoch, log_end_offset)
    if mine.end_offset < 0:  # it knows of no epoch, or of none so late
        return min(leaders.end_offset, log_end_offset)
    if mine.epoch == leaders.epoch:
        return min(mine.end_offset, leaders.end_offset, log_end_offset)
    return min(mine.end_offset, log_end_offset)


def reset_for(log_end_offset: int, leaders_start: int, leaders_end: int) -> Reset:
    """What to do when the leader does not have `log_end_offset`, but the given offsets."""
    if leaders_end < log_end_offset:
        return Reset(leaders_end)
    if leaders_start > log_end_offset:
        return Reset(leaders_start, is_anew=True)
    return Reset(None)  # it has come to have it meanwhile
