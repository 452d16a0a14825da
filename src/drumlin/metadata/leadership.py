"""Which broker leads a partition, and who is in sync with it: decided from who is alive. Pure.

A partition never goes to a broker outside its ISR, as records that were acknowledged may be missing
there; unless its topic has `unclean.leader.election.enable`. A new leader means a new leader epoch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from drumlin.metadata.image import NO_LEADER, PartitionState
from drumlin.wire.errors import ErrorCode, KafkaError

#: Of a partition that was never led.
NO_EPOCH: Final = -1


def never_led(index: int, replicas: tuple[int, ...]) -> PartitionState:
    """A partition without a node for its state."""
    return PartitionState(index, NO_LEADER, NO_EPOCH, replicas, (), NO_EPOCH)


def settled(
    state: PartitionState, alive: Collection[int], *, may_be_unclean: bool = False
) -> PartitionState:
    """The partition as the controller wants it; unchanged if it is so already.

    A broker that is not alive is not in sync, unless none of the ISR is alive: then nobody leads,
    and the ISR says who may.
    """
    live = tuple(each for each in state.replicas if each in alive)
    if state.leader_epoch == NO_EPOCH:
        return replace(state, leader=live[0], leader_epoch=0, isr=live) if live else state
    isr = tuple(each for each in state.isr if each in alive)
    if isr:
        leader = state.leader if state.leader in isr else _first(state, isr)
        return _led_by(state, leader, isr)
    if may_be_unclean and live:
        return _led_by(state, live[0], live[:1])
    return _led_by(state, NO_LEADER, state.isr)


def is_unclean(before: PartitionState, after: PartitionState) -> bool:
    """Whether a broker leads now that may lack records."""
    return after.leader != NO_LEADER and before.isr != () and after.leader not in before.isr


def without_unclean(state: PartitionState, node_id: int, alive: Collection[int]) -> PartitionState:
    """The partition without a broker that may lack records, unless it is the last of the ISR."""
    rest = _rest(state, node_id)
    if not rest:
        return state
    if state.leader != node_id:
        return _led_by(state, state.leader, rest)
    live = tuple(each for each in rest if each in alive)
    return _led_by(state, _first(state, live) if live else NO_LEADER, rest)


def handed_over(state: PartitionState, node_id: int, alive: Collection[int]) -> PartitionState:
    """The partition without a broker that is about to stop, if another one can take its place."""
    rest = _rest(state, node_id)
    live = tuple(each for each in rest if each in alive and each != node_id)
    if not live:
        return state
    leader = _first(state, live) if state.leader == node_id else state.leader
    return _led_by(state, leader, rest)


def preferred(state: PartitionState, alive: Collection[int]) -> PartitionState:
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
    return _led_by(state, wanted, state.isr)


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


def _led_by(state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
    if (leader, isr) == (state.leader, state.isr):
        return state
    leader_epoch = state.leader_epoch + (leader != state.leader)
    return replace(state, leader=leader, leader_epoch=leader_epoch, isr=isr)
