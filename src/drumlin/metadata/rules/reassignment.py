"""Reassigning one partition: its replicas go from some brokers to others (KIP-455). Pure.

    (1,2,3) -> (4,5,1):  replicas 4,5,1,2,3   adding 4,5   removing 2,3    `reassigned`
    all of 4,5,1 in sync: replicas 4,5,1                                   `completed`
    or taken back:        replicas 1,2,3                                   `cancelled`

While it is under way all of them are replicas: nothing is given up before the target has it all.
Another target takes the place of the one before; brokers that are neither of that, nor were there
at the beginning, go at once.

Where a broker ceases to be a replica a new leader epoch begins: what the leader knows of how far
that had come does not count for a replica that it may get again later.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from drumlin.metadata.image import NO_LEADER, PartitionState, ReplicaAssignment
from drumlin.metadata.rules.eligible import complete, with_isr
from drumlin.wire.error_codes import ErrorCode, KafkaError

Replicas = tuple[int, ...]


def target_of(state: PartitionState) -> Replicas:
    """The replicas that the partition is to have."""
    return tuple(each for each in state.replicas if each not in state.removing)


def origin_of(state: PartitionState) -> Replicas:
    """The replicas that it had before it was reassigned, if in another order."""
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
    """What a client asks for: `reassigned`, or `cancelled` where there is no target.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR, the number of replicas must not change (KIP-860).
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
    """The partition on its way to these replicas, or there already; the same if it was.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT: a broker is named twice, or is to be added and is
            not alive; or no broker would be left that has the records.
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
    """The partition with the replicas that it had before.

    Raises:
        KafkaError: NO_REASSIGNMENT_IN_PROGRESS; or INVALID_REPLICA_ASSIGNMENT: none of those has
            all records.
    """
    if not state.is_reassigned:
        raise KafkaError(ErrorCode.no_reassignment_in_progress)
    assignment = ReplicaAssignment(origin_of(state))
    return _with(state, assignment, alive, min_isr, may_be_unclean=may_be_unclean)


def completed(state: PartitionState, alive: Collection[int], min_isr: int) -> PartitionState:
    """The partition without those that are to go, once all others are in sync; else unchanged."""
    target = target_of(state)
    if not state.is_reassigned or not set(target) <= set(state.isr):
        return state
    if state.leader not in target and not any(each in alive for each in target):
        return state  # who is to go leads on
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
    """The partition with these replicas; its leader is one of them, or nobody."""
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
