"""The owner of the store that several brokers of one machine share: their controller.

It serves no client. Brokers are alive as long as their channels are; it makes the mutations that
they ask for, tells all of them what has changed, and gives partitions leaders that are in sync.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from drumlin.config.topic import LogConfig
from drumlin.metadata.embedded.sqlite import SqliteMetadata
from drumlin.metadata.image import NO_LEADER, PartitionId, PartitionState, TopicState
from drumlin.metadata.rules.election_counts import ElectionCounts
from drumlin.metadata.rules.election_news import say_how_elected
from drumlin.metadata.rules.elections import elected
from drumlin.metadata.rules.leadership import (
    Returned,
    handed_over,
    in_next_epoch,
    preferred,
    returned,
    settled,
)
from drumlin.metadata.rules.reassignment import completed, moved
from drumlin.metadata.shared import codec, messages
from drumlin.metadata.shared.channel import Channel, Handler, encode_tale
from drumlin.metadata.shared.folders import folders_of, with_folders
from drumlin.metadata.shared.states import Decision, PartitionStates
from drumlin.metadata.store.changes import (
    Change,
    ConfigsChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from drumlin.metadata.store.isr_wishes import granted
from drumlin.metadata.store.mutations import uncancelled
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

#: Within so long it is known whether one broker is stopped, or all are, by signals to each of them.
_TOGETHER_S: Final = 0.3
#: A broker that leaves more of what it is told does not follow any more.
_WAITING_BYTES_MAX: Final = 64 << 20


class Authority:
    """See the module."""

    def __init__(
        self,
        store: SqliteMetadata,
        log_dirs: Mapping[int, Collection[str]],
        configs_of: Callable[[str], LogConfig],
        drop: Callable[[int], None],
    ) -> None:
        """The store has `ImmediateListeners`.

        Args:
            log_dirs: of each broker. None of them is served before all are registered.
            configs_of: a topic's configuration.
            drop: ends a broker that does not follow.
        """
        self.store = store
        self.image = store.image
        self._log_dirs = log_dirs
        self._configs_of = configs_of
        self._drop = drop
        self._channels: dict[int, Channel] = {}
        self._states = PartitionStates(store, self._publish_states)
        self._missing = set(log_dirs)
        self._all_there = asyncio.Event()
        self._is_adopted = asyncio.Event()
        self._is_stopping = False
        if not store.is_new:
            self._is_adopted.set()
        store.on_change(self._publish)

    @property
    def elections(self) -> ElectionCounts:
        return self._states.elections

    @property
    def queue(self) -> int:
        """What is asked for or to be decided, and not made yet."""
        return self._states.waiting

    # -- brokers that come and go ------------------------------------------------------

    def connect(self, node_id: int, channel: Channel) -> None:
        """Have a broker's process follow the store; its channel is about to start."""
        handlers: dict[str, Callable[[int, Any], Any]] = {
            messages.REGISTER: self._register,
            messages.LEAVE_ISRS: self._leave_isrs,
            messages.ELECT_LEADERS: self._elect_leaders,
            messages.REASSIGN: self._reassign,
            messages.HAND_OVER: self._hand_over,
            messages.NOTE_ADOPTED: self._note_adopted,
            messages.CREATE_TOPIC: self._create_topic,
            messages.ADD_PARTITIONS: self._add_partitions,
            messages.PARTITION_COUNT: self._partition_count,
            messages.DELETE_TOPIC: self._delete_topic,
            messages.NOTE_FOLDERS: self._note_folders,
            messages.ADVANCE_ALL: self._advance_all,
            messages.ADVANCE: self._advance,
            messages.ALTER_ISRS: self._alter_isrs,
            messages.ALTER_CONFIGS: self._alter_configs,
            messages.PRODUCER_IDS: self._producer_ids,
        }
        bound: dict[str, Handler] = {
            kind: partial(handler, node_id) for kind, handler in handlers.items()
        }
        channel.handle(bound)
        deleted = folders_of(node_id, self.store.deleted_topics, self._log_dirs)
        is_new = self.store.is_new and node_id == min(self._log_dirs)
        deleted_ids = frozenset(self.store.deleted_ids)
        last_epoch = self.store.last_broker_epoch_of(node_id)
        snapshot = codec.Snapshot(self.image, deleted, deleted_ids, is_new, last_epoch)
        channel.tell(messages.SNAPSHOT, codec.write_snapshot(snapshot))
        self._channels[node_id] = channel

    async def disconnect(self, node_id: int) -> None:
        """The broker's process is gone: others lead what they can."""
        since = self.elections.clock.monotonic()
        channel = self._channels.pop(node_id, None)
        if channel is not None:
            await channel.close()  # what it was about to do must not come after this
        if self.image.brokers.get(node_id) is None:
            return
        self.image.remove_broker(node_id)
        self._brokers_changed()
        if not self._is_stopping:
            try:
                await self._settle(since=since)
            except KafkaError as error:  # it is tried again when a broker comes or goes
                _log.error("what broker %d has led has no new leaders: %s", node_id, error)

    def stop(self) -> None:
        """All brokers are about to stop: nobody is to take over what they lead."""
        self._is_stopping = True

    async def _register(self, node_id: int, body: Any) -> int:
        broker = codec.read_broker(body[0])
        await self._leave(node_id, codec.read_lacking(body[1]))
        epoch = await self.store.next_broker_epoch(node_id)
        self.image.put_broker(replace(broker, epoch=epoch))
        self._brokers_changed()
        _log.info("broker %d is registered, in epoch %d", node_id, epoch)
        await self._await_others(node_id)
        return epoch

    async def _await_others(self, node_id: int) -> None:
        """At the start, wait for all: new topics are for all of them, leaders as preferred."""
        is_start = bool(self._missing)
        self._missing.discard(node_id)
        if self._missing:
            await self._all_there.wait()
        else:
            await self._settle(is_start=is_start)
            self._all_there.set()
        if node_id != min(self._log_dirs):
            await self._is_adopted.wait()  # producer ids may be found in old logs

    def _brokers_changed(self) -> None:
        self.image.controller_id = min(self.image.brokers, default=NO_LEADER)
        self._publish_all(messages.BROKERS_CHANGED, codec.write_brokers(self.image))

    async def _leave_isrs(self, node_id: int, body: Any) -> None:
        partitions = codec.read_partition_ids(body)
        await self._leave(node_id, dict.fromkeys(partitions, Returned(None)))

    async def _leave(self, node_id: int, lacking: Mapping[PartitionId, Returned]) -> None:
        def decide(topic: TopicState, state: PartitionState) -> PartitionState:
            found = lacking[PartitionId(topic.topic_id, state.index)]
            return returned(state, node_id, found, self.image.brokers, self._min_isr(topic.name))

        if lacking:
            await self._rewrite(decide, lacking)

    async def _hand_over(self, node_id: int, _: Any) -> int | None:
        """The broker's epoch from now on; None: as it was."""
        await asyncio.sleep(_TOGETHER_S)
        broker = self.image.brokers.get(node_id)
        if self._is_stopping or broker is None:
            return None
        # An epoch of which no other broker knows: none takes it into an ISR any more.
        epoch = await self.store.next_broker_epoch(node_id)
        self.image.put_broker(replace(broker, epoch=epoch))

        def decide(topic: TopicState, state: PartitionState) -> PartitionState:
            return handed_over(state, node_id, self.image.brokers, self._min_isr(topic.name))

        await self._rewrite(decide)
        return epoch

    # -- leaders -----------------------------------------------------------------------

    async def _settle(
        self,
        wanted: Collection[PartitionId] | None = None,
        *,
        is_start: bool = False,
        since: float | None = None,
    ) -> None:
        def decide(topic: TopicState, state: PartitionState) -> PartitionState:
            alive, min_isr = self.image.brokers, self._min_isr(topic.name)
            after = settled(state, alive, min_isr)
            if after.leader == NO_LEADER and not alive.keys().isdisjoint(state.replicas):
                may_be = self._may_be_unclean(topic.name)
                after = settled(state, alive, min_isr, may_be_unclean=may_be)
            say_how_elected(topic.name, state, after)
            return _as_preferred(after, alive, min_isr) if is_start else after

        _check(await self._states.rewrite(decide, wanted, since=since))
        if wanted is None:
            await self._complete_moves()

    def _min_isr(self, topic: str) -> int:
        return self._configs_of(topic).min_insync_replicas

    def _may_be_unclean(self, topic: str) -> bool:
        return self._configs_of(topic).unclean_leader_election_enable

    async def _settle_new(self, topic: TopicState, first_index: int = 0) -> None:
        """A broker may have gone while the partitions were made."""
        new = topic.partitions[first_index:]
        if any(each.leader not in self.image.brokers for each in new):
            await self._settle([PartitionId(topic.topic_id, each.index) for each in new])

    async def _rewrite(
        self, decide: Decision, wanted: Collection[PartitionId] | None = None
    ) -> None:
        _check(await self._states.rewrite(decide, wanted))

    async def _advance_all(self, node_id: int, _: Any) -> None:
        def decide(_: TopicState, state: PartitionState) -> PartitionState:
            return in_next_epoch(state, node_id)

        _check(await self._states.rewrite(decide, quiet_for=node_id))

    async def _advance(self, node_id: int, body: Any) -> None:
        def decide(_: TopicState, state: PartitionState) -> PartitionState:
            return in_next_epoch(state, node_id)

        wanted = codec.read_partition_ids(body)
        _check(await self._states.rewrite(decide, wanted, quiet_for=node_id))

    async def _alter_isrs(self, node_id: int, body: Any) -> list[Any]:
        wishes = codec.read_wishes(body)

        def decide(topic: TopicState, state: PartitionState) -> PartitionState:
            wish = wishes[PartitionId(topic.topic_id, state.index)]
            alive = {each.node_id: each.epoch for each in self.image.brokers.values()}
            return granted(wish, state, node_id, alive, self._min_isr(topic.name))

        outcomes = await self._states.rewrite(decide, wishes)
        await self._complete_moves(wishes)
        return codec.write_outcomes([outcomes[each] for each in wishes])

    async def _elect_leaders(self, _: int, body: Any) -> list[Any]:
        rows, is_unclean = body

        def decide(topic: TopicState, state: PartitionState) -> PartitionState:
            min_isr = self._min_isr(topic.name)
            after = elected(state, self.image.brokers, min_isr, is_unclean=is_unclean)
            say_how_elected(topic.name, state, after, "an operator has asked for it")
            return after

        wanted = codec.read_partition_ids(rows)
        outcomes = await self._states.rewrite(decide, wanted)
        return codec.write_outcomes([outcomes[each] for each in wanted])

    async def _reassign(self, _: int, body: Any) -> list[Any]:
        rows, may_change_factor = body
        targets = codec.read_targets(rows)

        def decide(topic: TopicState, state: PartitionState) -> PartitionState:
            return moved(
                state,
                self.image.brokers,
                self._min_isr(topic.name),
                target=targets[PartitionId(topic.topic_id, state.index)],
                may_change_factor=may_change_factor,
                may_be_unclean=self._may_be_unclean(topic.name),
            )

        outcomes = await self._states.rewrite(decide, targets)
        return codec.write_outcomes([outcomes[each] for each in targets])

    async def _complete_moves(self, wanted: Collection[PartitionId] | None = None) -> None:
        """Let go of replicas where the target of a reassignment is in sync."""

        def decide(topic: TopicState, state: PartitionState) -> PartitionState:
            if not state.is_reassigned:
                return state
            return completed(state, self.image.brokers, self._min_isr(topic.name))

        await self._rewrite(decide, wanted)

    # -- mutations ---------------------------------------------------------------------

    async def _note_adopted(self, _: int, first_producer_id: int) -> None:
        await self.store.note_adopted(first_producer_id)
        self._is_adopted.set()

    @uncancelled
    async def _create_topic(self, _: int, body: Any) -> str:
        name, assignment, configs, topic_id, leader_epoch = body
        wanted_id = None if topic_id is None else UUID(topic_id)
        topic = await self.store.create_topic(name, assignment, configs, wanted_id, leader_epoch)
        await self._settle_new(topic)
        return topic.topic_id.hex

    @uncancelled
    async def _add_partitions(self, _: int, body: Any) -> str:
        name, first_index, assignment = body
        topic = await self.store.add_partitions(name, first_index, assignment)
        await self._settle_new(topic, first_index)
        return topic.topic_id.hex

    async def _partition_count(self, _: int, name: str) -> int:
        return await self.store.partition_count(name)

    async def _delete_topic(self, _: int, topic_id: str) -> None:
        await self.store.delete_topic(UUID(topic_id))

    async def _note_folders(self, node_id: int, body: Any) -> None:
        left = {topic_id: dirs or () for topic_id, dirs in codec.read_folders(body).items()}
        known = self.store.deleted_topics
        await self.store.note_folders_left(
            {
                topic_id: with_folders(node_id, known.get(topic_id, ()), dirs, self._log_dirs)
                for topic_id, dirs in left.items()
            }
        )

    async def _alter_configs(self, _: int, body: Any) -> bool:
        """Whether the configuration is still the one on which the change was decided."""
        (resource, expected), changes = codec.read_configs(body[0]), body[1]
        is_expected = False

        def alter(current: Mapping[str, str]) -> Mapping[str, str | None]:
            nonlocal is_expected
            is_expected = dict(current) == expected
            return changes if is_expected else {}

        await self.store.alter_configs(resource, alter)
        if is_expected:  # as many as must be in sync may be fewer now
            await self._settle()
        return is_expected

    async def _producer_ids(self, _: int, __: Any) -> Sequence[int]:
        return await self.store.next_producer_id_block()

    # -- telling -----------------------------------------------------------------------

    def _publish(self, change: Change) -> None:
        match change:
            case TopicCreated(topic, configs):
                body = codec.write_created(topic, configs)
                self._publish_all(messages.TOPIC_CREATED, body)
            case TopicDeleted(topic):
                self._publish_all(messages.TOPIC_DELETED, topic.topic_id.hex)
            case PartitionsAdded(topic, partitions):
                states = codec.States(topic.topic_id, partitions)
                self._publish_all(messages.PARTITIONS_ADDED, codec.write_states(states))
            case ConfigsChanged(resource, configs):
                body = codec.write_configs(resource, configs)
                self._publish_all(messages.CONFIGS_CHANGED, body)

    def _publish_states(
        self, topic_id: UUID, partitions: tuple[PartitionState, ...], quiet_for: int | None
    ) -> None:
        states = codec.States(topic_id, partitions, quiet_for)
        self._publish_all(messages.PARTITIONS_CHANGED, codec.write_states(states))

    def _publish_all(self, kind: str, body: Any) -> None:
        frame = encode_tale(kind, body)
        for node_id, channel in list(self._channels.items()):
            if channel.waiting_bytes > _WAITING_BYTES_MAX:
                _log.error("broker %d does not follow the metadata, and is stopped", node_id)
                del self._channels[node_id]
                self._drop(node_id)
            else:
                channel.send(frame)


def _as_preferred(state: PartitionState, alive: Collection[int], min_isr: int) -> PartitionState:
    """The partition led by its first replica, if that can be."""
    try:
        return preferred(state, alive, min_isr)
    except KafkaError:
        return state


def _check(outcomes: Mapping[PartitionId, PartitionState | KafkaError]) -> None:
    """
    Raises:
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    for error in outcomes.values():
        if isinstance(error, KafkaError) and error.code is ErrorCode.kafka_storage_error:
            raise error
