"""`SharedMetadata`: a broker's view of the store that several brokers of a machine share.

The process that owns the store (`authority.py`) carries out mutations. It sends each change to all
brokers, which apply the changes to their images in the same order. A broker gets the response to
a mutation after the mutation's changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final
from uuid import UUID

from drumlin.metadata.image import BrokerState, PartitionId, PartitionState, Resource, TopicState
from drumlin.metadata.rules.decisions import Target, check_can_unregister
from drumlin.metadata.rules.election_counts import ElectionCounts
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.rules.leadership import Returned
from drumlin.metadata.shared import codec, messages
from drumlin.metadata.shared.channel import Channel, ChannelEnded, Unanswered
from drumlin.metadata.store.changes import (
    BrokersChanged,
    Change,
    ConfigsChanged,
    PartitionsAdded,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
)
from drumlin.metadata.store.mutations import Listeners, Locks, uncancelled
from drumlin.metadata.store.store import (
    NOTHING_LACKING,
    Adoption,
    Alteration,
    Assignment,
    Listener,
    ProducerIdBlock,
)
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

#: The maximum number of partitions in a request: other brokers are served between two requests.
_TOGETHER: Final = 500
_NO_EPOCH: Final = -1


class SharedMetadata:
    """The store. See `store.MetadataStore` for the contracts of the methods."""

    def __init__(self, channel: Channel, snapshot: codec.Snapshot, node_id: int) -> None:
        self.image = snapshot.image
        self.deleted_topics = dict(snapshot.deleted_topics)
        self._deleted = set(snapshot.deleted_ids)
        self._is_new = snapshot.is_new
        self.broker_epoch, self.last_broker_epoch = _NO_EPOCH, snapshot.last_broker_epoch
        self._node_id = node_id
        self._channel = channel
        self._listeners = Listeners()
        self._locks = Locks()
        self._told: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls, channel: Channel, node_id: int, on_end: Callable[[], None]
    ) -> SharedMetadata:
        """Begin to follow the owner's store. Starts the channel; `close` closes it.

        `on_end` is called when the owner of the store has ended.

        Raises:
            ChannelEnded: the owner has ended already.
        """
        begun: asyncio.Future[SharedMetadata] = asyncio.get_running_loop().create_future()

        def begin(snapshot: codec.Snapshot) -> None:
            store = cls(channel, snapshot, node_id)
            store._follow()
            if not begun.done():  # the caller may be cancelled
                begun.set_result(store)

        def end() -> None:
            if not begun.done():
                begun.set_exception(ChannelEnded())
            on_end()

        channel.take(messages.SNAPSHOT, begin, codec.read_snapshot)
        channel.start(end)
        return await begun

    def watch(self, limit_s: float) -> None:
        """Notice when the owner of the store hangs for `limit_s`.

        This broker continues to lead its partitions meanwhile: the owner kills this process before
        another broker may lead them.
        """
        self._channel.watch(limit_s, self._heard)

    def _heard(self, is_silent: bool) -> None:
        self.image.is_current = not is_silent
        if is_silent:
            _log.warning(
                "the process that owns the metadata does not answer: this broker goes on serving "
                "its topics, and no topic or configuration can be changed until it answers"
            )
        else:
            _log.warning("the process that owns the metadata answers again")

    # -- notifications -----------------------------------------------------------------

    def _follow(self) -> None:
        take = self._channel.take
        take(messages.TOPIC_CREATED, self._topic_created, codec.read_created)
        take(messages.TOPIC_DELETED, self._topic_deleted, UUID)
        take(messages.PARTITIONS_ADDED, self._partitions_added, codec.read_states)
        take(messages.PARTITIONS_CHANGED, self._partitions_changed, codec.read_states)
        take(messages.BROKERS_CHANGED, self._brokers_changed, codec.read_brokers)
        take(messages.CONFIGS_CHANGED, self._configs_changed, codec.read_configs)

    def _tell(self, change: Change) -> None:
        self._told = self._listeners.tell(change)

    def _topic_created(self, created: tuple[TopicState, dict[str, str]]) -> None:
        topic, configs = created
        self.image.put_topic(topic)
        self.image.put_configs(messages.topic_resource(topic.name), configs)
        self._tell(TopicCreated(topic, configs))

    def _topic_deleted(self, topic_id: UUID) -> None:
        topic = self.image.topics_by_id[topic_id]
        self.image.remove_topic(topic)
        self.deleted_topics[topic_id] = None
        self._deleted.add(topic_id)
        self._tell(TopicDeleted(topic))

    def _partitions_added(self, added: codec.States) -> None:
        topic = self.image.topics_by_id[added.topic_id]
        topic = replace(topic, partitions=topic.partitions + added.partitions)
        self.image.put_topic(topic)
        self._tell(PartitionsAdded(topic, added.partitions))

    def _partitions_changed(self, changed: codec.States) -> None:
        topic = self.image.topics_by_id[changed.topic_id]
        topic = topic.with_states({each.index: each for each in changed.partitions})
        self.image.put_topic(topic)
        if changed.quiet_for != self._node_id:
            self._tell(PartitionsChanged(topic, changed.partitions))

    def _brokers_changed(self, brokers: codec.Brokers) -> None:
        for node_id in self.image.brokers.keys() - {each.node_id for each in brokers.alive}:
            self.image.remove_broker(node_id)
        for each in brokers.alive:
            self.image.put_broker(each)
        self.image.controller_id = brokers.controller_id
        self._tell(BrokersChanged())

    def _configs_changed(self, changed: tuple[Resource, dict[str, str]]) -> None:
        resource, configs = changed
        self.image.put_configs(resource, configs)
        self._tell(ConfigsChanged(resource, configs))

    # -- requests ----------------------------------------------------------------------

    async def _ask(self, kind: str, body: Any = None) -> Any:
        """Send a request to the owner of the store.

        Raises:
            KafkaError: the request is refused; KAFKA_STORAGE_ERROR: the outcome is unknown.
        """
        try:
            return await self._channel.ask(kind, body)
        except Unanswered as error:
            what = "is gone" if isinstance(error, ChannelEnded) else "does not answer"
            message = f"the process that owns the metadata {what}"
            raise KafkaError(ErrorCode.kafka_storage_error, message) from None

    async def _change(self, kind: str, body: Any = None) -> Any:
        """Request a change, and wait until listeners have handled it.

        Must not be called by a listener, which would wait for itself.
        """
        answer = await self._ask(kind, body)
        if self._told is not None:
            await asyncio.wait([self._told])
        return answer

    async def _change_in_parts(
        self,
        kind: str,
        partitions: Iterable[PartitionId],
        body: Callable[[list[PartitionId]], Any],
    ) -> dict[PartitionId, PartitionState | KafkaError]:
        """Like `_change`, for many partitions, in parts; returns the outcome for each partition."""
        outcomes: dict[PartitionId, PartitionState | KafkaError] = {}
        left = iter(partitions)
        while some := list(islice(left, _TOGETHER)):
            try:
                rows = await self._change(kind, body(some))
            except KafkaError as error:
                outcomes.update(dict.fromkeys(some, error))
            else:
                outcomes.update(zip(some, map(codec.read_outcome, rows), strict=True))
        return outcomes

    # -- the broker --------------------------------------------------------------------

    @property
    def adoption(self) -> Adoption | None:
        return self if self._is_new else None

    async def note_adopted(self, first_producer_id: int = 0) -> None:
        await self._ask(messages.NOTE_ADOPTED, first_producer_id)
        self._is_new = False

    async def register_broker(
        self, broker: BrokerState, *, lacking: Mapping[PartitionId, Returned] = NOTHING_LACKING
    ) -> None:
        asked = [codec.write_broker(broker), codec.write_lacking(lacking)]
        self.broker_epoch = await self._ask(messages.REGISTER, asked)

    @uncancelled
    async def reassign(
        self, targets: Mapping[PartitionId, Target | None], *, may_change_factor: bool = True
    ) -> Mapping[PartitionId, PartitionState | KafkaError]:
        return await self._change_in_parts(
            messages.REASSIGN,
            targets,
            lambda some: [
                codec.write_targets({each: targets[each] for each in some}),
                may_change_factor,
            ],
        )

    @uncancelled
    async def elect_leaders(
        self, partitions: Collection[PartitionId], *, is_unclean: bool
    ) -> Mapping[PartitionId, PartitionState | KafkaError]:
        return await self._change_in_parts(
            messages.ELECT_LEADERS,
            partitions,
            lambda some: [codec.write_partition_ids(some), is_unclean],
        )

    async def unregister_broker(self, node_id: int) -> None:
        is_alive = node_id in self.image.brokers
        check_can_unregister(node_id, is_alive=is_alive, is_registered=False)

    @uncancelled
    async def leave_isrs(self, partitions: Collection[PartitionId]) -> None:
        await self._change(messages.LEAVE_ISRS, codec.write_partition_ids(partitions))

    @uncancelled
    async def hand_over(self) -> None:
        before, self.broker_epoch = self.broker_epoch, _NO_EPOCH  # unknown until the response
        begun: int | None = await self._change(messages.HAND_OVER)
        self.broker_epoch = before if begun is None else begun

    def register_no_more(self) -> None:
        """Nothing to do, as the broker registers only once."""

    @property
    def elections(self) -> ElectionCounts | None:
        return None

    @property
    def controller_queue(self) -> int:
        return 0

    def on_change(self, listener: Listener) -> None:
        self._listeners.add(listener)

    async def close(self) -> None:
        await self._channel.close()
        await self._listeners.close()

    # -- topics ------------------------------------------------------------------------

    @uncancelled
    async def create_topic(
        self,
        name: str,
        assignment: Assignment,
        configs: Mapping[str, str],
        topic_id: UUID | None = None,
        first_leader_epoch: int = 0,
    ) -> TopicState:
        wanted_id = None if topic_id is None else topic_id.hex
        replicas = [list(each) for each in assignment]
        body = [name, replicas, dict(configs), wanted_id, first_leader_epoch]
        made = UUID(await self._change(messages.CREATE_TOPIC, body))
        return self._topic(made)

    @uncancelled
    async def add_partitions(
        self, name: str, first_index: int, assignment: Assignment
    ) -> TopicState:
        body = [name, first_index, [list(each) for each in assignment]]
        return self._topic(UUID(await self._change(messages.ADD_PARTITIONS, body)))

    def _topic(self, topic_id: UUID) -> TopicState:
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            message = "it has been deleted meanwhile"
            raise KafkaError(ErrorCode.unknown_topic_or_partition, message)
        return topic

    async def partition_count(self, name: str) -> int:
        count: int = await self._ask(messages.PARTITION_COUNT, name)
        return count

    @uncancelled
    async def delete_topic(self, topic_id: UUID) -> None:
        await self._change(messages.DELETE_TOPIC, topic_id.hex)

    def was_deleted(self, topic_id: UUID) -> bool:
        return topic_id in self._deleted

    def was_any_deleted(self) -> bool:
        return bool(self._deleted)

    async def note_folders_left(self, left: Mapping[UUID, Sequence[str]]) -> None:
        await self._ask(messages.NOTE_FOLDERS, codec.write_folders(left))
        for topic_id, log_dirs in left.items():
            if log_dirs:
                self.deleted_topics[topic_id] = tuple(log_dirs)
            else:
                self.deleted_topics.pop(topic_id, None)

    # -- partitions --------------------------------------------------------------------

    async def advance_leader_epochs(
        self, partitions: Collection[PartitionId] | None = None
    ) -> None:
        if partitions is None:
            await self._ask(messages.ADVANCE_ALL)
            return
        left = iter(partitions)
        while some := list(islice(left, _TOGETHER)):
            await self._ask(messages.ADVANCE, codec.write_partition_ids(some))

    @uncancelled
    async def alter_isrs(
        self, requests: Mapping[PartitionId, IsrRequest]
    ) -> Mapping[PartitionId, PartitionState | KafkaError]:
        return await self._change_in_parts(
            messages.ALTER_ISRS,
            requests,
            lambda some: codec.write_isr_requests({each: requests[each] for each in some}),
        )

    # -- configurations, producer ids --------------------------------------------------

    @uncancelled
    async def alter_configs(self, resource: Resource, alteration: Alteration) -> None:
        """Alter a configuration by compare-and-set; retry if the stored one has changed."""
        async with self._locks.of(resource):
            while True:
                current = self.image.configs(resource)
                changes = alteration(current)
                if not changes:
                    return
                body = [codec.write_configs(resource, current), dict(changes)]
                if await self._change(messages.ALTER_CONFIGS, body):
                    return

    async def next_producer_id_block(self) -> ProducerIdBlock:
        return ProducerIdBlock(*await self._ask(messages.PRODUCER_IDS))
