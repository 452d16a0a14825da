"""`ZooKeeperMetadata`: a cluster's store in ZooKeeper, in the format of Apache Kafka 3.9.

Every broker writes its own mutations. A mutation is decided on the stored state, and written by
compare-and-set while the broker is registered; of two conflicting ones, one is refused. Changes by
others are followed (`following.py`). While ZooKeeper does not answer, the image does not change,
and no mutation is possible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar
from uuid import UUID, uuid4

from drumlin.clock import Clock
from drumlin.config.broker import BrokerConfig
from drumlin.metadata.image import (
    BrokerState,
    ClusterImage,
    PartitionId,
    PartitionState,
    Resource,
    ResourceType,
    TopicState,
)
from drumlin.metadata.rules.decisions import Target
from drumlin.metadata.rules.election_counts import ElectionCounts
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.rules.leadership import Returned
from drumlin.metadata.store.changes import ConfigsChanged, PartitionsAdded, TopicCreated
from drumlin.metadata.store.mutations import (
    already_exists,
    check_is_new,
    new_partitions,
    topic_to_widen,
    topic_with_id,
    uncancelled,
    with_changes,
)
from drumlin.metadata.store.store import (
    NOTHING_LACKING,
    PRODUCER_ID_BLOCK_SIZE,
    Adoption,
    Alteration,
    Assignment,
    Listener,
    ProducerIdBlock,
    UnusableMetadata,
)
from drumlin.metadata.zookeeper.brokers.controllership import Controllership
from drumlin.metadata.zookeeper.brokers.registration import Registration
from drumlin.metadata.zookeeper.brokers.registration_nodes import last_epoch
from drumlin.metadata.zookeeper.brokers.removed_brokers import unregister
from drumlin.metadata.zookeeper.deletion.deleted_topics import Deletions
from drumlin.metadata.zookeeper.following.following import Follower
from drumlin.metadata.zookeeper.leadership.own_states import OwnStates
from drumlin.metadata.zookeeper.parts import Parts
from drumlin.metadata.zookeeper.session.commits import ATTEMPTS, Commits
from drumlin.metadata.zookeeper.session.failures import as_kafka_error, client_error, translated
from drumlin.metadata.zookeeper.session.session import Conflict, Node, Session
from drumlin.metadata.zookeeper.states.opening import open_session
from drumlin.metadata.zookeeper.states.partition_states import with_newer
from drumlin.metadata.zookeeper.znodes import config_nodes, layout, operations
from drumlin.metadata.zookeeper.znodes.acl_nodes import is_storable
from drumlin.metadata.zookeeper.znodes.operations import Check, Create, Operation, Replace
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.zookeeper.connection import ZooKeeperFailure
from drumlin.zookeeper.nodes import UnreadableNode

T = TypeVar("T")
#: The number of brokers that may note at the same time that they have no folders of a topic left.
_NOTING_ATTEMPTS: Final = 200


class ZooKeeperMetadata:
    """See `store.MetadataStore` for the contracts of its methods."""

    #: ZooKeeper has all topics, so none are adopted from logs.
    adoption: Adoption | None = None

    def __init__(self, parts: Parts, follower: Follower, last_broker_epoch: int | None) -> None:
        self.last_broker_epoch = last_broker_epoch
        self.image = parts.image
        self._parts = parts
        self._commits, self._registration = parts.commits, parts.registration
        self._deletions = parts.deletions
        self._follower = follower
        self._node_id = parts.config.node_id
        self._own = OwnStates(parts)

    @classmethod
    async def open(
        cls, config: BrokerConfig, clock: Clock, cluster_id: str | None
    ) -> ZooKeeperMetadata:
        """Connect, and read everything.

        A cluster is created in an empty chroot, unless the log dirs belong to `cluster_id`.

        Raises:
            UnusableMetadata: the metadata cannot be read, or belongs to another cluster.
        """
        try:
            session, stored = await asyncio.to_thread(open_session, config, cluster_id)
        except (ZooKeeperFailure, UnreadableNode) as error:
            raise UnusableMetadata(str(error)) from error
        commits = Commits(session)
        try:
            timeout_s = config.zookeeper_session_timeout_ms / 1000
            registration = Registration(commits, clock, timeout_s)
            controllership = Controllership(commits, registration, clock)
            deletions = Deletions(config.node_id)
            image = ClusterImage(stored)
            counts = ElectionCounts(clock)
            parts = Parts(config, image, commits, registration, controllership, deletions, counts)
            follower = Follower(parts, clock)
            await follower.start()
            last_broker_epoch = await commits.run(last_epoch, config.node_id)
        except (ZooKeeperFailure, UnreadableNode) as error:
            await commits.close()
            raise UnusableMetadata(str(error)) from error
        except BaseException:
            await commits.close()
            raise
        return cls(parts, follower, last_broker_epoch)

    async def register_broker(
        self, broker: BrokerState, *, lacking: Mapping[PartitionId, Returned] = NOTHING_LACKING
    ) -> None:
        prepare = partial(self._own.leave, lacking) if lacking else None
        try:
            await self._registration.take(broker, prepare)
            await self._follower.begin()
        except (ZooKeeperFailure, UnreadableNode, Conflict) as error:
            raise UnusableMetadata(str(error)) from error

    async def advance_leader_epochs(
        self, partitions: Collection[PartitionId] | None = None
    ) -> None:
        await self._own.advance(partitions)

    @uncancelled
    async def alter_isrs(
        self, requests: Mapping[PartitionId, IsrRequest]
    ) -> Mapping[PartitionId, PartitionState | KafkaError]:
        return await self._own.alter_isrs(requests)

    @uncancelled
    async def reassign(
        self, targets: Mapping[PartitionId, Target | None], *, may_change_factor: bool = True
    ) -> Mapping[PartitionId, PartitionState | KafkaError]:
        moves = self._follower.leaders.reassignments
        return await moves.reassign(targets, may_change_factor=may_change_factor)

    @uncancelled
    async def elect_leaders(
        self, partitions: Collection[PartitionId], *, is_unclean: bool
    ) -> Mapping[PartitionId, PartitionState | KafkaError]:
        return await self._own.elect_leaders(partitions, is_unclean=is_unclean)

    @uncancelled
    async def unregister_broker(self, node_id: int) -> None:
        try:
            await self._commits.run(unregister, node_id, self._registration.held())
        except (Conflict, UnreadableNode, ZooKeeperFailure) as error:
            raise as_kafka_error(error) from error

    @uncancelled
    async def leave_isrs(self, partitions: Collection[PartitionId]) -> None:
        try:
            out_of_reach = dict.fromkeys(partitions, Returned(None))
            await self._own.leave(out_of_reach, self._registration.held())
        except (Conflict, ZooKeeperFailure) as error:
            raise as_kafka_error(error) from error

    @uncancelled
    async def hand_over(self) -> None:
        try:
            await self._own.hand_over(await self._registration.withdraw())
        except (Conflict, ZooKeeperFailure) as error:
            raise as_kafka_error(error) from error

    @property
    def elections(self) -> ElectionCounts:
        return self._parts.elections

    @property
    def controller_queue(self) -> int:
        return self._follower.controller_queue

    @property
    def broker_epoch(self) -> int:
        return self._registration.epoch

    def register_no_more(self) -> None:
        self._registration.end()

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
            partitions = await new_partitions(0, assignment, self.image.brokers, first_leader_epoch)
            topic = TopicState(name, topic_id or uuid4(), partitions)
            with self._parts.states.expecting(topic.topic_id) as early:
                topic = with_newer(await self._create(topic, configs), early)
                self.image.put_topic(topic)
            self.image.put_configs(resource, configs)
            telling = self._parts.listeners.tell(TopicCreated(topic, configs))
        await telling  # without the lock, which the follower of ZooKeeper may need
        return topic

    async def _create(self, topic: TopicState, configs: Mapping[str, str]) -> TopicState:
        """Write a new topic; its configuration may exist already."""
        fence, epoch = self._registration.held(), self._parts.controllership.epoch
        path = layout.config_path(Resource(ResourceType.TOPIC, topic.name))
        for has_configs in (False, True):
            made = operations.create_topic(topic, configs, epoch, has_configs=has_configs)
            try:
                left = await self._commits.commit_first(made, fence)
            except Conflict as conflict:
                if conflict.operation.path == path and not has_configs:
                    continue
                self._follower.notice(layout.TOPICS)
                raise already_exists(topic.name) from conflict
            return await self._own.complete(topic, left) if left else topic
        raise AssertionError("the second attempt returns or raises")

    async def partition_count(self, name: str) -> int:
        return await translated(self._commits.run(_stored_count, name))

    @uncancelled
    async def delete_topic(self, topic_id: UUID) -> None:
        topic = topic_with_id(self.image, topic_id)
        async with self._parts.locks.of(Resource(ResourceType.TOPIC, topic.name)):
            topic = topic_with_id(self.image, topic_id)
            try:
                telling = await translated(self._follower.requested_deletions.delete_held(topic))
            except Conflict as conflict:
                raise as_kafka_error(conflict) from conflict
        if telling is not None:
            await telling

    @property
    def deleted_topics(self) -> Mapping[UUID, tuple[str, ...] | None]:
        return self._deletions.left

    def was_deleted(self, topic_id: UUID) -> bool:
        return topic_id in self._deletions.ids

    def was_any_deleted(self) -> bool:
        return bool(self._deletions.ids)

    async def note_folders_left(self, left: Mapping[UUID, Sequence[str]]) -> None:
        for topic_id, log_dirs in left.items():
            path = layout.deleted_path(topic_id)

            def write(
                node: Node | None, path: str = path, log_dirs: Sequence[str] = log_dirs
            ) -> tuple[Iterable[Operation], None]:
                if node is None:
                    return (), None
                known = layout.decode_folders(path, node.data)
                folders = layout.encode_folders({**known, self._node_id: tuple(log_dirs)})
                return [Replace(path, folders, node.version)], None

            # Whenever an attempt fails, another broker has succeeded.
            await self._compare_and_set(path, write, _NOTING_ATTEMPTS)
            self._deletions.note(topic_id, log_dirs)

    @uncancelled
    async def add_partitions(
        self, name: str, first_index: int, assignment: Assignment
    ) -> TopicState:
        async with self._parts.locks.of(Resource(ResourceType.TOPIC, name)):
            topic = topic_to_widen(self.image, name, first_index)
            added = await new_partitions(first_index, assignment, self.image.brokers)
            with self._parts.states.expecting(topic.topic_id) as early:
                added = await self._widen(topic, added)
                current = self.image.topics[name]  # states may have changed meanwhile
                topic = replace(current, partitions=current.partitions + added)
                topic = with_newer(topic, early)
                self.image.put_topic(topic)
            added = topic.partitions[first_index:]
            telling = self._parts.listeners.tell(PartitionsAdded(topic, added))
        await telling
        return topic

    async def _widen(
        self, topic: TopicState, added: tuple[PartitionState, ...]
    ) -> tuple[PartitionState, ...]:
        fence, path = self._registration.held(), layout.topic_path(topic.name)
        epoch = self._parts.controllership.epoch
        for _ in range(ATTEMPTS):
            node = await self._read(path)
            if node is None:
                raise KafkaError(ErrorCode.unknown_topic_or_partition)
            try:
                stored = layout.decode_topic(path, node.data)
            except UnreadableNode as error:
                raise client_error(error) from error
            if (stored.topic_id, len(stored.replicas)) != (topic.topic_id, len(topic.partitions)):
                break
            made = operations.add_partitions(topic, stored, added, node.version, epoch)
            try:
                left = await self._commits.commit_first(made, fence)
            except Conflict:
                continue  # a reassignment may have changed the same node
            begun = replace(topic, partitions=added)
            return (await self._own.complete(begun, left)).partitions if left else added
        self._follower.notice(path)
        message = f"{topic.name} was changed by another broker or tool meanwhile"
        raise KafkaError(ErrorCode.invalid_partitions, message)

    @uncancelled
    async def alter_configs(self, resource: Resource, alteration: Alteration) -> None:
        if resource.type is ResourceType.ACL and not is_storable(resource):
            message = "ZooKeeper cannot keep ACLs of a name like this"
            raise KafkaError(ErrorCode.invalid_request, message)
        async with self._parts.locks.of(resource):
            path = config_nodes.node_path(resource)
            if resource.type is ResourceType.QUOTA:
                parents = [path.rpartition("/")[0]]
                await translated(self._commits.run(Session.create_all, parents))

            def write(node: Node | None) -> tuple[Iterable[Operation], dict[str, str] | None]:
                current = {} if node is None else config_nodes.decode_node(resource, node.data)
                changes = alteration(config_nodes.shown(resource, current))
                if not changes:
                    return (), None
                configs = with_changes(current, changes)
                version = None if node is None else node.version
                operations = config_nodes.change_node(resource, configs, version)
                return operations, config_nodes.shown(resource, configs)

            try:
                configs = await self._compare_and_set(path, write)
            except Conflict as conflict:
                raise KafkaError(ErrorCode.unknown_topic_or_partition) from conflict
            if configs is None:
                return
            self.image.put_configs(resource, configs)
            telling = self._parts.listeners.tell(ConfigsChanged(resource, configs))
        await telling

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
        self,
        path: str,
        write: Callable[[Node | None], tuple[Iterable[Operation], T]],
        attempts: int = ATTEMPTS,
    ) -> T:
        """Commit the operations that `write` returns for a node; if the node has changed meanwhile,
        call `write` again.

        Returns:
            The outcome returned by `write`.

        Raises:
            Conflict: another node checked by the operations is not as expected.
        """
        fence = self._registration.held()
        for attempt in range(attempts):
            node = await self._read(path)
            try:
                wanted, outcome = write(node)
                if wanted:
                    await self._commits.commit(wanted, fence)
            except UnreadableNode as error:
                raise client_error(error) from error
            except Conflict as conflict:
                if isinstance(conflict.operation, Check):
                    raise
                if attempt == attempts - 1:
                    raise as_kafka_error(conflict) from conflict
            else:
                return outcome
        raise AssertionError("the last attempt returns or raises")

    async def _read(self, path: str) -> Node | None:
        (node,) = await translated(self._commits.run(_read_all, [path]))
        return node

    async def close(self) -> None:
        await self._follower.stop()
        await self._parts.listeners.close()
        await self._commits.close()


def _read_all(session: Session, paths: Sequence[str]) -> list[Node | None]:
    return session.read(paths)


def _stored_count(session: Session, name: str) -> int:
    session.sync()
    path = layout.topic_path(name)
    (node,) = session.read([path])
    if node is not None:
        return len(layout.decode_topic(path, node.data).replicas)
    if session.read([layout.TOPICS]) == [None]:
        raise ZooKeeperFailure(f"ZooKeeper on {session.hosts} has no {layout.TOPICS} any more")
    return 0
