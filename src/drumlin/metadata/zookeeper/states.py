"""Writing the states of partitions: by compare-and-set, in the controller's epoch. Blocking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.metadata.image import PartitionState
from drumlin.metadata.zookeeper import layout
from drumlin.metadata.zookeeper.leadership import NO_EPOCH, known_state
from drumlin.metadata.zookeeper.operations import Check, Create, Replace, state_data
from drumlin.metadata.zookeeper.session import Conflict

if TYPE_CHECKING:
    from drumlin.metadata.zookeeper.operations import Fence, Operation
    from drumlin.metadata.zookeeper.session import Node, Session

_ATTEMPTS: Final = 5


class Place(NamedTuple):
    """A partition, and its state as it is known here."""

    topic: str
    known: PartitionState


#: What is to be stored, decided on what is. It may be the same.
Decision = Callable[[PartitionState], PartitionState]


def rewrite_states(
    session: Session, places: Sequence[Place], decide: Decision, fence: Fence
) -> dict[Place, PartitionState]:
    """Have the states be what is decided; those that are stored then, but for deleted topics.

    Where a node for the state is missing, what is known counts.

    Raises:
        UnreadableNode: one is not a state.
        Conflict: we are not the controller, or others keep changing one.
        ZooKeeperFailure: ZooKeeper is away, or does not let us; some may be written.
    """
    stored: dict[Place, PartitionState] = {}
    left, conflict = list(places), None
    for _ in range(_ATTEMPTS):
        wanted = _decide(session, left, decide, fence)
        outcomes = session.commit_all([operations for _, operations in wanted.values()])
        left = []
        for (place, (state, _)), outcome in zip(wanted.items(), outcomes, strict=True):
            if outcome is None:
                stored[place] = state
            elif isinstance(outcome, Conflict) and not isinstance(outcome.operation, Check):
                left.append(place)
                conflict = outcome
            else:
                raise outcome
        if not left:
            return stored
    topics = session.read([layout.topic_path(each.topic) for each in left])
    if conflict is not None and any(node is not None for node in topics):
        raise conflict
    return stored


def _decide(
    session: Session, places: Sequence[Place], decide: Decision, fence: Fence
) -> dict[Place, tuple[PartitionState, list[Operation]]]:
    nodes = session.read([layout.state_path(each.topic, each.known.index) for each in places])
    wanted: dict[Place, tuple[PartitionState, list[Operation]]] = {}
    new: list[Place] = []
    for place, node in zip(places, nodes, strict=True):
        before = _state(place, node)
        state = decide(before)
        operations: list[Operation] = [fence.check]
        if state != before or (node is None and state.leader_epoch != NO_EPOCH):
            path = layout.state_path(place.topic, place.known.index)
            data = state_data(state, fence.epoch)
            operations.append(
                Create(path, data) if node is None else Replace(path, data, node.version)
            )
            if node is None:
                new.append(place)
        wanted[place] = state, operations
    for place, parents in zip(new, _missing_parents(session, new), strict=True):
        wanted[place][1][1:1] = parents
    return wanted


def _missing_parents(session: Session, places: Sequence[Place]) -> list[list[Create]]:
    """What must be created above new states. Never the topic itself, which may be deleted."""
    paths = [
        path
        for each in places
        for path in (
            layout.partitions_path(each.topic),
            layout.partition_path(each.topic, each.known.index),
        )
    ]
    created = [
        Create(path) if node is None else None
        for path, node in zip(paths, session.read(paths), strict=True)
    ]
    return [
        [each for each in pair if each is not None]
        for pair in zip(created[::2], created[1::2], strict=True)
    ]


def _state(place: Place, node: Node | None) -> PartitionState:
    known = place.known
    if node is None:
        return known
    stored = layout.decode_state(layout.state_path(place.topic, known.index), node.data)
    return known_state(known.index, known.replicas, stored)
