"""Writing of partition states by compare-and-set, with a notification for other brokers. Blocking.

Many partitions share a transaction. If the state of one has changed meanwhile, the others need a
second attempt. The first attempt relies on the known states; later attempts, and an attempt after a
lost answer, read the states first.

A stored state may be older than the known one, if ZooKeeper was restored from a backup or has lost
its last transactions. Then the decision is made on the known state, in a new leader epoch that no
broker can know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.metadata.image import NO_LEADER, PartitionId, PartitionState, ReplicaAssignment
from drumlin.metadata.rules.decisions import Decision, TopicRules
from drumlin.metadata.rules.leadership import NO_EPOCH
from drumlin.metadata.zookeeper.brokers.live_brokers import read_brokers
from drumlin.metadata.zookeeper.session.failures import as_kafka_error
from drumlin.metadata.zookeeper.session.session import Conflict, Node, Session
from drumlin.metadata.zookeeper.states.partition_states import is_newer
from drumlin.metadata.zookeeper.znodes import layout, own_layout
from drumlin.metadata.zookeeper.znodes.eligible_json import eligible_of
from drumlin.metadata.zookeeper.znodes.operations import (
    Create,
    Fence,
    Operation,
    Replace,
    broker_checks,
    state_data,
)
from drumlin.metadata.zookeeper.znodes.own_layout import ChangedState
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.zookeeper.connection import ZooKeeperFailure
from drumlin.zookeeper.nodes import UnreadableNode

#: Added to the known leader epoch in that case: others may know later epochs, but none that high.
_EPOCHS_AHEAD: Final = 100
#: The number of partitions in one transaction, for each attempt.
_TOGETHER: Final = (100, 100, 10, 1, 1, 1, 1)


class Place(NamedTuple):
    """A partition, the rules of its topic, and its state as known here."""

    topic_id: UUID
    rules: TopicRules
    known: PartitionState

    @property
    def topic(self) -> str:
        return self.rules.topic

    @property
    def partition(self) -> PartitionId:
        return PartitionId(self.topic_id, self.known.index)


class Writer(NamedTuple):
    """The fence of a writer, and the controller epoch to be stored with states."""

    fence: Fence
    controller_epoch: int


@dataclass(slots=True)
class Rewritten:
    """The outcome for partitions. Partitions of deleted topics are neither in `stored` nor in
    `errors`.
    """

    #: The states that are now stored.
    stored: dict[PartitionId, PartitionState] = field(default_factory=dict)
    #: The errors of partitions that were not changed; `stored` may have their states.
    errors: dict[PartitionId, KafkaError] = field(default_factory=dict)
    #: One of the errors, if another try may help.
    failure: KafkaError | None = None
    #: The stored states that were older than the known ones and have been overwritten.
    outdated: dict[PartitionId, PartitionState] = field(default_factory=dict)

    @classmethod
    def refused(cls, partitions: Iterable[PartitionId], failure: KafkaError) -> Rewritten:
        """The outcome if no partition was written; all have the same error."""
        return cls(errors=dict.fromkeys(partitions, failure), failure=failure)

    def outcomes(
        self, partitions: Iterable[PartitionId]
    ) -> dict[PartitionId, PartitionState | KafkaError]:
        """The new state of each of these partitions, or its error."""
        gone = KafkaError(ErrorCode.unknown_topic_id)
        return {**dict.fromkeys(partitions, gone), **self.stored, **self.errors}


def rewrite_states(
    session: Session, places: Iterable[Place], decide: Decision, writer: Writer
) -> Rewritten:
    """Write the decided states. If the node of a state is missing, the known state is used.

    The transaction checks that new leaders and new members of ISRs still have the broker epoch on
    which the decision relied.
    """
    rewriting = _Rewriting(session, places, decide, writer)
    rewriting.run()
    return rewriting.done


class _Change(NamedTuple):
    place: Place
    after: PartitionState
    operations: list[Operation]
    relies_on: frozenset[int]
    #: The older state to overwrite, if any, and the error, if the change itself is refused.
    outdated: PartitionState | None = None
    error: KafkaError | None = None


class _Rewriting:
    """Attempts to write states, until all partitions are done."""

    def __init__(
        self, session: Session, places: Iterable[Place], decide: Decision, writer: Writer
    ) -> None:
        self.done = Rewritten()
        self._session = session
        self._decide = decide
        self._writer = writer
        self._left = {each.partition: each for each in places}
        self._epochs: Mapping[int, int] = {}

    def run(self) -> None:
        failure: Exception | None = None
        try:
            for attempt, together in enumerate(_TOGETHER):
                if failure is not None:
                    self._session.sync()
                self._epochs = read_brokers(self._session).epochs
                failure = self._commit(self._changes(is_first=attempt == 0), together)
                if not self._left:
                    return
        except ZooKeeperFailure as error:
            failure = error
        assert failure is not None
        self.done.failure = as_kafka_error(failure)
        self.done.errors.update(dict.fromkeys(self._left, self.done.failure))

    def _commit(self, changes: Sequence[_Change], together: int) -> Exception | None:
        """Write changes; returns the last failure, if any."""
        failure = None
        parts = [changes[at : at + together] for at in range(0, len(changes), together)]
        outcomes = self._session.commit_all([self._transaction(each) for each in parts])
        for part, outcome in zip(parts, outcomes, strict=True):
            if outcome is None:
                for each in part:
                    self._written(each)
            else:
                failure = outcome
                if isinstance(outcome, Conflict) and outcome.operation in self._writer.fence.checks:
                    self._refuse([each.place for each in part], as_kafka_error(outcome))
        return failure

    def _transaction(self, changes: Sequence[_Change]) -> list[Operation]:
        relied_on = sorted(frozenset().union(*(each.relies_on for each in changes)))
        checks = [check for each in relied_on for check in broker_checks(each, self._epochs[each])]
        news = own_layout.encode_state_news(
            (each.place.partition, changed(each.after)) for each in changes
        )
        return [
            *dict.fromkeys([*self._writer.fence.checks, *checks]),
            *(operation for each in changes for operation in each.operations),
            Create(own_layout.STATE_NEWS_PREFIX, news, is_sequence=True),
        ]

    # -- deciding ----------------------------------------------------------------------------

    def _changes(self, *, is_first: bool) -> list[_Change]:
        """The changes of the remaining partitions; the others are done.

        The first attempt relies on the known states, and assumes that new ones have no node. A
        partition that is unchanged or refused by this waits for the second attempt. States are read
        before their replicas: both change in one transaction, so replicas are never older.
        """
        if is_first:
            known = map(self._change_of_known, self._still_there())
            return [each for each in known if each is not None]
        paths = {key: layout.state_path(*_at(each)) for key, each in self._left.items()}
        nodes = dict(zip(paths, self._session.read(list(paths.values())), strict=True))
        changes, new = [], []
        for place in self._still_there():
            node = nodes[place.partition]
            change = self._change(place, node)
            if change is not None:
                changes.append(change)
                if node is None:
                    new.append(change)
        for change, parents in zip(new, self._missing_parents(new), strict=True):
            change.operations[:0] = parents
        return changes

    def _still_there(self) -> list[Place]:
        """The partitions whose topics still exist, with the stored replicas."""
        topics = list(dict.fromkeys(each.topic for each in self._left.values()))
        paths = [layout.topic_path(each) for each in topics]
        found: dict[str, layout.TopicNode | UnreadableNode | None] = {}
        for topic, path, node in zip(topics, paths, self._session.read(paths), strict=True):
            try:
                found[topic] = None if node is None else layout.decode_topic(path, node.data)
            except UnreadableNode as error:
                found[topic] = error
        places = []
        for place in list(self._left.values()):
            topic_node, index = found[place.topic], place.known.index
            if isinstance(topic_node, UnreadableNode):
                self._refuse([place], as_kafka_error(topic_node))
            elif (
                topic_node is not None
                and topic_node.topic_id == place.topic_id
                and index < len(topic_node.replicas)
            ):
                known = place.known.with_assignment(topic_node.assignment(index))
                places.append(place._replace(known=known))
            else:
                del self._left[place.partition]
        return places

    def _change_of_known(self, place: Place) -> _Change | None:
        before = place.known
        try:
            after = self._decide(place.partition, before, place.rules, self._epochs)
        except KafkaError:
            return None
        if before.partition_epoch == NO_EPOCH and after.leader_epoch != NO_EPOCH:
            change = self._create(place, before, after)
            change.operations.insert(0, Create(layout.partition_path(*_at(place))))
            return change
        is_known = before.partition_epoch != NO_EPOCH and after != before
        return self._replace(place, before, after) if is_known else None

    def _change(self, place: Place, node: Node | None) -> _Change | None:
        before, outdated, refusal = place.known, None, None
        try:
            if node is not None:
                before, outdated = self._stored(place, node)
            after = self._decide(place.partition, before, place.rules, self._epochs)
        except UnreadableNode as error:
            self._refuse([place], as_kafka_error(error))
            return None
        except KafkaError as error:
            after, refusal = before, error
        if outdated is not None:
            change = self._replace(place, before, after)
            return change._replace(outdated=outdated, error=refusal)
        if refusal is not None:
            if node is not None:
                self.done.stored[place.partition] = before
            self._refuse([place], refusal)
            return None
        if node is None and after.leader_epoch != NO_EPOCH:
            return self._create(place, before, after)
        if node is None or after == before:
            self._end(place.partition, after)
            return None
        return self._replace(place, before, after)

    def _stored(self, place: Place, node: Node) -> tuple[PartitionState, PartitionState | None]:
        """The state to decide on, and the stored state, if that is older than the known one.

        Raises:
            UnreadableNode: the node is unreadable, and now watched.
        """
        known, path = place.known, layout.state_path(*_at(place))
        state, version = read_state(self._session, path, node)
        stored = known_state(known.index, known.assignment, state, version)
        if not is_newer(known, stored):
            return stored, None
        ahead = known.leader_epoch + _EPOCHS_AHEAD
        return replace(known, leader_epoch=ahead, partition_epoch=version), stored

    def _replace(self, place: Place, before: PartitionState, after: PartitionState) -> _Change:
        version = before.partition_epoch
        after = replace(after, partition_epoch=version + 1)
        data = state_data(after, self._writer.controller_epoch)
        replaced = Replace(layout.state_path(*_at(place)), data, version)
        return _Change(place, after, [replaced], relies_on(before, after))

    def _create(self, place: Place, before: PartitionState, after: PartitionState) -> _Change:
        """Create the node of a state; if there was a node before, the new state must be newer."""
        if before.partition_epoch >= 0 and after.leader_epoch == before.leader_epoch:
            after = replace(after, leader_epoch=after.leader_epoch + 1)
        after = replace(after, partition_epoch=0)
        data = state_data(after, self._writer.controller_epoch)
        return _Change(place, after, [Create(layout.state_path(*_at(place)), data)], frozenset())

    def _missing_parents(self, new: Sequence[_Change]) -> list[list[Create]]:
        """The nodes to create above new states; never the topic's, which may have been deleted."""
        paths = [
            path
            for each in new
            for path in (
                layout.partitions_path(each.place.topic),
                layout.partition_path(*_at(each.place)),
            )
        ]
        missing = {
            path
            for path, node in zip(paths, self._session.read(paths), strict=True)
            if node is None
        }
        created: list[list[Create]] = []
        for pair in zip(paths[::2], paths[1::2], strict=True):
            created.append([Create(path) for path in pair if path in missing])
            missing.difference_update(pair)  # a shared parent is created once
        return created

    def _written(self, change: _Change) -> None:
        partition = change.place.partition
        self._end(partition, change.after)
        if change.outdated is not None:
            self.done.outdated[partition] = change.outdated
        if change.error is not None:
            self.done.errors[partition] = change.error

    def _end(self, partition: PartitionId, state: PartitionState) -> None:
        self.done.stored[partition] = state
        del self._left[partition]

    def _refuse(self, places: Iterable[Place], error: KafkaError) -> None:
        for each in places:
            self.done.errors[each.partition] = error
            del self._left[each.partition]


def read_state(session: Session, path: str, node: Node) -> tuple[layout.StateNode, int]:
    """The state in a node, and the node's version. An unreadable node is watched, as it may be
    repaired.

    Raises:
        UnreadableNode: the content is not a state.
    """
    try:
        return layout.decode_state(path, node.data), node.version
    except UnreadableNode:
        (again,) = session.read([path], is_watched=True)
        if again is None:
            raise
        return layout.decode_state(path, again.data), again.version


def known_state(
    index: int, assignment: ReplicaAssignment, node: layout.StateNode, version: int
) -> PartitionState:
    """A partition's state, from the contents of its nodes."""
    replicas, adding, removing = assignment
    return PartitionState(
        index,
        node.leader,
        node.leader_epoch,
        replicas,
        node.isr,
        version,
        adding,
        removing,
        *node.eligible,
    )


def _at(place: Place) -> tuple[str, int]:
    return place.topic, place.known.index


def relies_on(before: PartitionState, after: PartitionState) -> frozenset[int]:
    """The brokers whose epochs a change relies on: a new leader, and new ISR members."""
    added = set(after.isr) - set(before.isr)
    if after.leader not in (before.leader, NO_LEADER):
        added.add(after.leader)
    return frozenset(added)


def changed(state: PartitionState) -> ChangedState:
    """The notification of a state, which is complete, as earlier notifications may have been
    missed.
    """
    return ChangedState(
        state.leader,
        state.leader_epoch,
        state.isr,
        state.partition_epoch,
        state.assignment,
        eligible_of(state),
    )
