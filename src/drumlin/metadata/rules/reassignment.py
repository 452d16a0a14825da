"""Reassignment of one partition: its replicas move to other brokers (KIP-455). Pure.

    (1,2,3) -> (4,5,1):  replicas 4,5,1,2,3   adding 4,5   removing 2,3    `reassigned`
    all of 4,5,1 in sync: replicas 4,5,1                                   `completed`
    or cancelled:         replicas 1,2,3                                   `cancelled`

During a reassignment all these brokers are replicas: no replica is removed before the target is
complete. A new target replaces the previous one; replicas that belong neither to the new target nor
to the original replicas are removed at once.

When a replica is removed, a new leader epoch begins, so that the leader forgets its progress: this
must not count if the same broker becomes a replica again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from drumlin.metadata.image import NO_LEADER, PartitionState, ReplicaAssignment
from drumlin.metadata.rules.eligible import complete, with_isr
from drumlin.wire.error_codes import ErrorCode, KafkaError

Replicas = tuple[int, ...]


def target_of(state: PartitionState) -> Replicas:
    """The replicas that the partition will have."""
    return tuple(each for each in state.replicas if each not in state.removing)


def origin_of(state: PartitionState) -> Replicas:
    """The partition's replicas before the reassignment, perhaps in another order."""
    return tuple(each for each in state.replicas if each not in state.adding)


def moved(
    state: PartitionState,
    alive: Collection[int],
    min_isr: int,
    *,
    target: Sequence[int] | None,
    may_change_factor: bool = True,
    may_be_unclean: bool = False,
) -> PartitionState:
    """The partition as requested by a client: `reassigned`, or `cancelled` if there is no target.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR: the number of replicas must not change (KIP-860);
            or an error of `reassigned` or `cancelled`.
    """
    if target is None:
        return cancelled(state, alive, min_isr, may_be_unclean=may_be_unclean)
    if not may_change_factor:
        _check_factor(state, target)
    return reassigned(state, target, alive, min_isr, may_be_unclean=may_be_unclean)


def reassigned(
    state: PartitionState,
    target: Sequence[int],
    alive: Collection[int],
    min_isr: int,
    *,
    may_be_unclean: bool = False,
) -> PartitionState:
    """The partition with a reassignment to these replicas begun, or completed if possible.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT: a broker is named twice, or would be added but is
            not alive; or no replica with the records would be left.
    """
    _check_target(target)
    origin = origin_of(state)
    replicas = tuple(dict.fromkeys([*target, *origin]))
    adding = tuple(each for each in replicas if each not in origin)
    dead = sorted(each for each in adding if each not in alive)
    if dead:
        raise _invalid(f"no broker {', '.join(map(str, dead))} is alive")
    removing = tuple(each for each in replicas if each not in target)
    assignment = ReplicaAssignment(replicas, adding, removing)
    begun = _with(state, assignment, alive, min_isr, may_be_unclean=may_be_unclean)
    return completed(begun, alive, min_isr)


def cancelled(
    state: PartitionState, alive: Collection[int], min_isr: int, *, may_be_unclean: bool = False
) -> PartitionState:
    """The partition with its original replicas.

    Raises:
        KafkaError: NO_REASSIGNMENT_IN_PROGRESS; or INVALID_REPLICA_ASSIGNMENT: no original replica
            has all records.
    """
    if not state.is_reassigned:
        raise KafkaError(ErrorCode.no_reassignment_in_progress)
    assignment = ReplicaAssignment(origin_of(state))
    return _with(state, assignment, alive, min_isr, may_be_unclean=may_be_unclean)


def completed(state: PartitionState, alive: Collection[int], min_isr: int) -> PartitionState:
    """The partition with only the target replicas, if all of them are in sync; else unchanged."""
    target = target_of(state)
    if not state.is_reassigned or not set(target) <= set(state.isr):
        return state
    if state.leader not in target and not any(each in alive for each in target):
        return state  # no target replica can lead yet
    return _with(state, ReplicaAssignment(target), alive, min_isr)


def _check_factor(state: PartitionState, target: Sequence[int]) -> None:
    count = len(origin_of(state))
    if len(target) != count:
        message = f"there are {count} replicas, and were to be {len(target)}"
        raise KafkaError(ErrorCode.invalid_replication_factor, message)


def _check_target(target: Sequence[int]) -> None:
    if not target:
        raise _invalid("a partition is assigned no replicas")
    seen = set()
    for each in target:
        if each in seen:
            raise _invalid(f"broker {each} is assigned more than one replica of a partition")
        seen.add(each)


def _with(
    state: PartitionState,
    assignment: ReplicaAssignment,
    alive: Collection[int],
    min_isr: int,
    *,
    may_be_unclean: bool = False,
) -> PartitionState:
    """The partition with these replicas, led by one of them or by none."""
    if assignment == state.assignment:
        return state
    replicas = assignment.replicas
    live = [each for each in replicas if each in alive]
    isr = tuple(each for each in state.isr if each in replicas)
    leader = state.leader
    if not isr and complete(state).isdisjoint(replicas):
        if not may_be_unclean or not live:
            raise _invalid(f"none of {list(replicas)} is known to have all records")
        isr = tuple(live[:1])
    elif not isr:
        isr = tuple(each for each in live if each in state.elr)[:1]
    if leader not in isr:
        leader = next((each for each in live if each in isr), NO_LEADER)
    moved = with_isr(state.with_assignment(assignment), isr, leader, min_isr)
    if leader == state.leader and not set(state.replicas) <= set(replicas):
        moved = replace(moved, leader_epoch=state.leader_epoch + 1)
    return moved


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_replica_assignment, message)
