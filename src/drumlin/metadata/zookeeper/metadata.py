"""`ZooKeeperMetadata`: a cluster's store in ZooKeeper, as Apache Kafka's ZooKeeper mode has it.

A mutation is decided on what is stored, and written by compare-and-set in the controller's epoch.
What others write is followed (`following.py`). Without ZooKeeper the image stays as it is, and no
mutation is made.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID, uuid4

from drumlin.metadata.changes import ConfigsChanged, PartitionsAdded, TopicCreated
from drumlin.metadata.image import (
    BrokerState,
    ClusterImage,
    PartitionId,
    PartitionState,
    Resource,
    ResourceType,
    TopicState,
)
from drumlin.metadata.mutations import (
    already_exists,
    check_is_new,
    new_partitions,
    topic_to_widen,
    topic_with_id,
    uncancelled,
)
from drumlin.metadata.store import (
    PRODUCER_ID_BLOCK_SIZE,
    Adoption,
    Alteration,
    Assignment,
    Listener,
    ProducerIdBlock,
    UnusableMetadata,
)
from drumlin.metadata.zookeeper import layout, operations
from drumlin.metadata.zookeeper.commits import ATTEMPTS, Commits, asked, told
from drumlin.metadata.zookeeper.connection import ZooKeeperFailure, connect
from drumlin.metadata.zookeeper.deletions import Deletions
from drumlin.metadata.zookeeper.following import Follower
from drumlin.metadata.zookeeper.layout import UnreadableNode
from drumlin.metadata.zookeeper.office import Office
from drumlin.metadata.zookeeper.operations import Create, Delete, Operation, Replace
from drumlin.metadata.zookeeper.parts import Parts
from drumlin.metadata.zookeeper.reading import read_cluster_id, read_deleted
from drumlin.metadata.zookeeper.session import Conflict, Session
from drumlin.metadata.zookeeper.states import Place
from drumlin.storage.meta_properties import new_cluster_id
from drumlin.storage.partition_metadata import encode_uuid
from drumlin.turns import Pace
from drumlin.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.clock import Clock
    from drumlin.config.broker import BrokerConfig
    from drumlin.metadata.zookeeper.operations import Fence
    from drumlin.metadata.zookeeper.session import Node


T = TypeVar("T")


class ZooKeeperMetadata:
    """See `store.MetadataStore` for what its methods promise."""

    #: Its topics are in it, whoever made them: nothing is taken over from logs.
    adoption: Adoption | None = None

    def __init__(self, parts: Parts, follower: Follower, node_id: int) -> None:
        self.image = parts.image
        self._parts = parts
        self._commits, self._office = parts.commits, parts.office
        self._deletions = parts.deletions
        self._follower = follower
        self._node_id = node_id

    @classmethod
    async def open(
        cls, config: BrokerConfig, clock: Clock, cluster_id: str | None
    ) -> ZooKeeperMetadata:
        """Connect, and read everything.

        A chroot without a cluster begins one, unless the data is of the cluster `cluster_id`.

        Raises:
            UnusableMetadata: it cannot be read, or is of another cluster.
        """
        try:
            session, stored = await asyncio.to_thread(_open_session, config, cluster_id)
        except (ZooKeeperFailure, UnreadableNode) as error:
            raise UnusableMetadata(str(error)) from error
        commits = Commits(session)
        try:
            timeout_s = config.zookeeper_session_timeout_ms / 1000
            office = Office(commits, clock, timeout_s)
            deletions = Deletions(config.node_id)
            parts = Parts(ClusterImage(stored), commits, office, deletions)
            follower = Follower(parts, config, clock)
            await follower.start()
        except (ZooKeeperFailure, UnreadableNode) as error:
            await commits.close()
            raise UnusableMetadata(str(error)) from error
        except BaseException:
            await commits.close()
            raise
        return cls(parts, follower, config.node_id)

    async def register_broker(self, broker: BrokerState, *, was_clean: bool) -> None:
        del was_clean
        try:
            await self._office.take(broker)
            self.image.put_broker(broker)
            self.image.controller_id = broker.node_id
            await self._office.keep()  # from now on it is watched
            await self._follower.settle()
            await self._commits.run(_forget_deletions, self._office.held())
        except (ZooKeeperFailure, UnreadableNode, Conflict) as error:
            raise UnusableMetadata(str(error)) from error

    async def advance_leader_epochs(self) -> None:
        led, pace = [], Pace()
        for topic in list(self.image.topics.values()):
            led += [
                Place(topic.name, each) for each in topic.partitions if each.leader == self._node_id
            ]
            await pace.give_way()
        await self._advance(led)

    async def advance_leader_epochs_of(self, partitions: Collection[PartitionId]) -> None:
        """It waits for no other change of their topics, so a listener of changes may call it."""
        places = []
        for topic_id, index in partitions:
            topic = self.image.topics_by_id.get(topic_id)
            state = None if topic is None else topic.partition(index)
            if topic is not None and state is not None:
                places.append(Place(topic.name, state))
        await self._advance(places)

    async def _advance(self, places: Sequence[Place]) -> None:
        try:
            await asked(self._follower.topics.rewrite(places, self._office.held()))
        except Conflict as conflict:
            raise told(conflict) from conflict

    def on_change(self, listener: Listener) -> None:
        self._parts.listeners.add(listener)

    @uncancelled
    async def create_topic(
        self,
        name: str,
        assignment: Assignment,
        configs: Mapping[str, str],
        topic_id: UUID | None = None,
        first_leader_epoch: int = 0,
    ) -> TopicState:
        resource = Resource(ResourceType.TOPIC, name)
        async with self._parts.locks.of(resource):
            check_is_new(self.image, name)
            partitions = await new_partitions(0, assignment, first_leader_epoch)
            topic = TopicState(name, topic_id or uuid4(), partitions)
            await self._create(topic, configs)
            self.image.put_topic(topic)
            self.image.put_configs(resource, configs)
            await self._parts.listeners.report(TopicCreated(topic, configs))
            return topic

    async def _create(self, topic: TopicState, configs: Mapping[str, str]) -> None:
        """Write a new topic; a configuration without one may be there already."""
        fence = self._office.held()
        path = layout.config_path(Resource(ResourceType.TOPIC, topic.name))
        for has_configs in (False, True):
            made = operations.create_topic(topic, configs, fence.epoch, has_configs=has_configs)
            try:
                await self._commits.commit(made, fence)
            except Conflict as conflict:
                if conflict.operation.path == path and not has_configs:
                    continue
                self._follower.notice(layout.TOPICS)
                raise already_exists(topic.name) from conflict
            else:
                return

    @uncancelled
    async def delete_topic(self, topic_id: UUID) -> None:
        topic = topic_with_id(self.image, topic_id)
        async with self._parts.locks.of(Resource(ResourceType.TOPIC, topic.name)):
            topic = topic_with_id(self.image, topic_id)
            try:
                await asked(self._follower.delete_held(topic))
            except Conflict as conflict:
                raise _contended(conflict) from conflict

    @property
    def deleted_topics(self) -> Mapping[UUID, tuple[str, ...] | None]:
        return self._deletions.left

    def was_deleted(self, topic_id: UUID) -> bool:
        return topic_id in self._deletions.ids

    def was_any_deleted(self) -> bool:
        return bool(self._deletions.ids)

    async def note_folders_left(self, left: Mapping[UUID, Sequence[str]]) -> None:
        fence = self._office.held()
        known, _ = await asked(
            self._commits.run(read_deleted, [encode_uuid(each) for each in left])
        )
        for topic_id, log_dirs in left.items():
            if topic_id in known:
                folders = {**known[topic_id], self._node_id: tuple(log_dirs)}
                path = layout.deleted_path(topic_id)
                try:
                    noted = Replace(path, layout.encode_folders(folders))
                    await self._commits.commit([noted], fence)
                except Conflict as conflict:
                    raise _contended(conflict) from conflict
            self._deletions.note(topic_id, log_dirs)

    @uncancelled
    async def add_partitions(
        self, name: str, first_index: int, assignment: Assignment
    ) -> TopicState:
        async with self._parts.locks.of(Resource(ResourceType.TOPIC, name)):
            topic = topic_to_widen(self.image, name, first_index)
            added = await new_partitions(first_index, assignment)
            await self._widen(topic, added)
            current = self.image.topics[name]  # its leader epochs may have advanced meanwhile
            topic = replace(current, partitions=current.partitions + added)
            self.image.put_topic(topic)
            await self._parts.listeners.report(PartitionsAdded(topic, added))
            return topic

    async def _widen(self, topic: TopicState, added: Sequence[PartitionState]) -> None:
        fence, path = self._office.held(), layout.topic_path(topic.name)
        node = await self._read(path)
        if node is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition)
        try:
            stored = layout.decode_topic(path, node.data)
        except UnreadableNode as error:
            raise told(error) from error
        if (stored.topic_id, len(stored.replicas)) == (topic.topic_id, len(topic.partitions)):
            try:
                await self._commits.commit(
                    operations.add_partitions(topic, added, node.version, fence.epoch), fence
                )
            except Conflict:
                pass
            else:
                return
        self._follower.notice(path)
        message = f"{topic.name} has been changed by another meanwhile"
        raise KafkaError(ErrorCode.invalid_partitions, message)

    @uncancelled
    async def alter_configs(self, resource: Resource, alteration: Alteration) -> None:
        async with self._parts.locks.of(resource):
            path = layout.config_path(resource)

            def write(node: Node | None) -> tuple[Iterable[Operation], dict[str, str] | None]:
                current = {} if node is None else layout.decode_configs(path, node.data)
                changes = alteration(current)
                if not changes:
                    return (), None
                merged = {**current, **changes}
                configs = {key: value for key, value in merged.items() if value is not None}
                version = None if node is None else node.version
                return operations.put_configs(resource, configs, version), configs

            configs = await self._compare_and_set(path, write)
            if configs is not None:
                self.image.put_configs(resource, configs)
                await self._parts.listeners.report(ConfigsChanged(resource, configs))

    @uncancelled
    async def next_producer_id_block(self) -> ProducerIdBlock:
        def write(node: Node | None) -> tuple[Iterable[Operation], ProducerIdBlock]:
            last = layout.decode_producer_ids(b"" if node is None else node.data)
            block = ProducerIdBlock(last + 1, PRODUCER_ID_BLOCK_SIZE)
            data = layout.encode_producer_ids(self._node_id, block)
            if node is None:
                return [Create(layout.PRODUCER_IDS, data)], block
            return [Replace(layout.PRODUCER_IDS, data, node.version)], block

        async with self._parts.locks.of(layout.PRODUCER_IDS):
            return await self._compare_and_set(layout.PRODUCER_IDS, write)

    async def _compare_and_set(
        self, path: str, write: Callable[[Node | None], tuple[Iterable[Operation], T]]
    ) -> T:
        """Have done what `write` decides on a node as it is; what it says comes of that."""
        fence = self._office.held()
        for attempt in range(ATTEMPTS):
            node = await self._read(path)
            try:
                wanted, outcome = write(node)
                if wanted:
                    await self._commits.commit(wanted, fence)
            except UnreadableNode as error:
                raise told(error) from error
            except Conflict as conflict:
                if attempt == ATTEMPTS - 1:
                    raise _contended(conflict) from conflict
            else:
                return outcome
        raise AssertionError("the last attempt returns or raises")

    async def _read(self, path: str) -> Node | None:
        (node,) = await asked(self._commits.run(_read_all, [path]))
        return node

    async def close(self) -> None:
        await self._follower.stop()
        await self._commits.close()


def _open_session(config: BrokerConfig, cluster_id: str | None) -> tuple[Session, str]:
    """A session, and the cluster that the chroot is of; it is made where there is none."""
    hosts = config.zookeeper_connect
    assert hosts
    session_timeout_ms = config.zookeeper_session_timeout_ms
    client = connect(
        hosts,
        session_timeout_ms=session_timeout_ms,
        connection_timeout_ms=config.zookeeper_connection_timeout_ms or session_timeout_ms,
        makes_chroot=True,
    )
    session = Session(client, hosts, session_timeout_ms / 1000)
    try:
        return session, _cluster_of(session, cluster_id)
    except BaseException:
        session.close()
        raise


def _cluster_of(session: Session, cluster_id: str | None) -> str:
    stored = read_cluster_id(session)
    if cluster_id not in (None, stored):
        found = f"cluster {stored}" if stored else "no cluster yet"
        raise UnusableMetadata(
            f"the log dirs belong to cluster {cluster_id}, and in ZooKeeper on {session.hosts} "
            f"there is {found}: their topics are not known there"
        )
    session.create_all(layout.PERSISTENT)
    while stored is None:
        session.create_all([layout.CLUSTER_ID.rpartition("/")[0]])
        data = layout.encode_cluster_id(new_cluster_id())
        with contextlib.suppress(Conflict):  # another broker begins it
            session.commit([Create(layout.CLUSTER_ID, data)])
        stored = read_cluster_id(session)
    return stored


def _read_all(session: Session, paths: Sequence[str]) -> list[Node | None]:
    return session.read(paths)


def _forget_deletions(session: Session, fence: Fence) -> None:
    """Forget deleted topics of which no folder is left.

    Coordinators have as long as this process runs to forget what they know of those topics.
    """
    found, _ = read_deleted(session)
    gone = [topic_id for topic_id, folders in found.items() if not any(_may_have(folders))]
    session.commit_all([[fence.check, Delete(layout.deleted_path(each))] for each in gone])


def _may_have(folders: layout.Folders) -> Iterable[bool]:
    return (left != () for left in folders.values())


def _contended(conflict: Conflict) -> Exception:
    error = told(conflict)
    if isinstance(error, KafkaError):
        return error
    message = f"others keep changing ZooKeeper's {conflict.operation.path}"
    return KafkaError(ErrorCode.kafka_storage_error, message)
