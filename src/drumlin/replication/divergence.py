"""The offset at which a follower's log diverges from its leader's, by leader epochs. Pure.

A follower sends the epoch of its last record. If that epoch ends earlier in the leader's log, the
leader answers with the largest epoch that both may share, and the epoch's end offset in its log
(KIP-101, 279, 595). Truncation removes only records that the leader does not have, and keeps all
common records, as far as compaction has left enough batches to recognize them.

A leader knows nothing about offsets before its log start offset. If the logs diverge there or
earlier, no record of the follower is known to be in the leader's log, so the follower drops its log
and starts again at the leader's log start offset. If the logs diverge at the follower's own log
start offset, it keeps its log: its deleted records were committed, so its log must not end before
them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class EpochEnd(Protocol):
    """A leader epoch and its end offset."""

    @property
    def epoch(self) -> int: ...
    @property
    def end_offset(self) -> int: ...


class Epochs(Protocol):
    """The leader epochs of the follower's log."""

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch up to `epoch`, with its end offset; (-1, -1) if there is none."""


class Extent(NamedTuple):
    """The offsets that a log covers: log start offset and log end offset."""

    start: int
    end: int


class Cut(NamedTuple):
    """A truncation of a follower's log."""

    #: The new log end offset; with `is_full`, the start of the emptied log.
    offset: int
    is_full: bool = False


def cut_after(own: Epochs, extent: Extent, leaders: EpochEnd, leaders_start: int) -> Cut:
    """The truncation that the leader's answer `leaders` requires before the next fetch.

    A follower without records of that epoch truncates to the end of its next smaller epoch, and
    asks again: this may take several rounds.
    """
    mine = own.end_offset_for(leaders.epoch, extent.end)
    if mine.end_offset < 0:  # the follower has no epochs, or none up to the leader's
        shared_end = leaders.end_offset
    elif mine.epoch == leaders.epoch:
        shared_end = min(mine.end_offset, leaders.end_offset)
    else:
        shared_end = mine.end_offset
    return _cut_at(min(shared_end, extent.end), extent, leaders_start)


def cut_out_of_range(extent: Extent, leaders: Extent) -> Cut | None:
    """The truncation to make if the leader lacks the follower's next offset; None to continue
    fetching.
    """
    if leaders.end < extent.end:
        return _cut_at(leaders.end, extent, leaders.start)
    if leaders.start > extent.end:
        return Cut(leaders.start, is_full=True)
    return None  # the leader has reached that offset meanwhile


def _cut_at(shared_end: int, extent: Extent, leaders_start: int) -> Cut:
    if shared_end < extent.start or shared_end <= leaders_start:
        return Cut(leaders_start, is_full=True)
    return Cut(shared_end)
