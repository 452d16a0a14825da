"""`SqliteMetadata`: the embedded metadata store, for a cluster of one broker.

A commit waits for the disk, so it runs in a thread of its own, and the event loop continues.
While one is under way, further mutations gather, and the next commit takes them all with one
fsync: a thousand topics asked for at once cost a handful of them.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from drumlin.metadata.embedded import database
from drumlin.metadata.embedded.database import Database, Statement
from drumlin.metadata.image import (
    NO_LEADER,
    BrokerState,
    ClusterImage,
    PartitionId,
    PartitionState,
    Resource,
    ResourceType,
    TopicState,
)
from drumlin.metadata.rules.election_counts import ElectionCounts
from drumlin.metadata.rules.election_news import say_how_elected
from drumlin.metadata.rules.elections import elected
from drumlin.metadata.rules.leadership import NO_EPOCH, Returned, settled
from drumlin.metadata.rules.reassignment import moved
from drumlin.metadata.store.changes import (
    ConfigsChanged,
    PartitionsAdded,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
)
from drumlin.metadata.store.isr_wishes import check_wish
from drumlin.metadata.store.mutations import (
    Listeners,
    Locks,
    check_is_new,
    new_partitions,
    topic_to_widen,
    topic_with_id,
    uncancelled,
)
from drumlin.metadata.store.store import (
    NOTHING_LACKING,
    PRODUCER_ID_BLOCK_SIZE,
    Adoption,
    Alteration,
    Assignment,
    IsrWish,
    Listener,
    ProducerIdBlock,
    Target,
)
from drumlin.ready_threads import ready_threads
from drumlin.storage.directory.meta_properties import new_cluster_id
from drumlin.together import Together
from drumlin.turns import Pace
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.metadata.embedded.first_contents import FirstContents

_log = logging.getLogger(__name__)

_BROKER_EPOCH: Final = "broker_epoch"


T = TypeVar("T")


class SqliteMetadata:
    """See `store.MetadataStore` for what its methods promise."""

    def __init__(
        self, opened: Database, image: ClusterImage, listeners: Listeners | None = None
    ) -> None:
        self.image = image
        self.is_new = opened.value(database.LOGS_ADOPTED) is None
        known = opened.deleted_topics()
        self.deleted_topics = {each: left for each, left in known.items() if left != ()}
        self._deleted = set(known)
        self._last_broker_epochs = opened.broker_epochs()
        self._elections = ElectionCounts()
        self._database = opened
        self._thread = ready_threads(1, "metadata")
        self._node_id = NO_LEADER
        self._listeners = listeners or Listeners()
        self._locks = Locks()
        self._together: Together[None, Iterable[Statement], None] = Together(self._commit_all)

    @classmethod
    def open(
        cls,
        directory: Path,
        cluster_id: str | None = None,
        listeners: Listeners | None = None,
        first_contents: FirstContents | None = None,
    ) -> SqliteMetadata:
        """Open the store in `directory`. Blocks: for the start of a broker.

        A new store belongs to the cluster `cluster_id`, or to a new one, and begins with the
        `first_contents`. `listeners` take the place of its own.

        Raises:
            UnreadableMetadata: the file there cannot be used, or is of another cluster.
        """
        path = directory / database.FILE_NAME
        try:
            return cls._open(path, cluster_id, listeners, first_contents)
        except sqlite3.Error as error:
            raise database.UnreadableMetadata(f"{path}: {error}") from error

    @classmethod
    def _open(
        cls,
        path: Path,
        cluster_id: str | None,
        listeners: Listeners | None,
        first_contents: FirstContents | None,
    ) -> SqliteMetadata:
        opened = Database(path)
        stored = opened.value(database.CLUSTER_ID)
        if stored is None:
            stored = cluster_id or new_cluster_id()
            inherited = () if first_contents is None else database.take_over(first_contents)
            own = database.put_value(database.CLUSTER_ID, stored)
            opened.execute_durably(chain([own], inherited))
        elif cluster_id not in (None, stored):
            opened.close()
            raise database.UnreadableMetadata(
                f"{path}: it belongs to cluster {stored}, the data to cluster {cluster_id}"
            )
        metadata = cls(opened, opened.load(stored), listeners)
        # Coordinators have as long as this process runs to forget what they know of those topics.
        opened.execute_durably([database.forget_deletions()])
        return metadata

    @property
    def elections(self) -> ElectionCounts:
        return self._elections

    @property
    def controller_queue(self) -> int:
        return 0

    @property
    def adoption(self) -> Adoption | None:
        return self if self.is_new else None

    async def register_broker(
        self, broker: BrokerState, *, lacking: Mapping[PartitionId, Returned] = NOTHING_LACKING
    ) -> None:
        del lacking  # no other broker has more records
        self._node_id = self.image.controller_id = broker.node_id
        self.image.put_broker(replace(broker, epoch=0))
        # Of several brokers of this store the one that led may have been away as they stopped.
        for topic in list(self.image.topics.values()):
            waiting = {
                each.index: settled(each, self.image.brokers, 1)
                for each in topic.partitions
                if each.leader == NO_LEADER and each.replicas == (broker.node_id,)
            }
            if waiting:
                await self._put_states(topic.topic_id, waiting)

    async def _put_states(self, topic_id: UUID, states: Mapping[int, PartitionState]) -> None:
        elections = self._elections.begin()
        for index, after in states.items():
            partition = PartitionId(topic_id, index)
            elections.decided(partition, self._state_of(partition) or after, after)
        await self.commit(database.put_state(topic_id, each) for each in states.values())
        elections.written({PartitionId(topic_id, index): each for index, each in states.items()})
        topic = self.image.topics_by_id.get(topic_id)
        if topic is not None:  # else it was deleted meanwhile
            self.image.put_topic(topic.with_states(states))

    async def advance_leader_epochs(self) -> None:
        await self.commit([database.advance_leader_epochs(self._node_id)])
        pace = Pace()
        for topic in list(self.image.topics.values()):  # before any client can change them
            led = {each.index for each in topic.partitions if each.leader == self._node_id}
            self.image.put_topic(topic.in_next_epochs(led))
            await pace.give_way()

    async def advance_leader_epochs_of(self, partitions: Collection[PartitionId]) -> None:
        """It waits for no other change of their topics, so a listener of changes may call it."""
        await self.commit([database.advance_leader_epoch(*each) for each in partitions])
        by_topic: dict[UUID, set[int]] = {}
        for topic_id, index in partitions:
            by_topic.setdefault(topic_id, set()).add(index)
        for topic_id, indexes in by_topic.items():
            topic = self.image.topics_by_id.get(topic_id)
            if topic is not None:
                self.image.put_topic(topic.in_next_epochs(indexes))

    async def alter_isrs(
        self, wishes: Mapping[PartitionId, IsrWish]
    ) -> Mapping[PartitionId, PartitionState | KafkaError]:
        outcomes: dict[PartitionId, PartitionState | KafkaError] = {}
        by_topic: dict[UUID, dict[int, IsrWish]] = {}
        for (topic_id, index), wish in wishes.items():
            by_topic.setdefault(topic_id, {})[index] = wish
        for topic_id, wanted in by_topic.items():
            found = await self._alter_isrs(topic_id, wanted)
            outcomes.update((PartitionId(topic_id, index), each) for index, each in found.items())
        return outcomes

    @uncancelled
    async def _alter_isrs(
        self, topic_id: UUID, wishes: Mapping[int, IsrWish]
    ) -> dict[int, PartitionState | KafkaError]:
        """Of one topic. They come one after the other, as there is one leader."""
        async with self._locks.of(PartitionId(topic_id, NO_LEADER)):
            topic = self.image.topics_by_id.get(topic_id)
            outcomes = {
                index: self._altered(None if topic is None else topic.partition(index), wish)
                for index, wish in wishes.items()
            }
            if topic is None:
                return outcomes
            changed = {
                index: state
                for index, state in outcomes.items()
                if isinstance(state, PartitionState) and state is not topic.partitions[index]
            }
            if not changed:
                return outcomes
            isrs = [database.put_isr(topic_id, each.index, each.isr) for each in changed.values()]
            try:
                await self.commit(isrs)
            except KafkaError as error:
                return outcomes | dict.fromkeys(changed, error)
            current = self.image.topics_by_id.get(topic_id)
            if current is not None:
                # Leader epochs may have advanced meanwhile.
                changed = {
                    index: _with_isr(current.partitions[index], state.isr)
                    for index, state in changed.items()
                }
                topic = current.with_states(changed)
                self.image.put_topic(topic)
                await self._listeners.report(PartitionsChanged(topic, tuple(changed.values())))
            return outcomes | changed

    def _altered(self, state: PartitionState | None, wish: IsrWish) -> PartitionState | KafkaError:
        if state is None:
            return KafkaError(ErrorCode.unknown_topic_id)
        try:
            alive = {each.node_id: each.epoch for each in self.image.brokers.values()}
            check_wish(wish, state, self._node_id, alive)
        except KafkaError as error:
            return error
        isr = tuple(node_id for node_id, _ in wish.isr)
        return state if isr == state.isr else _with_isr(state, isr)

    async def reassign(
        self, targets: Mapping[PartitionId, Target | None], *, may_change_factor: bool = True
    ) -> Mapping[PartitionId, PartitionState | KafkaError]:
        """There is one broker, so all are where they can be."""

        return {
            each: self._reassigned(self._state_of(each), target, may_change_factor)
            for each, target in targets.items()
        }

    def _reassigned(
        self, state: PartitionState | None, target: Target | None, may_change_factor: bool
    ) -> PartitionState | KafkaError:
        if state is None:
            return KafkaError(ErrorCode.unknown_topic_id)
        alive = self.image.brokers
        try:
            wanted = moved(state, alive, 1, target=target, may_change_factor=may_change_factor)
        except KafkaError as error:
            return error
        if wanted != state:
            return KafkaError(ErrorCode.invalid_replica_assignment, "there is one broker")
        return state

    def _state_of(self, partition: PartitionId) -> PartitionState | None:
        topic = self.image.topics_by_id.get(partition.topic_id)
        return None if topic is None else topic.partition(partition.partition)

    async def elect_leaders(
        self, partitions: Collection[PartitionId], *, is_unclean: bool
    ) -> Mapping[PartitionId, PartitionState | KafkaError]:
        """The only replica leads, if it can."""
        return {each: await self._elect(each, is_unclean) for each in partitions}

    @uncancelled
    async def _elect(self, partition: PartitionId, is_unclean: bool) -> PartitionState | KafkaError:
        topic_id = partition.topic_id
        async with self._locks.of(PartitionId(topic_id, NO_LEADER)):
            state = self._state_of(partition)
            if state is None:
                return KafkaError(ErrorCode.unknown_topic_id)
            try:
                after = elected(state, self.image.brokers, 1, is_unclean=is_unclean)
                if after != state:
                    await self._put_states(topic_id, {state.index: after})
            except KafkaError as error:
                return error
            topic = self.image.topics_by_id.get(topic_id)
            if after != state and topic is not None:
                say_how_elected(topic.name, state, after, "an operator has asked for it")
                await self._listeners.report(PartitionsChanged(topic, (after,)))
            return after

    async def unregister_broker(self, node_id: int) -> None:
        if node_id == self._node_id:
            raise KafkaError(ErrorCode.invalid_request, f"broker {node_id} is alive")
        message = f"broker {node_id} is not registered"
        raise KafkaError(ErrorCode.broker_id_not_registered, message)

    async def leave_isrs(self, partitions: Collection[PartitionId]) -> None:
        """It is the last member of each."""

    @property
    def broker_epoch(self) -> int:
        """It is not counted: the store lies beside the logs, and is as old as they are."""
        return NO_EPOCH

    def register_no_more(self) -> None:
        """There is nobody to whom it could be another."""

    @property
    def last_broker_epoch(self) -> int | None:
        return None

    async def hand_over(self) -> None:
        """There is nobody who could take over."""

    async def note_adopted(self, first_producer_id: int = 0) -> None:
        changes = [database.put_value(database.LOGS_ADOPTED, 1)]
        if first_producer_id:
            changes.append(database.put_value(database.NEXT_PRODUCER_ID, first_producer_id))
        await self.commit(changes)
        self.is_new = False

    def on_change(self, listener: Listener) -> None:
        self._listeners.add(listener)

    @uncancelled
    async def create_topic(
        self,
        name: str,
        assignment: Assignment,
        configs: Mapping[str, str],
        topic_id: UUID | None = None,
        first_leader_epoch: int = 0,
    ) -> TopicState:
        async with self._locks.of(Resource(ResourceType.TOPIC, name)):
            check_is_new(self.image, name)
            alive = self.image.brokers
            partitions = await new_partitions(0, assignment, alive, first_leader_epoch)
            topic = TopicState(name, topic_id or uuid.uuid4(), partitions)
            resource = Resource(ResourceType.TOPIC, name)
            settings = [database.put_config(resource, *each) for each in configs.items()]
            await self.commit(chain(database.put_topic(topic), settings))
            self.image.put_topic(topic)
            self.image.put_configs(resource, configs)
            await self._listeners.report(TopicCreated(topic, configs))
            return topic

    async def partition_count(self, name: str) -> int:
        topic = self.image.topics.get(name)
        return 0 if topic is None else len(topic.partitions)

    @uncancelled
    async def delete_topic(self, topic_id: UUID) -> None:
        topic = topic_with_id(self.image, topic_id)
        async with self._locks.of(Resource(ResourceType.TOPIC, topic.name)):
            topic = topic_with_id(self.image, topic_id)
            await self.commit(database.delete_topic(topic))
            self.image.remove_topic(topic)
            self.deleted_topics[topic_id] = None
            self._deleted.add(topic_id)
            await self._listeners.report(TopicDeleted(topic))

    @property
    def deleted_ids(self) -> Collection[UUID]:
        """All ids for which `was_deleted` is true."""
        return self._deleted

    def was_deleted(self, topic_id: UUID) -> bool:
        return topic_id in self._deleted

    def was_any_deleted(self) -> bool:
        return bool(self._deleted)

    async def note_folders_left(self, left: Mapping[UUID, Sequence[str]]) -> None:
        await self.commit([database.put_folders_left(*each) for each in left.items()])
        for topic_id, log_dirs in left.items():
            if log_dirs:
                self.deleted_topics[topic_id] = tuple(log_dirs)
            else:
                self.deleted_topics.pop(topic_id, None)

    @uncancelled
    async def add_partitions(
        self, name: str, first_index: int, assignment: Assignment
    ) -> TopicState:
        async with self._locks.of(Resource(ResourceType.TOPIC, name)):
            topic = topic_to_widen(self.image, name, first_index)
            added = await new_partitions(first_index, assignment, self.image.brokers)
            await self.commit(database.put_partitions(topic.topic_id, added))
            current = self.image.topics[name]  # its leader epochs may have advanced meanwhile
            topic = replace(current, partitions=current.partitions + added)
            self.image.put_topic(topic)
            await self._listeners.report(PartitionsAdded(topic, added))
            return topic

    @uncancelled
    async def alter_configs(self, resource: Resource, alteration: Alteration) -> None:
        async with self._locks.of(resource):
            current = self.image.configs(resource)
            changes = alteration(current)
            if not changes:
                return
            await self.commit([database.put_config(resource, *each) for each in changes.items()])
            merged = {**current, **changes}
            configs = {key: value for key, value in merged.items() if value is not None}
            self.image.put_configs(resource, configs)
            await self._listeners.report(ConfigsChanged(resource, configs))

    @uncancelled
    async def next_producer_id_block(self) -> ProducerIdBlock:
        async with self._locks.of(database.NEXT_PRODUCER_ID):
            first = await self._in_thread(self._database.value, database.NEXT_PRODUCER_ID) or 0
            following = first + PRODUCER_ID_BLOCK_SIZE
            await self.commit([database.put_value(database.NEXT_PRODUCER_ID, following)])
            return ProducerIdBlock(first, PRODUCER_ID_BLOCK_SIZE)

    def last_broker_epoch_of(self, node_id: int) -> int | None:
        """The last one that this broker had, for where there are several; None: not known."""
        return self._last_broker_epochs.get(node_id)

    @uncancelled
    async def next_broker_epoch(self, node_id: int) -> int:
        """An epoch that no broker of this store has had, for where there are several.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        async with self._locks.of(_BROKER_EPOCH):
            epoch = 1 + (await self._in_thread(self._database.value, _BROKER_EPOCH) or 0)
            own = database.put_broker_epoch(node_id, epoch)
            await self.commit([database.put_value(_BROKER_EPOCH, epoch), own])
            self._last_broker_epochs[node_id] = epoch
            return int(epoch)

    async def close(self) -> None:
        await self._together.settle()
        await self._listeners.close()
        await self._in_thread(self._database.close)
        self._thread.shutdown()

    async def commit(self, statements: Iterable[Statement]) -> None:
        """Make one mutation durable, together with others that wait now.

        The statements may be many: they are gone through in the thread that executes them.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; nothing of it is stored.
        """
        await self._together.ask(None, statements)

    async def _commit_all(self, _: None, mutations: Sequence[Any]) -> Sequence[Exception | None]:
        try:
            await self._in_thread(self._database.execute_durably, chain.from_iterable(mutations))
        except sqlite3.Error as error:
            failure = _not_written(error)
            _log.error("%s", failure.message)
            return [failure] * len(mutations)
        return [None] * len(mutations)

    async def _in_thread(self, function: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)


def _with_isr(state: PartitionState, isr: tuple[int, ...]) -> PartitionState:
    return replace(state, isr=isr, partition_epoch=state.partition_epoch + 1)


def _not_written(error: sqlite3.Error) -> KafkaError:
    message = f"the metadata could not be written: {error}"
    return KafkaError(ErrorCode.kafka_storage_error, message)
