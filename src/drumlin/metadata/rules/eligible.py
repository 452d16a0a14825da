"""Who has all that is committed without being in sync: eligible leader replicas (KIP-966). Pure.

While fewer than `min.insync.replicas` are in sync nothing is committed: the leader takes nothing
with `acks=all`, and its high watermark stands still (`replication/partition.py`). So whoever was in
sync when that began, or later, has all that is committed for as long as it lasts: it is in the ISR,
or eligible. When enough are in sync again, all others are forgotten.

A broker that comes back from an unclean stop may have lost what was not on its disk. It is neither
in sync nor eligible any more, but it is remembered with the end of its log (`LastKnown`). If nobody
else is left, those that are back choose the one among them whose log ends last (an *unclean
recovery*): as soon as they are `min.insync.replicas`, as that many had each record that was
acknowledged; but never one of them alone, while there are others who may have all of it. A replica
without a log, or with a copy that was put back, never counts among them. Nor does one that came
back to a leader, once that has asked for anything: it has all of it, and is worth waiting for.
Until then it gives up nothing for that leader (`replication/followed_partition.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from drumlin.metadata.image import NO_LEADER, NO_LOG, LastKnown, LogEnd, PartitionState

#: One copy alone may lack what all others have, though `min.insync.replicas` is 1.
_RECOVERED_FROM: Final = 2
#: Of a log of which nothing is known: more than nothing.
_UNKNOWN: Final = LogEnd(-1, 0)


class Election(enum.Enum):
    """What a new leader is chosen by."""

    CLEAN = "clean"
    #: Of those that were complete before an unclean stop.
    RECOVERY = "recovery"
    UNCLEAN = "unclean"


def needed_replicas(state: PartitionState, min_isr: int) -> int:
    """How many must be in sync; no more than there are replicas, as in Apache Kafka."""
    return min(min_isr, len(state.replicas))


def election(before: PartitionState, after: PartitionState) -> Election | None:
    """By what the partition has got another leader; None if it has not."""
    leader = after.leader
    if leader in (NO_LEADER, before.leader):
        return None
    if leader in before.isr or leader in before.elr or before.leader_epoch < 0:
        return Election.CLEAN
    return Election.RECOVERY if leader in remembered(before) else Election.UNCLEAN


def complete(state: PartitionState) -> set[int]:
    """Replicas that have all that is committed, but for what an unclean stop may have cost them."""
    return {*state.isr, *state.elr, *remembered(state)}


def with_isr(
    state: PartitionState,
    isr: Iterable[int],
    leader: int,
    min_isr: int,
    *,
    gone: Collection[int] = (),
) -> PartitionState:
    """The partition with this leader and ISR, and all remembered who may still lead it.

    gone: brokers that are not eligible, though they were.
    """
    isr = tuple(isr)
    elr: tuple[int, ...] = ()
    last_known: tuple[LastKnown, ...] = ()
    can_commit = leader != NO_LEADER and len(isr) >= needed_replicas(state, min_isr)
    if not can_commit:
        stay = {*state.isr, *state.elr}.difference(isr, gone)
        elr = tuple(each for each in state.replicas if each in stay)
        last_known = tuple(
            each
            for each in state.last_known
            if each.node_id in state.replicas and each.node_id not in {*isr, *elr, *gone}
        )
    after = replace(
        state,
        leader=leader,
        leader_epoch=state.leader_epoch + (leader != state.leader),
        isr=isr,
        elr=elr,
        last_known=last_known,
        last_leader=_last_leader(state, leader),
    )
    return state if after == state else after


def _last_leader(state: PartitionState, leader: int) -> int:
    if leader != NO_LEADER:
        return NO_LEADER
    return state.last_leader if state.leader == NO_LEADER else state.leader


def remembering(state: PartitionState, known: LastKnown, min_isr: int) -> PartitionState:
    """The partition with what is known of a replica that is neither in sync nor eligible."""
    if state.leader != NO_LEADER and len(state.isr) >= needed_replicas(state, min_isr):
        return state
    others = {each.node_id: each for each in state.last_known} | {known.node_id: known}
    last_known = tuple(others[each] for each in state.replicas if each in others)
    return replace(state, last_known=last_known)


def superseded(state: PartitionState) -> PartitionState:
    """The partition as its leader lives: who has come back meanwhile is not to lead in its stead.

    What such a log lacks the leader has. While that is away, it is waited for.
    """
    last_known = tuple(each._replace(was_complete=False) for each in state.last_known)
    return state if last_known == state.last_known else replace(state, last_known=last_known)


def next_leader(state: PartitionState, alive: Collection[int], min_isr: int) -> int:
    """Who may lead the partition, as none of its ISR is alive; NO_LEADER if nobody may."""
    eligible = (each for each in state.replicas if each in state.elr and each in alive)
    return next(eligible, _recovered(state, alive, min_isr))


def _recovered(state: PartitionState, alive: Collection[int], min_isr: int) -> int:
    if is_nothing_left(state):  # there is nothing more to be lost
        return next((each for each in state.replicas if each in alive), NO_LEADER)
    known = remembered(state)
    back = [each for each in state.replicas if each in known and each in alive]
    if not back:
        return NO_LEADER
    needed = max(needed_replicas(state, min_isr), _RECOVERED_FROM)
    needed = min(needed, len(complete(state)))
    best = _longest(state, back)
    if len(back) >= needed:
        return best
    if len(known) >= needed and best == _longest(state, known):
        return best  # others were back, with less
    return NO_LEADER  # nor may the last leader, as with Apache Kafka: another is known to have more


def is_nothing_left(state: PartitionState) -> bool:
    """Whether all replicas have come back without a log."""
    ends = {each.node_id: each.log_end for each in state.last_known}
    return all(ends.get(each) == NO_LOG for each in state.replicas)


def best_left(state: PartitionState, alive: Collection[int]) -> int:
    """Whoever of those alive is likely to lack least; NO_LEADER if none is."""
    live = [each for each in state.replicas if each in alive]
    for some in (state.isr, state.elr, remembered(state)):
        found = [each for each in live if each in some]
        if found:
            return _longest(state, found)
    return _longest(state, live) if live else NO_LEADER


def remembered(state: PartitionState) -> list[int]:
    """Who came back from an unclean stop, and may lead by what it has if nobody else is left."""
    return [each.node_id for each in state.last_known if each.was_complete]


def _longest(state: PartitionState, some: Collection[int]) -> int:
    """The one whose log ends last; of several the last leader, or the first of the replicas.

    A log without records, as all were deleted, tells no leader epoch: it is compared by its end.
    Whoever ends later than one that has all that is committed has it, too: it has lost its tail.
    """
    ends = {each.node_id: each.log_end for each in state.last_known}
    among = [each for each in state.replicas if each in some]

    def end_of(node_id: int) -> LogEnd:
        return ends.get(node_id, _UNKNOWN)

    def rank(node_id: int) -> tuple[LogEnd, bool]:
        return end_of(node_id), node_id == state.last_leader

    emptied = [each for each in among if end_of(each).leader_epoch < 0 < end_of(each).end_offset]
    firsts = [
        max(group, key=rank)
        for group in ([each for each in among if each not in emptied], emptied)
        if group
    ]
    return max(firsts, key=lambda each: end_of(each).end_offset)
