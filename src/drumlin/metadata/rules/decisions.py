"""The decision about a partition for each kind of change, used by every metadata store. Pure.

A store calls the decision with the stored state, and writes the returned state. If another broker
has changed the state meanwhile, the store calls the decision again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from drumlin.config.topic import LogConfig
from drumlin.metadata.image import PartitionId, PartitionState
from drumlin.metadata.rules.elections import elected
from drumlin.metadata.rules.isr_requests import IsrRequest, granted
from drumlin.metadata.rules.leadership import (
    Returned,
    handed_over,
    in_next_epoch,
    preferred,
    returned,
    settled,
)
from drumlin.metadata.rules.reassignment import completed, moved
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The target replicas of a partition, the preferred leader first.
Target = Sequence[int]
#: The live brokers and their epochs.
Alive = Mapping[int, int]


class TopicRules(NamedTuple):
    """The keys of a topic's configuration that elections depend on."""

    topic: str
    #: `min.insync.replicas`
    min_isr: int
    #: `unclean.leader.election.enable`
    may_be_unclean: bool

    @classmethod
    def of(cls, topic: str, configs: LogConfig) -> TopicRules:
        return cls(topic, configs.min_insync_replicas, configs.unclean_leader_election_enable)


#: Returns the new state of a partition, or the same state if there is nothing to write. Raises
#: `KafkaError` if the change is refused.
Decision = Callable[[PartitionId, PartitionState, TopicRules, Alive], PartitionState]


def isr_altered(requests: Mapping[PartitionId, IsrRequest], leader: int) -> Decision:
    """AlterPartition: the leader requests another ISR."""
    return lambda partition, state, rules, alive: granted(
        requests[partition], state, leader, alive, rules.min_isr
    )


def replica_returned(lacking: Mapping[PartitionId, Returned], node_id: int) -> Decision:
    """A broker may lack records, after an unclean stop or the failure of a disk."""
    return lambda partition, state, rules, alive: returned(
        state, node_id, lacking[partition], alive, rules.min_isr
    )


def leadership_handed_over(node_id: int) -> Decision:
    """A broker is about to stop: it leaves the ISR, and another broker leads."""
    return lambda _, state, rules, alive: handed_over(state, node_id, alive, rules.min_isr)


def leader_epoch_begun(node_id: int) -> Decision:
    """A leader begins a new leader epoch by itself."""
    return lambda _, state, *__: in_next_epoch(state, node_id)


def leader_elected(*, is_unclean: bool) -> Decision:
    """ElectLeaders: an operator requests the preferred leader, or any leader (KIP-460)."""
    return lambda _, state, rules, alive: elected(
        state, alive, rules.min_isr, is_unclean=is_unclean
    )


def replicas_moved(
    targets: Mapping[PartitionId, Target | None], *, may_change_factor: bool
) -> Decision:
    """AlterPartitionReassignments: an operator requests other replicas or, without a target, the
    former ones.
    """
    return lambda partition, state, rules, alive: moved(
        state,
        alive,
        rules.min_isr,
        target=targets[partition],
        may_change_factor=may_change_factor,
        may_be_unclean=rules.may_be_unclean,
    )


def reassignment_completed(
    _: PartitionId, state: PartitionState, rules: TopicRules, alive: Alive
) -> PartitionState:
    """The controller completes a reassignment as soon as all target replicas are in sync."""
    return completed(state, alive, rules.min_isr)


def leader_settled(
    _: PartitionId, state: PartitionState, rules: TopicRules, alive: Alive
) -> PartitionState:
    """The controller elects a leader that is alive, and removes dead ISR members."""
    return settled(state, alive, rules.min_isr, may_be_unclean=rules.may_be_unclean)


def settled_at_start(
    partition: PartitionId, state: PartitionState, rules: TopicRules, alive: Alive
) -> PartitionState:
    """Like `leader_settled`, but the preferred leader leads if it can."""
    after = leader_settled(partition, state, rules, alive)
    try:
        return preferred(after, alive, rules.min_isr)
    except KafkaError:
        return after


def unchanged(_: PartitionId, state: PartitionState, __: TopicRules, ___: Alive) -> PartitionState:
    """The unchanged state, which is written only if the store lacks it or has an older one."""
    return state


def check_can_unregister(node_id: int, *, is_alive: bool, is_registered: bool) -> None:
    """Refuse to unregister a broker that is alive or unknown.

    Raises:
        KafkaError: INVALID_REQUEST, BROKER_ID_NOT_REGISTERED.
    """
    if is_alive:
        message = f"broker {node_id} is alive: stop it first"
        raise KafkaError(ErrorCode.invalid_request, message)
    if not is_registered:
        message = f"broker {node_id} is not registered"
        raise KafkaError(ErrorCode.broker_id_not_registered, message)
