"""`SqliteMetadata`: topics, configurations and producer ids of one machine, in an SQLite file.

The controller (`controller.py`) decides on brokers and leaders.

A commit waits for the disk, so it runs in a separate thread. Mutations that arrive meanwhile are
committed together with one fsync: a thousand topics created at once cost a handful of fsyncs.
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
from typing import Any, Final, TypeVar
from uuid import UUID

from drumlin.metadata.embedded import database
from drumlin.metadata.embedded.database import Database, Statement
from drumlin.metadata.embedded.first_contents import FirstContents
from drumlin.metadata.image import ClusterImage, Resource, ResourceType, TopicState
from drumlin.metadata.store.changes import (
    ConfigsChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from drumlin.metadata.store.mutations import (
    Listeners,
    Locks,
    check_is_new,
    new_partitions,
    topic_to_widen,
    topic_with_id,
    uncancelled,
    with_changes,
)
from drumlin.metadata.store.store import (
    PRODUCER_ID_BLOCK_SIZE,
    Adoption,
    Alteration,
    Assignment,
    Listener,
    ProducerIdBlock,
)
from drumlin.ready_threads import ready_threads
from drumlin.storage.directory.meta_properties import new_cluster_id
from drumlin.together import Together
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

_BROKER_EPOCH: Final = "broker_epoch"


T = TypeVar("T")


class SqliteMetadata:
    """The methods of `store.MetadataStore` that need no controller; see there."""

    def __init__(
        self, opened: Database, image: ClusterImage, listeners: Listeners | None = None
    ) -> None:
        self.image = image
        self.is_new = opened.value(database.LOGS_ADOPTED) is None
        known = opened.deleted_topics()
        self.deleted_topics = {each: left for each, left in known.items() if left != ()}
        self._deleted = set(known)
        self._last_broker_epochs = opened.broker_epochs()
        self._database = opened
        self._thread = ready_threads(1, "metadata")
        self.listeners = listeners or Listeners()
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
        """Open the store in `directory`. Blocks; called when a broker starts.

        A new store belongs to the cluster `cluster_id`, or to a new cluster, and begins with
        `first_contents`. `listeners` replace the store's own listeners.

        Raises:
            UnreadableMetadata: the existing file cannot be used, or belongs to another cluster.
        """
        path = directory / database.FILE_NAME
        database.close_to_others(path)
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
        # Kept for this process, as coordinators still remove their state of these topics.
        opened.execute_durably([database.forget_deletions()])
        return metadata

    @property
    def adoption(self) -> Adoption | None:
        return self if self.is_new else None

    async def note_adopted(self, first_producer_id: int = 0) -> None:
        changes = [database.put_value(database.LOGS_ADOPTED, 1)]
        if first_producer_id:
            changes.append(database.put_value(database.NEXT_PRODUCER_ID, first_producer_id))
        await self.commit(changes)
        self.is_new = False

    def on_change(self, listener: Listener) -> None:
        self.listeners.add(listener)

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
            await self.listeners.report(TopicCreated(topic, configs))
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
            await self.listeners.report(TopicDeleted(topic))

    @property
    def deleted_ids(self) -> Collection[UUID]:
        """All topic ids for which `was_deleted` is true."""
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
            current = self.image.topics[name]  # leader epochs may have advanced meanwhile
            topic = replace(current, partitions=current.partitions + added)
            self.image.put_topic(topic)
            await self.listeners.report(PartitionsAdded(topic, added))
            return topic

    @uncancelled
    async def alter_configs(self, resource: Resource, alteration: Alteration) -> None:
        async with self._locks.of(resource):
            current = self.image.configs(resource)
            changes = alteration(current)
            if not changes:
                return
            await self.commit([database.put_config(resource, *each) for each in changes.items()])
            configs = with_changes(current, changes)
            self.image.put_configs(resource, configs)
            await self.listeners.report(ConfigsChanged(resource, configs))

    @uncancelled
    async def next_producer_id_block(self) -> ProducerIdBlock:
        async with self._locks.of(database.NEXT_PRODUCER_ID):
            first = await self._in_thread(self._database.value, database.NEXT_PRODUCER_ID) or 0
            following = first + PRODUCER_ID_BLOCK_SIZE
            await self.commit([database.put_value(database.NEXT_PRODUCER_ID, following)])
            return ProducerIdBlock(first, PRODUCER_ID_BLOCK_SIZE)

    def last_broker_epoch_of(self, node_id: int) -> int | None:
        """The last epoch of this broker, if there are several brokers; None if unknown."""
        return self._last_broker_epochs.get(node_id)

    @uncancelled
    async def next_broker_epoch(self, node_id: int) -> int:
        """A broker epoch that no broker of this store has had before, if there are several brokers.

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
        await self.listeners.close()
        await self._in_thread(self._database.close)
        self._thread.shutdown()

    async def commit(self, statements: Iterable[Statement]) -> None:
        """Make a mutation durable, together with other waiting mutations.

        There may be many statements, so they are iterated in the thread that executes them.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; nothing is stored.
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


def _not_written(error: sqlite3.Error) -> KafkaError:
    message = f"the metadata could not be written: {error}"
    return KafkaError(ErrorCode.kafka_storage_error, message)
