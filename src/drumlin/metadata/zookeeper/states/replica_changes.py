"""Writing of the replicas of partitions together with their states. Blocking.

The topic's node has the replicas; each partition has a node for leader and ISR. Both are replaced
in one transaction, by compare-and-set. So a broker with the current state has the current replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.metadata.image import PartitionId, PartitionState
from drumlin.metadata.rules.decisions import Decision, TopicRules
from drumlin.metadata.zookeeper.brokers.live_brokers import read_brokers
from drumlin.metadata.zookeeper.session.failures import as_kafka_error
from drumlin.metadata.zookeeper.session.session import Conflict, Session
from drumlin.metadata.zookeeper.states.states import (
    Rewritten,
    Writer,
    changed,
    known_state,
    relies_on,
)
from drumlin.metadata.zookeeper.znodes import layout, own_layout
from drumlin.metadata.zookeeper.znodes.operations import (
    Create,
    Operation,
    Replace,
    broker_checks,
    state_data,
)
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.zookeeper.connection import ZooKeeperFailure
from drumlin.zookeeper.nodes import UnreadableNode

_ATTEMPTS: Final = 7
#: The number of partitions in a transaction, which includes the topic's node and must stay below
#: ZooKeeper's limit of 1 MiB.
_TRANSACTION_BYTES: Final = 900_000
_PARTITION_BYTES: Final = 600
_TOGETHER_MAX: Final = 500


class Moves(NamedTuple):
    """A decision about the replicas of some partitions of one topic."""

    topic_id: UUID
    rules: TopicRules
    indexes: list[int]
    decide: Decision

    @property
    def topic(self) -> str:
        return self.rules.topic

    @property
    def partitions(self) -> list[PartitionId]:
        return [PartitionId(self.topic_id, each) for each in self.indexes]


def rewrite_replicas(session: Session, moves: Moves, writer: Writer) -> Rewritten:
    """Write the decided replicas and states.

    The transaction checks that a new leader still has the broker epoch on which the decision
    relied.
    """
    moving = _Moving(session, moves, writer)
    moving.run()
    return moving.done


class _Moving:
    """Attempts to write the partitions of one decision, until all are written."""

    def __init__(self, session: Session, moves: Moves, writer: Writer) -> None:
        self.done = Rewritten()
        self._session = session
        self._moves = moves
        self._writer = writer
        self._path = layout.topic_path(moves.topic)
        self._left = set(moves.indexes)

    def run(self) -> None:
        failure: Exception | None = None
        try:
            for _ in range(_ATTEMPTS):
                if failure is not None:
                    self._session.sync()
                failure = self._try()
                if failure is None:
                    return
        except (ZooKeeperFailure, UnreadableNode) as error:
            failure = error
        assert failure is not None
        refusal = as_kafka_error(failure)
        if not isinstance(failure, UnreadableNode):
            self.done.failure = refusal
        self._refuse(list(self._left), refusal)

    def _try(self) -> Exception | None:
        """Make one attempt; returns the failure, if any."""
        # States are read first, so that replicas are never older.
        indexes = sorted(self._left)
        paths = [layout.state_path(self._moves.topic, each) for each in indexes]
        *states, topic = self._session.read([*paths, self._path])
        stored = None if topic is None else layout.decode_topic(self._path, topic.data)
        if topic is None or stored is None or stored.topic_id != self._moves.topic_id:
            self._refuse(indexes, KafkaError(ErrorCode.unknown_topic_id))
            return None
        alive = read_brokers(self._session).epochs
        wanted: list[tuple[PartitionState, PartitionState]] = []
        for index, node in zip(indexes, states, strict=True):
            try:
                if index >= len(stored.replicas):
                    raise KafkaError(ErrorCode.unknown_topic_id)
                if node is None:
                    message = "the partition has never had a leader"
                    raise KafkaError(ErrorCode.invalid_replica_assignment, message)
                path = layout.state_path(self._moves.topic, index)
                assignment, state = stored.assignment(index), layout.decode_state(path, node.data)
                before = known_state(index, assignment, state, node.version)
                partition = PartitionId(stored.topic_id, index)
                after = self._moves.decide(partition, before, self._moves.rules, alive)
            except UnreadableNode as error:
                self._refuse([index], as_kafka_error(error))
            except KafkaError as error:
                self._refuse([index], error)
            else:
                if after == before:
                    self._end(after)
                else:
                    wanted.append((before, after))
        return self._commit(stored, topic.version, wanted, alive)

    def _commit(
        self,
        stored: layout.TopicNode,
        version: int,
        wanted: Sequence[tuple[PartitionState, PartitionState]],
        alive: Mapping[int, int],
    ) -> Exception | None:
        assignments = stored.assignments()
        size = len(layout.encode_assignments(self._moves.topic_id, assignments))
        together = max(1, min((_TRANSACTION_BYTES - size) // _PARTITION_BYTES, _TOGETHER_MAX))
        for start in range(0, len(wanted), together):
            some = wanted[start : start + together]
            for before, after in some:
                assignments[before.index] = after.assignment
            data = layout.encode_assignments(self._moves.topic_id, assignments)
            ended = [replace(new, partition_epoch=old.partition_epoch + 1) for old, new in some]
            try:
                self._session.commit(
                    [
                        *self._checks(some, alive),
                        Replace(self._path, data, version),
                        *self._states(ended),
                        self._news(ended),
                    ]
                )
            except Conflict as conflict:
                if conflict.operation not in self._writer.fence.checks:
                    return conflict
                self._refuse(list(self._left), as_kafka_error(conflict))
                return None
            version += 1
            for each in ended:
                self._end(each)
        return None

    def _checks(
        self,
        wanted: Sequence[tuple[PartitionState, PartitionState]],
        alive: Mapping[int, int],
    ) -> list[Operation]:
        relied_on = frozenset().union(*(relies_on(*each) for each in wanted))
        checks = [check for each in sorted(relied_on) for check in broker_checks(each, alive[each])]
        return list(dict.fromkeys([*self._writer.fence.checks, *checks]))

    def _states(self, ended: Sequence[PartitionState]) -> Iterator[Operation]:
        for each in ended:
            path = layout.state_path(self._moves.topic, each.index)
            data = state_data(each, self._writer.controller_epoch)
            yield Replace(path, data, each.partition_epoch - 1)

    def _news(self, ended: Sequence[PartitionState]) -> Operation:
        news = own_layout.encode_state_news(
            (PartitionId(self._moves.topic_id, each.index), changed(each)) for each in ended
        )
        return Create(own_layout.STATE_NEWS_PREFIX, news, is_sequence=True)

    def _end(self, state: PartitionState) -> None:
        self.done.stored[PartitionId(self._moves.topic_id, state.index)] = state
        self._left.discard(state.index)

    def _refuse(self, indexes: Sequence[int], error: KafkaError) -> None:
        for index in indexes:
            self.done.errors[PartitionId(self._moves.topic_id, index)] = error
        self._left.difference_update(indexes)
