"""`Authority`: the owner of the store that several brokers of one machine share.

The authority serves brokers over channels, but no clients. A broker counts as alive as long as its
channel is open. The controller (`embedded/controller.py`) carries out the brokers' requests; the
authority notifies all brokers of each change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

from drumlin.config.topic import LogConfig
from drumlin.metadata.embedded.controller import Controller
from drumlin.metadata.embedded.partition_states import Outcomes
from drumlin.metadata.embedded.sqlite import SqliteMetadata
from drumlin.metadata.image import PartitionId
from drumlin.metadata.rules.leadership import Returned
from drumlin.metadata.shared import codec, messages
from drumlin.metadata.shared.channel import Channel, Handler, encode_notification
from drumlin.metadata.shared.folders import folders_of, with_folders
from drumlin.metadata.store.changes import (
    BrokersChanged,
    Change,
    ConfigsChanged,
    PartitionsAdded,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
)
from drumlin.metadata.store.mutations import uncancelled

_log = logging.getLogger(__name__)

#: A broker that leaves more unread bytes than this counts as hung.
_WAITING_BYTES_MAX: Final = 64 << 20


class Authority:
    """The owner's side of the store: serves the brokers, and notifies them of changes."""

    def __init__(
        self,
        store: SqliteMetadata,
        log_dirs: Mapping[int, Collection[str]],
        configs_of: Callable[[str], LogConfig],
        drop: Callable[[int], None],
    ) -> None:
        """The store must have `ImmediateListeners`.

        Args:
            log_dirs: the log dirs of each broker.
            configs_of: returns a topic's configuration.
            drop: stops a broker that does not read notifications.
        """
        self.store = store
        self.image = store.image
        self.controller = Controller(store, log_dirs, configs_of, self._publish)
        self._log_dirs = log_dirs
        self._drop = drop
        self._channels: dict[int, Channel] = {}
        store.on_change(self._publish)

    # -- brokers that come and go ------------------------------------------------------

    def connect(self, node_id: int, channel: Channel) -> None:
        """Serve a broker's process over its channel, which must not be started yet."""
        ask = self.controller
        handlers: dict[str, Handler] = {
            messages.REGISTER: self._register,
            messages.LEAVE_ISRS: lambda body: ask.leave(
                node_id, dict.fromkeys(codec.read_partition_ids(body), Returned(None))
            ),
            messages.ELECT_LEADERS: self._elect_leaders,
            messages.REASSIGN: self._reassign,
            messages.HAND_OVER: lambda _: ask.hand_over(node_id),
            messages.NOTE_ADOPTED: ask.note_adopted,
            messages.CREATE_TOPIC: self._create_topic,
            messages.ADD_PARTITIONS: self._add_partitions,
            messages.PARTITION_COUNT: self.store.partition_count,
            messages.DELETE_TOPIC: lambda body: self.store.delete_topic(UUID(body)),
            messages.NOTE_FOLDERS: partial(self._note_folders, node_id),
            messages.ADVANCE_ALL: lambda _: ask.advance(node_id, None),
            messages.ADVANCE: lambda body: ask.advance(node_id, codec.read_partition_ids(body)),
            messages.ALTER_ISRS: partial(self._alter_isrs, node_id),
            messages.ALTER_CONFIGS: self._alter_configs,
            messages.PRODUCER_IDS: lambda _: self.store.next_producer_id_block(),
        }
        channel.handle(handlers)
        deleted = folders_of(node_id, self.store.deleted_topics, self._log_dirs)
        is_new = self.store.is_new and node_id == min(self._log_dirs)
        deleted_ids = frozenset(self.store.deleted_ids)
        last_epoch = self.store.last_broker_epoch_of(node_id)
        snapshot = codec.Snapshot(self.image, deleted, deleted_ids, is_new, last_epoch)
        channel.tell(messages.SNAPSHOT, codec.write_snapshot(snapshot))
        self._channels[node_id] = channel

    async def disconnect(self, node_id: int) -> None:
        """Handle the end of a broker's process."""
        known_at = self.controller.now()
        channel = self._channels.pop(node_id, None)
        if channel is not None:
            await channel.close()  # no request of the broker may be served after its removal
        await self.controller.remove(node_id, known_at)

    def stop(self) -> None:
        """Elect no more leaders, as all brokers are about to stop."""
        self.controller.stop()

    # -- requests of brokers -------------------------------------------------------------

    async def _register(self, body: Any) -> int:
        broker, lacking = codec.read_broker(body[0]), codec.read_lacking(body[1])
        epoch = await self.controller.register(broker, lacking)
        _log.info("broker %d is registered, in epoch %d", broker.node_id, epoch)
        return epoch

    async def _alter_isrs(self, node_id: int, body: Any) -> list[Any]:
        requests = codec.read_isr_requests(body)
        return _in_order(requests, await self.controller.alter_isrs(node_id, requests))

    async def _elect_leaders(self, body: Any) -> list[Any]:
        wanted, is_unclean = codec.read_partition_ids(body[0]), body[1]
        outcomes = await self.controller.elect_leaders(wanted, is_unclean=is_unclean)
        return _in_order(wanted, outcomes)

    async def _reassign(self, body: Any) -> list[Any]:
        targets, may_change_factor = codec.read_targets(body[0]), body[1]
        outcomes = await self.controller.reassign(targets, may_change_factor=may_change_factor)
        return _in_order(targets, outcomes)

    @uncancelled
    async def _create_topic(self, body: Any) -> str:
        name, assignment, configs, wanted, leader_epoch = body
        wanted_id = None if wanted is None else UUID(wanted)
        topic = await self.store.create_topic(name, assignment, configs, wanted_id, leader_epoch)
        await self.controller.settle_new(topic)
        return topic.topic_id.hex

    @uncancelled
    async def _add_partitions(self, body: Any) -> str:
        name, first_index, assignment = body
        topic = await self.store.add_partitions(name, first_index, assignment)
        await self.controller.settle_new(topic, first_index)
        return topic.topic_id.hex

    async def _note_folders(self, node_id: int, body: Any) -> None:
        left = {topic_id: dirs or () for topic_id, dirs in codec.read_folders(body).items()}
        known = self.store.deleted_topics
        await self.store.note_folders_left(
            {
                topic_id: with_folders(node_id, known.get(topic_id, ()), dirs, self._log_dirs)
                for topic_id, dirs in left.items()
            }
        )

    async def _alter_configs(self, body: Any) -> bool:
        """Alter a configuration by compare-and-set; returns whether the stored configuration was as
        expected.
        """
        (resource, expected), changes = codec.read_configs(body[0]), body[1]
        is_expected = False

        def alter(current: Mapping[str, str]) -> Mapping[str, str | None]:
            nonlocal is_expected
            is_expected = dict(current) == expected
            return changes if is_expected else {}

        await self.controller.alter_configs(resource, alter)
        return is_expected

    # -- notifications -----------------------------------------------------------------

    def _publish(self, change: Change, quiet_for: int | None = None) -> None:
        match change:
            case TopicCreated(topic, configs):
                body = codec.write_created(topic, configs)
                self._publish_all(messages.TOPIC_CREATED, body)
            case TopicDeleted(topic):
                self._publish_all(messages.TOPIC_DELETED, topic.topic_id.hex)
            case PartitionsAdded(topic, partitions):
                states = codec.States(topic.topic_id, partitions)
                self._publish_all(messages.PARTITIONS_ADDED, codec.write_states(states))
            case PartitionsChanged(topic, partitions):
                states = codec.States(topic.topic_id, partitions, quiet_for)
                self._publish_all(messages.PARTITIONS_CHANGED, codec.write_states(states))
            case BrokersChanged():
                self._publish_all(messages.BROKERS_CHANGED, codec.write_brokers(self.image))
            case ConfigsChanged(resource, configs):
                body = codec.write_configs(resource, configs)
                self._publish_all(messages.CONFIGS_CHANGED, body)

    def _publish_all(self, kind: str, body: Any) -> None:
        frame = encode_notification(kind, body)
        for node_id, channel in list(self._channels.items()):
            if channel.waiting_bytes > _WAITING_BYTES_MAX:
                _log.error("broker %d does not follow the metadata, and is stopped", node_id)
                del self._channels[node_id]
                self._drop(node_id)
            else:
                channel.send(frame)


def _in_order(wanted: Iterable[PartitionId], outcomes: Outcomes) -> list[Any]:
    return codec.write_outcomes([outcomes[each] for each in wanted])
