"""AlterPartition: the rules for granting the ISR that a leader requests. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from drumlin.metadata.image import PartitionState
from drumlin.metadata.rules.eligible import superseded, with_isr
from drumlin.wire.error_codes import ErrorCode, KafkaError


class IsrRequest(NamedTuple):
    """The ISR that a leader requests, by compare-and-set on its known state (KIP-497).

    isr: broker ids, each with the broker epoch in its fetch requests (KIP-903); -1 if the leader
        does not know the epoch, which is allowed for brokers that are in the ISR already.
    """

    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]


def is_granted(request: IsrRequest, state: PartitionState, leader: int) -> bool:
    """Whether the state already results from this request, whose answer was then lost."""
    return (
        state.partition_epoch == request.partition_epoch + 1
        and state.leader_epoch == request.leader_epoch
        and state.leader == leader
        and state.isr == tuple(node_id for node_id, _ in request.isr)
    )


def granted(
    request: IsrRequest, state: PartitionState, leader: int, alive: Mapping[int, int], min_isr: int
) -> PartitionState:
    """The partition with the requested ISR. A broker that leaves may stay eligible (KIP-966).

    Raises:
        KafkaError: see `check_request`.
    """
    if is_granted(request, state, leader):
        return state
    check_request(request, state, leader, alive)
    return superseded(with_isr(state, (node_id for node_id, _ in request.isr), leader, min_isr))


def check_request(
    request: IsrRequest, state: PartitionState, leader: int, alive: Mapping[int, int]
) -> None:
    """Refuse a request that is based on another state, or adds brokers that may not be in sync.

    `alive` has the epochs of live brokers.

    Raises:
        KafkaError: FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA, or
            INVALID_REQUEST: the leader itself is not in sync, or a broker is named twice.
    """
    if state.leader != leader or state.leader_epoch != request.leader_epoch:
        message = f"broker {state.leader} leads in epoch {state.leader_epoch}"
        raise KafkaError(ErrorCode.fenced_leader_epoch, message)
    if state.partition_epoch != request.partition_epoch:
        message = f"the partition epoch is {state.partition_epoch}"
        raise KafkaError(ErrorCode.invalid_update_version, message)
    isr = [node_id for node_id, _ in request.isr]
    if leader not in isr or len(set(isr)) < len(isr):
        raise KafkaError(ErrorCode.invalid_request, f"{isr} is no ISR of broker {leader}")
    for node_id, epoch in request.isr:
        if node_id not in state.isr and (
            node_id not in state.replicas or alive.get(node_id) != epoch
        ):
            message = f"broker {node_id} is not alive in epoch {epoch}, or no replica"
            raise KafkaError(ErrorCode.ineligible_replica, message)
