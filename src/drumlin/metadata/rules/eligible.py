"""Eligible leader replicas (KIP-966): not in sync, but with all committed records. Pure.

While fewer than `min.insync.replicas` are in sync, nothing is committed: the leader refuses
`acks=all`, and its high watermark does not advance (`replication/partition.py`). So every replica
that is in sync at that moment, or joins the ISR later, has all committed records until enough
replicas are in sync again. A replica that leaves the ISR becomes eligible; when enough are in sync,
the list is cleared.

A broker that returns from an unclean stop may have lost records that were not on its disk yet. It
is removed from the ISR and from the eligible replicas, but its log end is remembered (`LastKnown`).
If no other replica can lead, the returned replica with the longest log is elected (*unclean
recovery*):

- once `min.insync.replicas` replicas are back, as each acknowledged record was on that many;
- but never a single one, while others that have all records may exist;
- never a replica without a log, or with a log restored from a copy;
- nor a replica that came back while there was a leader, once that leader has changed the ISR: the
  leader has all records, so its return is awaited. Until then the replica truncates nothing for
  that leader (`replication/followed_partition.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from drumlin.metadata.image import NO_LEADER, NO_LOG, LastKnown, LogEnd, PartitionState

#: The minimum number of replicas for a recovery: even with `min.insync.replicas=1`, a single
#: replica may lack records that all others have.
_RECOVERED_FROM: Final = 2
#: The assumed end of an unknown log, which counts as longer than no log.
_UNKNOWN: Final = LogEnd(-1, 0)


class Election(enum.Enum):
    """The kind of an election."""

    CLEAN = "clean"
    #: An election among replicas that were complete before an unclean stop.
    RECOVERY = "recovery"
    UNCLEAN = "unclean"


def needed_replicas(state: PartitionState, min_isr: int) -> int:
    """The effective `min.insync.replicas`: at most the number of replicas, as in Apache Kafka."""
    return min(min_isr, len(state.replicas))


def election(before: PartitionState, after: PartitionState) -> Election | None:
    """The kind of election that led from one state to the other; None if the leader is the same, or
    there is no leader.
    """
    leader = after.leader
    if leader in (NO_LEADER, before.leader):
        return None
    if leader in before.isr or leader in before.elr or before.leader_epoch < 0:
        return Election.CLEAN
    return Election.RECOVERY if leader in remembered(before) else Election.UNCLEAN


def complete(state: PartitionState) -> set[int]:
    """Replicas with all committed records, except for losses in an unclean stop."""
    return {*state.isr, *state.elr, *remembered(state)}


def with_isr(
    state: PartitionState,
    isr: Iterable[int],
    leader: int,
    min_isr: int,
    *,
    gone: Collection[int] = (),
) -> PartitionState:
    """The partition with this leader and ISR, and the replicas that may still become leader.

    gone: brokers that must no longer be eligible.
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
    """The partition, remembering the log end of a replica that is neither in sync nor eligible."""
    if state.leader != NO_LEADER and len(state.isr) >= needed_replicas(state, min_isr):
        return state
    others = {each.node_id: each for each in state.last_known} | {known.node_id: known}
    last_known = tuple(others[each] for each in state.replicas if each in others)
    return replace(state, last_known=last_known)


def superseded(state: PartitionState) -> PartitionState:
    """The partition without candidates for a recovery, as its leader is alive.

    The leader has all records that a returned replica may lack. If the leader dies, its return is
    awaited.
    """
    last_known = tuple(each._replace(was_complete=False) for each in state.last_known)
    return state if last_known == state.last_known else replace(state, last_known=last_known)


def next_leader(state: PartitionState, alive: Collection[int], min_isr: int) -> int:
    """The next leader when no ISR member is alive; NO_LEADER if no replica may lead."""
    eligible = (each for each in state.replicas if each in state.elr and each in alive)
    return next(eligible, _recovered(state, alive, min_isr))


def _recovered(state: PartitionState, alive: Collection[int], min_isr: int) -> int:
    if is_nothing_left(state):  # no more records can be lost
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
        return best  # enough have returned, even if some died again, and none has more records
    return NO_LEADER  # Kafka would elect the last leader, but another may have more records


def is_nothing_left(state: PartitionState) -> bool:
    """Whether all replicas have returned without a log."""
    ends = {each.node_id: each.log_end for each in state.last_known}
    return all(ends.get(each) == NO_LOG for each in state.replicas)


def best_left(state: PartitionState, alive: Collection[int]) -> int:
    """The live replica that probably lacks the fewest records; NO_LEADER if no replica is alive."""
    live = [each for each in state.replicas if each in alive]
    for some in (state.isr, state.elr, remembered(state)):
        found = [each for each in live if each in some]
        if found:
            return _longest(state, found)
    return _longest(state, live) if live else NO_LEADER


def remembered(state: PartitionState) -> list[int]:
    """The replicas that returned from an unclean stop and may be elected in a recovery."""
    return [each.node_id for each in state.last_known if each.was_complete]


def _longest(state: PartitionState, some: Collection[int]) -> int:
    """The replica with the longest log; among equals, the last leader or else the first replica.

    A log whose records were all deleted has no leader epoch, and is compared by its end offset. A
    log that ends later than a complete log is complete, too.
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
