"""Placement of partitions on a machine's brokers when the number of brokers has changed. Pure.

Partitions with one replica are spread evenly, with as few moves as possible. For other partitions,
only replicas of removed brokers move; if no broker is left for such a replica, the partition has
fewer replicas. A replica moves with its log, so it stays in sync.

A replica that is in sync according to the metadata may have lost its log, for instance with a
replaced disk. So existing logs are compared, and the best are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from drumlin.metadata.image import (
    NO_LEADER,
    PartitionId,
    PartitionState,
    ReplicaAssignment,
    TopicState,
)

#: The replicas of a partition that have a log, and whether it was closed cleanly.
Logs = Mapping[int, bool]


@dataclass(frozen=True, slots=True)
class Placement:
    """The new state of a partition, and the changes of its folders.

    The folders of `dropped` brokers are removed first. A move is from one broker to another.
    """

    state: PartitionState
    moves: tuple[tuple[int, int], ...] = ()
    dropped: tuple[int, ...] = ()


def place(
    topics: Iterable[TopicState], brokers: Sequence[int], logs: Mapping[PartitionId, Logs]
) -> dict[PartitionId, Placement]:
    """New placements of the partitions whose replicas change."""
    known = list(topics)
    targets = _spread(known, brokers)
    load = Counter(targets.values())
    found: dict[PartitionId, Placement] = {}
    for topic in known:
        for state in topic.partitions:
            partition = PartitionId(topic.topic_id, state.index)
            if partition in targets:
                placement = _moved(state, targets[partition])
            else:
                placement = _without_gone(state, brokers, logs.get(partition, {}), load)
            if placement is not None:
                found[partition] = placement
    return found


def _spread(topics: Iterable[TopicState], brokers: Sequence[int]) -> dict[PartitionId, int]:
    """A broker for each partition with one replica."""
    singles = [
        (topic, [each for each in topic.partitions if len(each.replicas) == 1]) for topic in topics
    ]
    most = _part(sum(len(states) for _, states in singles), len(brokers))
    load: Counter[int] = Counter()
    targets: dict[PartitionId, int] = {}
    for topic, states in sorted(singles, key=lambda each: (-len(each[1]), each[0].name)):
        most_of_topic = _part(len(states), len(brokers))
        of_topic: Counter[int] = Counter()
        homeless = []
        for state in states:
            (broker,) = state.replicas
            if broker in brokers and of_topic[broker] < most_of_topic and load[broker] < most:
                targets[PartitionId(topic.topic_id, state.index)] = broker
                of_topic[broker] += 1
                load[broker] += 1
            else:
                homeless.append(state)
        for state in homeless:
            broker = min(
                (each for each in brokers if of_topic[each] < most_of_topic),
                key=lambda each: (load[each], each),
            )
            targets[PartitionId(topic.topic_id, state.index)] = broker
            of_topic[broker] += 1
            load[broker] += 1
    return targets


def _part(whole: int, brokers: int) -> int:
    return -(-whole // brokers)


def _moved(state: PartitionState, target: int) -> Placement | None:
    (source,) = state.replicas
    if source == target:
        return None
    return Placement(_with(state, {source: target}, state.replicas), ((source, target),))


def _without_gone(
    state: PartitionState, brokers: Sequence[int], logs: Logs, load: Counter[int]
) -> Placement | None:
    """The placement of a partition with several replicas, without removed brokers."""
    if all(each in brokers for each in state.replicas):
        return None

    def rank(replica: int) -> tuple[object, ...]:
        # Among equal logs, prefer those that need not move, then those of later replicas: the
        # first replica, which is the preferred leader, comes last.
        is_gone = replica not in brokers
        return *_flaws(state, replica, logs), is_gone, -state.replicas.index(replica)

    kept = sorted(state.replicas, key=rank)[: len(brokers)]
    dropped = tuple(each for each in state.replicas if each not in kept)
    room = [each for each in dropped if each in brokers]
    targets = {each: each for each in kept if each in brokers}
    for source in sorted(kept, key=state.replicas.index):
        if source not in targets:
            taken = {*state.replicas, *targets.values()}
            free = [each for each in brokers if each not in taken]
            target = min(free, key=lambda each: (load[each], each)) if free else room.pop(0)
            targets[source] = target
            load[target] += 1
    # If no log is left, all replicas count as complete, and each broker finds out what it has.
    sound = [each for each in kept if each in logs or not logs]
    moves = tuple(each for each in targets.items() if each[0] != each[1])
    return Placement(_with(state, targets, sound), moves, dropped)


def _flaws(state: PartitionState, replica: int, logs: Logs) -> tuple[object, ...]:
    """The flaws of a replica's log by which it is compared with others, the worst first."""
    known = {each.node_id: each for each in state.last_known}.get(replica)
    return (
        replica not in logs,
        replica not in {*state.isr, *state.elr} and (known is None or not known.was_complete),
        replica not in {*state.isr, *state.elr},
        not logs.get(replica),
        replica not in state.isr,
        (0, 0) if known is None else (-known.log_end.leader_epoch, -known.log_end.end_offset),
    )


def _with(
    state: PartitionState, targets: Mapping[int, int], sound: Collection[int]
) -> PartitionState:
    """The partition with the replicas that are kept. The leader moves with its log, or another
    replica becomes leader.

    A reassignment in progress ends with the existing replicas.

    Args:
        targets: the new broker of each replica that is kept.
        sound: the kept replicas that have a log.
    """

    def moved(replicas: Iterable[int]) -> tuple[int, ...]:
        return tuple(targets[each] for each in replicas if each in sound)

    stay = set(targets.values())
    replicas = [each if each in stay else targets.get(each) for each in state.replicas]
    ordered = tuple(dict.fromkeys(each for each in replicas if each is not None))
    isr = moved(state.isr)
    leader = targets[state.leader] if state.leader in sound else NO_LEADER
    if state.leader != NO_LEADER and leader not in isr:
        leader = next((each for each in ordered if each in isr), NO_LEADER)
    is_another = leader != state.leader or leader not in (NO_LEADER, targets.get(leader))
    after = replace(
        state,
        leader=leader,
        leader_epoch=state.leader_epoch + is_another,
        isr=isr,
        elr=moved(state.elr),
        last_known=tuple(
            each._replace(node_id=targets[each.node_id])
            for each in state.last_known
            if each.node_id in sound
        ),
        last_leader=targets[state.last_leader] if state.last_leader in sound else NO_LEADER,
    )
    return after.with_assignment(_reassignment(state, ordered, targets))


def _reassignment(
    state: PartitionState, replicas: tuple[int, ...], moves: Mapping[int, int]
) -> ReplicaAssignment:
    """The reassignment with the new ids; none if one of its targets was removed."""
    adding = tuple(moves.get(each, each) for each in state.adding)
    removing = tuple(moves.get(each, each) for each in state.removing)
    removing = tuple(each for each in removing if each in replicas)
    target = set(replicas) - set(removing)
    if not set(adding) <= target or not target:
        return ReplicaAssignment(replicas)
    return ReplicaAssignment(replicas, adding, removing)
