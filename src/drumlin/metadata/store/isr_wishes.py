"""Whether a leader gets the ISR that it asks for: the rules of KIP-497 and KIP-903. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from drumlin.metadata.image import PartitionState
from drumlin.metadata.rules.eligible import superseded, with_isr
from drumlin.metadata.store.store import IsrWish
from drumlin.wire.error_codes import ErrorCode, KafkaError


def is_granted(wish: IsrWish, state: PartitionState, leader: int) -> bool:
    """Whether the state is what was wished for: it was made so, and the answer was lost."""
    return (
        state.partition_epoch == wish.partition_epoch + 1
        and state.leader_epoch == wish.leader_epoch
        and state.leader == leader
        and state.isr == tuple(node_id for node_id, _ in wish.isr)
    )


def granted(
    wish: IsrWish, state: PartitionState, leader: int, alive: Mapping[int, int], min_isr: int
) -> PartitionState:
    """The partition as its leader wishes; who leaves is eligible, while too few are in sync.

    Raises:
        KafkaError: see `check_wish`.
    """
    if is_granted(wish, state, leader):
        return state
    check_wish(wish, state, leader, alive)
    return superseded(with_isr(state, (node_id for node_id, _ in wish.isr), leader, min_isr))


def check_wish(wish: IsrWish, state: PartitionState, leader: int, alive: Mapping[int, int]) -> None:
    """Refuse a wish that does not start from the state as it is, or for brokers that are not so.

    `alive` has the epochs of the brokers that are.

    Raises:
        KafkaError: FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA, or
            INVALID_REQUEST: the leader itself is not in sync, or one is named twice.
    """
    if state.leader != leader or state.leader_epoch != wish.leader_epoch:
        message = f"broker {state.leader} leads in epoch {state.leader_epoch}"
        raise KafkaError(ErrorCode.fenced_leader_epoch, message)
    if state.partition_epoch != wish.partition_epoch:
        message = f"the partition epoch is {state.partition_epoch}"
        raise KafkaError(ErrorCode.invalid_update_version, message)
    isr = [node_id for node_id, _ in wish.isr]
    if leader not in isr or len(set(isr)) < len(isr):
        raise KafkaError(ErrorCode.invalid_request, f"{isr} is no ISR of broker {leader}")
    for node_id, epoch in wish.isr:
        if node_id not in state.isr and (
            node_id not in state.replicas or alive.get(node_id) != epoch
        ):
            message = f"broker {node_id} is not alive in epoch {epoch}, or no replica"
            raise KafkaError(ErrorCode.ineligible_replica, message)
