"""Which broker leads a partition, decided by the controller from who is alive. Pure.

Never gives a partition to a broker outside its ISR: records that were acknowledged may be missing
there.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from drumlin.metadata.image import NO_LEADER, PartitionState
from drumlin.metadata.zookeeper.layout import StateNode

#: Of a partition that was never led.
NO_EPOCH: Final = -1


def known_state(index: int, replicas: tuple[int, ...], node: StateNode | None) -> PartitionState:
    """A partition as its nodes say; without a node for its state it has never been led."""
    if node is None:
        return PartitionState(index, NO_LEADER, NO_EPOCH, replicas, ())
    return PartitionState(index, node.leader, node.leader_epoch, replicas, node.isr)


def settled(state: PartitionState, alive: Collection[int]) -> PartitionState:
    """The partition as it should be led; unchanged if it is, or if nobody can lead it.

    A broker that is not alive is not in sync. The last one in the ISR stays there all the same, and
    so does a leader's own if it is the only one.
    """
    if state.leader_epoch == NO_EPOCH:
        live = tuple(each for each in state.replicas if each in alive)
        return replace(state, leader=live[0], leader_epoch=0, isr=live) if live else state
    isr = tuple(each for each in state.isr if each in alive)
    if not isr or (state.leader in isr and isr == state.isr):
        return state
    leader = state.leader
    if leader not in isr:
        leader = next((each for each in state.replicas if each in isr), isr[0])
    return replace(state, leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr)
