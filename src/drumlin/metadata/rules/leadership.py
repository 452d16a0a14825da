"""The choice of a partition's leader and ISR, given the live brokers. Pure.

A partition is never led by a broker that may lack acknowledged records, unless its topic has
`unclean.leader.election.enable`. `eligible.py` says which replicas may lead besides the ISR. A new
leader means a new leader epoch. `min_isr` is the topic's `min.insync.replicas`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from drumlin.metadata.image import NO_LEADER, NO_LOG, LastKnown, LogEnd, PartitionState
from drumlin.metadata.rules.eligible import (
    Election,
    best_left,
    complete,
    election,
    next_leader,
    remembering,
    with_isr,
)
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The leader epoch of a partition that has never had a leader.
NO_EPOCH: Final = -1


def never_led(index: int, replicas: tuple[int, ...]) -> PartitionState:
    """A partition that has never had a leader, for which ZooKeeper has no state node yet."""
    return PartitionState(index, NO_LEADER, NO_EPOCH, replicas, (), NO_EPOCH)


def is_settled(state: PartitionState, alive: Collection[int]) -> bool:
    """Whether `settled` is certain to return the partition unchanged.

    A quick check: if False, `settled` has to decide.
    """
    return (
        state.leader in state.isr
        and not (state.elr or state.last_known)
        and state.last_leader == NO_LEADER
        and all(map(alive.__contains__, state.isr))
    )


def settled(
    state: PartitionState,
    alive: Collection[int],
    min_isr: int,
    *,
    may_be_unclean: bool = False,
) -> PartitionState:
    """The partition with a live leader and an ISR of live brokers; unchanged if it has both.

    Dead brokers leave the ISR, unless no replica may lead: then there is no leader, and the ISR
    stays, as its members may lead when they return.
    """
    live = tuple(each for each in state.replicas if each in alive)
    if state.leader_epoch == NO_EPOCH:
        return replace(state, leader=live[0], leader_epoch=0, isr=live) if live else state
    isr = tuple(each for each in state.isr if each in alive)
    if isr:
        leader = state.leader if state.leader in isr else _first(state, isr)
        return with_isr(state, isr, leader, min_isr)
    leader = next_leader(state, alive, min_isr)
    if leader != NO_LEADER:
        return with_isr(state, (leader,), leader, min_isr)
    if may_be_unclean and live:
        return led_by_any(state, live, min_isr)
    return with_isr(state, state.isr, NO_LEADER, min_isr)


def led_by_any(state: PartitionState, alive: Collection[int], min_isr: int) -> PartitionState:
    """The partition led by the live replica that probably lacks the fewest records; one must be
    alive.
    """
    leader = best_left(state, alive)
    isr = tuple(each for each in state.isr if each in alive) or (leader,)
    after = with_isr(state, isr, leader, min_isr)
    if election(state, after) is Election.UNCLEAN:  # others may lack the new leader's records
        after = replace(after, elr=(), last_known=())
    return after


@dataclass(frozen=True, slots=True)
class Returned:
    """The log of a replica that may lack records, as found by its broker.

    log_end: NO_LOG if there is no log; None if the log is unreachable, as its log dir is offline.
    is_copy: whether the log is older than the broker's last one, and so was restored from a copy.
    """

    log_end: LogEnd | None
    is_copy: bool = False


def returned(
    state: PartitionState, node_id: int, found: Returned, alive: Collection[int], min_isr: int
) -> PartitionState:
    """The partition when it becomes known that a replica may lack records (KIP-966).

    The replica leaves the ISR and the eligible replicas. It stays if no other replica has all
    committed records, unless its log is lost or was restored from a copy: such a replica never
    leads by itself. An unreachable replica also stays if the others are only remembered, as they
    may lack records that it has.
    """
    if state.leader_epoch == NO_EPOCH or node_id not in state.replicas:
        return state
    members, log_end = complete(state), found.log_end
    was_complete = node_id in members and log_end not in (None, NO_LOG) and not found.is_copy
    untouched = {*state.isr, *state.elr}
    if untouched == {node_id} and (log_end is None or (was_complete and members == untouched)):
        return state
    rest = tuple(each for each in state.isr if each != node_id)
    live = tuple(each for each in rest if each in alive)
    leader = state.leader
    if leader not in live:
        leader = _first(state, live) if live else NO_LEADER
    isr = live or rest  # dead members stay, as they may have all records
    after = with_isr(state, isr, leader, min_isr, gone=(node_id,))
    if log_end is not None:
        after = remembering(after, LastKnown(node_id, log_end, was_complete), min_isr)
    return state if after == state else after


def handed_over(
    state: PartitionState, node_id: int, alive: Collection[int], min_isr: int
) -> PartitionState:
    """The partition without a broker that is about to stop, if another member of the ISR
    can lead.
    """
    rest = _rest(state, node_id)
    live = tuple(each for each in rest if each in alive and each != node_id)
    if not live:
        return state
    leader = _first(state, live) if state.leader == node_id else state.leader
    return with_isr(state, rest, leader, min_isr)


def preferred(state: PartitionState, alive: Collection[int], min_isr: int) -> PartitionState:
    """The partition led by its preferred leader, its first replica.

    Raises:
        KafkaError: ELECTION_NOT_NEEDED, or PREFERRED_LEADER_NOT_AVAILABLE: the preferred leader is
            not alive, or not in sync.
    """
    wanted = state.replicas[0]
    if state.leader == wanted and wanted in alive:
        message = f"broker {wanted}, the preferred one, leads already"
        raise KafkaError(ErrorCode.election_not_needed, message)
    if wanted not in alive or wanted not in state.isr:
        message = f"broker {wanted} is not alive, or not in sync"
        raise KafkaError(ErrorCode.preferred_leader_not_available, message)
    return with_isr(state, state.isr, wanted, min_isr)


def in_next_epoch(state: PartitionState, node_id: int) -> PartitionState:
    """The partition in a new leader epoch, if this broker leads it."""
    if state.leader != node_id or state.leader_epoch == NO_EPOCH:
        return state
    return replace(state, leader_epoch=state.leader_epoch + 1)


def _rest(state: PartitionState, node_id: int) -> tuple[int, ...]:
    """The other members of the ISR; empty if the broker is not in it."""
    if node_id not in state.isr:
        return ()
    return tuple(each for each in state.isr if each != node_id)


def _first(state: PartitionState, among: tuple[int, ...]) -> int:
    return next((each for each in state.replicas if each in among), among[0])
