"""Which of a machine's brokers has which partition, when their number has changed. Pure.

Partitions with one replica are evened out, and no more of them are moved than that needs. Of the
others only what the brokers have that are no more goes elsewhere; where nobody is left to take it,
a partition has fewer replicas. A replica that moves takes its log along, so it stays in sync.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from drumlin.metadata.eligible import complete
from drumlin.metadata.image import (
    NO_LEADER,
    PartitionId,
    PartitionState,
    ReplicaAssignment,
    TopicState,
)


@dataclass(frozen=True, slots=True)
class Placement:
    """The new state of a partition, and what that means for its folders.

    Those of `dropped` go first. `moves` are from one broker to another.
    """

    state: PartitionState
    moves: tuple[tuple[int, int], ...] = ()
    dropped: tuple[int, ...] = ()


def place(
    topics: Iterable[TopicState], brokers: Sequence[int], unclean: Collection[int]
) -> dict[PartitionId, Placement]:
    """Placements of the partitions that these brokers are to have otherwise.

    Replicas of `unclean` brokers may lack records: they go out of sync if others do not.
    """
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
                placement = _without_gone(state, brokers, unclean, load)
            if placement is not None:
                found[partition] = placement
    return found


def _spread(topics: Iterable[TopicState], brokers: Sequence[int]) -> dict[PartitionId, int]:
    """A broker for each partition that has one replica."""
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
    return Placement(_with(state, (target,), (target,), {source: target}), ((source, target),))


def _without_gone(
    state: PartitionState,
    brokers: Sequence[int],
    unclean: Collection[int],
    load: Counter[int],
) -> Placement | None:
    """Of a partition with several replicas."""
    gone = [each for each in state.replicas if each not in brokers]
    if not gone:
        return None
    replicas, isr = list(state.replicas), list(state.isr)
    for source in gone:
        if source in unclean and source in isr and len(isr) > 1:
            isr.remove(source)
    moves: dict[int, int] = {}
    dropped = []
    for source in sorted(gone, key=lambda each: each not in isr):
        free = [each for each in brokers if each not in replicas]
        if free:
            target = min(free, key=lambda each: (load[each], each))
            replicas[replicas.index(source)] = target
        elif isr == [source] or complete(state) == {source}:
            # Only its log has all records: it takes the place of one that has not.
            target = next(each for each in replicas if each in brokers)
            dropped.append(target)
            replicas.remove(source)
        else:
            dropped.append(source)
            replicas.remove(source)
            if source in isr:
                isr.remove(source)
            continue
        if source in isr:
            isr[isr.index(source)] = target
        moves[source] = target
        load[target] += 1
    after = _with(state, tuple(replicas), tuple(isr), moves)
    return Placement(after, tuple(moves.items()), tuple(dropped))


def _with(
    state: PartitionState,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    moves: Mapping[int, int],
) -> PartitionState:
    """The partition with these replicas; its leader goes along, or another takes over.

    A reassignment that was under way ends with what there is.
    """
    leader = moves.get(state.leader, state.leader)
    if leader != NO_LEADER and leader not in isr:
        leader = next((each for each in replicas if each in isr), NO_LEADER)
    leader_epoch = state.leader_epoch + (leader != state.leader)
    by_old = {each: each for each in replicas if each not in moves.values()} | dict(moves)
    elr = tuple(by_old[each] for each in state.elr if each in by_old)
    known = (each for each in state.last_known if each.node_id in by_old)
    after = replace(
        state,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=isr,
        elr=tuple(each for each in elr if each not in isr),
        last_known=tuple(each._replace(node_id=by_old[each.node_id]) for each in known),
        last_leader=by_old.get(state.last_leader, NO_LEADER),
    )
    return after.with_assignment(_reassignment(state, replicas, moves))


def _reassignment(
    state: PartitionState, replicas: tuple[int, ...], moves: Mapping[int, int]
) -> ReplicaAssignment:
    """The replicas on their way, if they are; not if what they are on the way to is no more."""
    adding = tuple(moves.get(each, each) for each in state.adding)
    removing = tuple(moves.get(each, each) for each in state.removing)
    removing = tuple(each for each in removing if each in replicas)
    target = set(replicas) - set(removing)
    if not set(adding) <= target or not target:
        return ReplicaAssignment(replicas)
    return ReplicaAssignment(replicas, adding, removing)
