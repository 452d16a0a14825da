"""Which broker leads a partition, and who is in sync with it: decided from who is alive. Pure.

A partition never goes to a broker where records that were acknowledged may be missing
(`eligible.py` says who may lead besides the ISR); unless its topic has
`unclean.leader.election.enable`. A new leader means a new leader epoch. `min_isr` is what the
topic has as `min.insync.replicas`.
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

#: Of a partition that was never led.
NO_EPOCH: Final = -1


def never_led(index: int, replicas: tuple[int, ...]) -> PartitionState:
    """A partition without a node for its state."""
    return PartitionState(index, NO_LEADER, NO_EPOCH, replicas, (), NO_EPOCH)


def is_settled(state: PartitionState, alive: Collection[int]) -> bool:
    """Whether `settled` leaves the partition as it is, whatever is configured: the cheap look.

    False: `settled` has to be asked.
    """
    return (
        state.leader in state.isr
        and not (state.elr or state.last_known)
        and state.last_leader == NO_LEADER
        and all(each in alive for each in state.isr)
    )


def settled(
    state: PartitionState,
    alive: Collection[int],
    min_isr: int,
    *,
    may_be_unclean: bool = False,
) -> PartitionState:
    """The partition as the controller wants it; unchanged if it is so already.

    A broker that is not alive is not in sync, unless none of the ISR is alive and nobody else may
    lead: then nobody leads, and the ISR is among those who may.
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
    """The partition led by whoever of those alive lacks least; there must be one."""
    leader = best_left(state, alive)
    isr = tuple(each for each in state.isr if each in alive) or (leader,)
    after = with_isr(state, isr, leader, min_isr)
    if election(state, after) is Election.UNCLEAN:  # nobody is eligible by what it has
        after = replace(after, elr=(), last_known=())
    return after


@dataclass(frozen=True, slots=True)
class Returned:
    """What a replica that may lack records has come back with.

    log_end: NO_LOG, if there is none; None: it is out of reach, as its log dir is offline.
    is_copy: it is older than what this broker is known to have had: it was put back.
    """

    log_end: LogEnd | None
    is_copy: bool = False


def returned(
    state: PartitionState, node_id: int, found: Returned, alive: Collection[int], min_isr: int
) -> PartitionState:
    """The partition as a broker is back, or still there, that may lack records of it (KIP-966).

    It is neither in sync nor eligible any more. If nobody else has all that is committed, it stays,
    unless its log is gone or is an older one: such a replica never leads by itself. Who is out of
    reach stays, too, where others are remembered only: they may lack what it has.
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
    isr = live or rest  # it is not forgotten for those that are not there, either
    after = with_isr(state, isr, leader, min_isr, gone=(node_id,))
    if log_end is not None:
        after = remembering(after, LastKnown(node_id, log_end, was_complete), min_isr)
    return state if after == state else after


def handed_over(
    state: PartitionState, node_id: int, alive: Collection[int], min_isr: int
) -> PartitionState:
    """The partition without a broker that is about to stop, if another one can take its place."""
    rest = _rest(state, node_id)
    live = tuple(each for each in rest if each in alive and each != node_id)
    if not live:
        return state
    leader = _first(state, live) if state.leader == node_id else state.leader
    return with_isr(state, rest, leader, min_isr)


def preferred(state: PartitionState, alive: Collection[int], min_isr: int) -> PartitionState:
    """The partition led by its first replica.

    Raises:
        KafkaError: ELECTION_NOT_NEEDED, or PREFERRED_LEADER_NOT_AVAILABLE: it is not alive, or not
            in sync.
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
    """The other members of the ISR; none either if the broker is no member."""
    if node_id not in state.isr:
        return ()
    return tuple(each for each in state.isr if each != node_id)


def _first(state: PartitionState, among: tuple[int, ...]) -> int:
    return next((each for each in state.replicas if each in among), among[0])
