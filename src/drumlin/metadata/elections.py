"""Electing a leader because somebody asks for it (KIP-460): the preferred one, or any. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from drumlin.metadata.image import NO_LEADER, PartitionState
from drumlin.metadata.leadership import preferred
from drumlin.wire.errors import ErrorCode, KafkaError


def elected(
    state: PartitionState, alive: Collection[int], *, is_unclean: bool = False
) -> PartitionState:
    """The partition led by its first replica; or by any that is alive, if nobody leads it.

    An unclean election takes a replica that is in sync, if there is one: else records may be lost.

    Raises:
        KafkaError: ELECTION_NOT_NEEDED; PREFERRED_LEADER_NOT_AVAILABLE, as it is not alive, or not
            in sync; ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    return _unclean(state, alive) if is_unclean else preferred(state, alive)


def _unclean(state: PartitionState, alive: Collection[int]) -> PartitionState:
    if state.leader != NO_LEADER and state.leader in alive:
        message = f"broker {state.leader} leads, and is alive"
        raise KafkaError(ErrorCode.election_not_needed, message)
    live = [each for each in state.replicas if each in alive]
    in_sync = [each for each in live if each in state.isr]
    if not live:
        message = "none of its replicas is alive"
        raise KafkaError(ErrorCode.eligible_leaders_not_available, message)
    leader = (in_sync or live)[0]
    isr = tuple(each for each in state.isr if each in alive) or (leader,)
    return replace(state, leader=leader, isr=isr, leader_epoch=state.leader_epoch + 1)
