"""The partitions of this broker: applies changes of the metadata to logs and partitions.

The metadata says which brokers have a partition, and which one leads it. Accordingly this module
makes this broker lead the partition or follow its leader. Only this module creates and deletes
logs. Logs are created in a thread, a few at a time, so a topic of thousands of partitions stalls no
client.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from drumlin.broker.configs.config_changes import take_over_stored_configs
from drumlin.broker.hosting.deleted_folders import DeletedFolders
from drumlin.broker.hosting.followers import Followers
from drumlin.config.broker import BrokerConfig
from drumlin.config.topic import LogConfig, log_config
from drumlin.coordination.shards.state_topic import StateCoordinator
from drumlin.metadata.image import (
    NO_LEADER,
    NO_LOG,
    LogEnd,
    PartitionId,
    PartitionState,
    ResourceType,
    TopicState,
)
from drumlin.metadata.rules.leadership import Returned
from drumlin.metadata.store.changes import (
    Change,
    ConfigsChanged,
    PartitionsAdded,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
)
from drumlin.metadata.store.store import MetadataStore
from drumlin.replication.partition import LeaderContext, Partition
from drumlin.replication.partition_registry import PartitionRegistry
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.recovery.losses import close_losses
from drumlin.turns import give_way
from drumlin.wire.error_codes import KafkaError

_log = logging.getLogger(__name__)
_NO_ID: Final = UUID(int=0)
#: Logs that are created in one step; other work can run between steps.
_LOGS_PER_STEP: Final = 50

Blocking = Callable[..., Awaitable[Any]]


def log_end_at(log: PartitionLog, end_offset: int) -> LogEnd:
    """The end of a log, as reported after an unclean stop.

    For an empty log no epoch is reported: the known epoch of a deleted offset depends on earlier
    flushes.
    """
    has_records = log.log_start_offset < end_offset
    return LogEnd(log.leader_epochs.epoch_for(end_offset - 1) if has_records else -1, end_offset)


class HostedPartitions:
    """Keeps logs and partitions in step with the metadata, one change after the other."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: MetadataStore,
        logs: LogDirectories,
        partitions: PartitionRegistry,
        coordinators: Mapping[str, StateCoordinator],
        followers: Followers,
        leading: LeaderContext,
        blocking: Blocking,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._image = metadata.image
        self._logs = logs
        self._partitions = partitions
        self._coordinators = coordinators
        self._followers = followers
        self._leading = leading
        self._deleted = DeletedFolders(metadata, logs, partitions)
        self._blocking = blocking
        self._turn = asyncio.Lock()
        #: Whether a change could not be applied because a resource was short; `host_all` repairs
        #: this.
        self.is_behind = False
        #: Deletions that could not be applied: they come before any other change.
        self._missed: list[TopicDeleted] = []

    async def host_all(self) -> None:
        """Serve every partition that the metadata assigns to this broker and that it does not serve
        yet.

        Called when the broker starts, and when a log dir has come back.
        """
        async with self._turn:
            await self._follow_missed()
            if self.is_behind:
                await self._configure_broker()
            await self._deleted.finish()
            for topic in list(self._image.topics.values()):
                await self._host(topic, topic.partitions, is_new=False)
            self.is_behind = False
            for log in list(self._logs):
                await give_way()
                is_ours = self._partitions.has_log_of(log.topic, log.partition)
                if not is_ours and not log.is_unserved:
                    log.is_unserved = True
                    _log.warning("%s is not in the metadata; it is left alone, unserved", log.path)

    async def lacking(self) -> dict[PartitionId, Returned]:
        """Replicated partitions whose log on this broker may have lost records.

        Called before this broker registers: it must not lead these partitions. Those whose ISR does
        not include this broker count, too, as it may have joined the ISR since that was read.
        """
        found = {}
        for topic in list(self._image.topics.values()):
            for state in topic.partitions:
                if self._config.node_id in state.replicas and len(state.replicas) > 1:
                    returned = self._returned(topic, state.index)
                    if returned is not None:
                        found[PartitionId(topic.topic_id, state.index)] = returned
                await give_way()
        return found

    def _returned(self, topic: TopicState, index: int) -> Returned | None:
        """The remaining part of a partition's log; None if it is complete."""
        log = self._logs.get(topic.name, index)
        if log is None or log.topic_id not in (topic.topic_id, _NO_ID):
            is_gone = all(
                each.is_online and (topic.name, index) not in each.not_loaded
                for each in self._logs.directories
            )
            return Returned(NO_LOG if is_gone else None)
        directory = log.log_directory
        if directory.is_current and log.epoch_due_at is None:
            return None
        end_offset = log.log_end_offset
        if log.epoch_due_at is not None:  # some records may be missing
            end_offset = min(end_offset, log.epoch_due_at)
        return Returned(log_end_at(log, end_offset), is_copy=directory.is_copy)

    async def give_up(self, directory: LogDirectory) -> None:
        """Have other brokers lead the partitions of a failed log dir, where possible."""
        replicated = []
        for log in self._logs.in_directory(directory):
            self._followers.pause_while_offline(log.topic, log.partition)
            topic = self._image.topics_by_id.get(log.topic_id)
            state = None if topic is None else topic.partition(log.partition)
            if state is not None and self._config.node_id in {*state.isr, *state.elr}:
                replicated.append(PartitionId(log.topic_id, log.partition))
            await give_way()
        if replicated:
            await self._metadata.leave_isrs(replicated)

    async def take_back(self, directory: LogDirectory) -> bool:
        """Bring an offline log dir back if it works again; `host_all` serves its partitions.

        A failed device may have lost records that consumers have read: the partitions on it begin a
        new leader epoch, by which consumers detect the loss (KIP-320).
        """
        if not await self._blocking(self._logs.repair, directory):
            return False
        if not directory.is_readable:  # checked now: the disk may have failed since
            async with self._turn:
                try:
                    await self._begin_epochs_in(directory)
                except KafkaError as error:
                    _log.warning("Log dir %s stays offline: %s", directory.path, error)
                    return False
        is_online: bool = await self._blocking(self._logs.bring_back, directory)
        return is_online

    async def _begin_epochs_in(self, directory: LogDirectory) -> None:
        served = []
        for log in self._logs.in_directory(directory):
            partition = self._partitions.find(log.topic, log.partition)
            if partition is not None and partition.log is log:
                served.append(partition)
            await give_way()
        await self._metadata.advance_leader_epochs(
            {PartitionId(each.topic_id, each.index) for each in served}
        )
        lossy = [each.log for each in served if each.log.epoch_due_at is not None]
        for partition in served:
            topic = self._image.topics_by_id.get(partition.topic_id)
            state = None if topic is None else topic.partition(partition.index)
            if state is not None:
                partition.begin_leader_epoch(state)
            await give_way()
        await self._blocking(close_losses, lossy)

    async def on_change(self, change: Change) -> None:
        """Apply one change of the metadata."""
        async with self._turn:
            try:
                await self._follow_missed()
                await self._follow_change(change)
            except Exception:
                self.is_behind = True
                if isinstance(change, TopicDeleted):
                    self._missed.append(change)
                raise
        if isinstance(change, TopicDeleted) and not change.keeps_records:
            await self._deleted.note([change.topic.topic_id])

    async def _follow_missed(self) -> None:
        """Apply missed deletions first: a new topic of the same name must not get the logs of the
        deleted one."""
        while self._missed:
            topic, keeps_records = self._missed[0].topic, self._missed[0].keeps_records
            await self._drop(topic, keeps_records=keeps_records)
            del self._missed[0]

    async def _follow_change(self, change: Change) -> None:
        match change:
            case TopicCreated(topic):
                await self._host(topic, topic.partitions, is_new=True)
            case PartitionsAdded(topic, partitions):
                await self._host(topic, partitions, is_new=True)
            case PartitionsChanged(topic, partitions):
                await self._host(topic, partitions, is_new=False)
            case TopicDeleted(topic, keeps_records):
                await self._drop(topic, keeps_records=keeps_records)
            case ConfigsChanged(resource) if resource.type is ResourceType.TOPIC:
                await self._configure(resource.name)
            case ConfigsChanged(resource) if resource.type is ResourceType.BROKER:
                await self._configure_broker()

    def log_config(self, topic: str) -> LogConfig:
        """A topic's configuration as it is now."""
        return log_config(self._image.topic_configs(topic), self._config.topic_defaults())

    # -- partitions --------------------------------------------------------------------

    async def _host(
        self, topic: TopicState, states: Sequence[PartitionState], *, is_new: bool
    ) -> None:
        missing = []
        in_new_epoch: dict[int, PartitionLog] = {}
        for state in states:
            await give_way()
            partition = self._partitions.find(topic.name, state.index)
            if self._config.node_id not in state.replicas:
                self._stop(topic.name, state.index)
                self._delete_moved(topic, state)
            elif partition is not None:
                if state.leader == self._config.node_id:
                    self._lead_on(topic, state, partition)
                else:
                    self._stop(topic.name, state.index)
                    self._assume(topic, state, partition.log)
            else:
                log = self._find_log(topic, state, is_new)
                if log is None:
                    missing.append(state)
                elif state.leader == self._config.node_id and (
                    self._partitions.is_offline(topic.name, state.index)
                    or log.epoch_due_at is not None
                ):
                    in_new_epoch[state.index] = log
                else:
                    self._assume(topic, state, log)
        await self._serve_in_new_epochs(topic, in_new_epoch)
        config = self.log_config(topic.name)
        for first in range(0, len(missing), _LOGS_PER_STEP):
            await self._create(topic, missing[first : first + _LOGS_PER_STEP], config, is_new)

    def _find_log(
        self, topic: TopicState, state: PartitionState, is_new: bool
    ) -> PartitionLog | None:
        """The partition's log, if it exists already."""
        log = self._logs.get(topic.name, state.index)
        while log is not None:
            if log.topic_id == topic.topic_id or (log.topic_id == _NO_ID and not is_new):
                return log
            # The log of another topic of this name: a deleted one whose folder could not be
            # removed, or a restored one.
            self._logs.move_aside(topic.name, state.index)
            log = self._logs.get(topic.name, state.index)
        return None

    async def _create(
        self, topic: TopicState, states: Sequence[PartitionState], config: LogConfig, is_new: bool
    ) -> None:
        indexes = [state.index for state in states]
        create = functools.partial(self._logs.create_all, is_new=is_new)
        logs = await self._blocking(create, topic.name, indexes, topic.topic_id, config)
        made_anew: dict[int, PartitionLog] = {}
        for state, log in zip(states, logs, strict=True):
            if isinstance(log, KafkaError):
                self._go_offline(topic, state, log)
            elif is_new or state.leader != self._config.node_id:
                self._assume(topic, state, log)
            else:
                self._say_made_anew(log, state)
                made_anew[state.index] = log
        await self._serve_in_new_epochs(topic, made_anew)

    def _say_made_anew(self, log: PartitionLog, state: PartitionState) -> None:
        _log.warning(
            "%s had no log, and this broker leads it%s: it begins anew at 0, and what was in it "
            "is lost",
            log.name,
            "" if len(state.replicas) > 1 else ", as the only replica",
        )

    async def _serve_in_new_epochs(self, topic: TopicState, logs: dict[int, PartitionLog]) -> None:
        """Serve partitions whose logs may have lost records that consumers have read."""
        if not logs:
            return
        failure = None
        try:
            await self._metadata.advance_leader_epochs(
                {PartitionId(topic.topic_id, index) for index in logs}
            )
            current = self._image.topics_by_id.get(topic.topic_id)
            if current is None:
                return  # deleted meanwhile; the deletion is applied next
            lossy = {index: log for index, log in logs.items() if log.epoch_due_at is not None}
            for index, log in lossy.items():
                log.start_leader_epoch(current.partitions[index].leader_epoch)
                await give_way()
            await self._blocking(close_losses, lossy.values())
        except KafkaError as error:
            failure = error
        current = self._image.topics_by_id.get(topic.topic_id)
        if current is None:
            return
        for index, log in logs.items():
            if failure is None:
                self._assume(current, current.partitions[index], log)
            else:
                self._go_offline(current, current.partitions[index], failure)
            await give_way()

    # -- roles -------------------------------------------------------------------------

    def _assume(self, topic: TopicState, state: PartitionState, log: PartitionLog) -> None:
        """Lead or follow the partition, which this broker does not lead yet."""
        log.is_unserved = False
        try:
            if log.topic_id == _NO_ID:
                log.write_topic_id(topic.topic_id)
            if state.leader == self._config.node_id:
                self._lead(topic, state, log)
            else:
                self._follow(topic, state, log)
        except KafkaError as error:
            self._go_offline(topic, state, error)

    def _lead(self, topic: TopicState, state: PartitionState, log: PartitionLog) -> None:
        self._followers.forget(topic.name, state.index)
        self._partitions.add(Partition(log, state, self._leading))
        self._tell_coordinator(topic, state)

    def _lead_on(self, topic: TopicState, state: PartitionState, partition: Partition) -> None:
        if state.leader_epoch > partition.leader_epoch:
            partition.begin_leader_epoch(state)
        else:
            partition.agreed(state)
        self._tell_coordinator(topic, state)  # if it could not load before, it tries again

    def _follow(self, topic: TopicState, state: PartitionState, log: PartitionLog) -> None:
        # The leader has the records that this log may have lost. Without a leader, this broker may
        # become it.
        if log.epoch_due_at is not None and state.leader != NO_LEADER:
            log.truncate_to(log.epoch_due_at)
            log.epoch_due_at = None
        self._followers.follow(topic, state, log)

    def _stop(self, topic: str, index: int) -> None:
        """Stop leading or following a partition."""
        coordinator = self._coordinators.get(topic)
        if coordinator is not None:
            coordinator.resign(index)
        self._followers.forget(topic, index)
        self._partitions.remove(topic, index)

    def _delete_moved(self, topic: TopicState, state: PartitionState) -> None:
        """Delete the log of a partition whose replicas are on other brokers now.

        The metadata must have a later leader epoch than the log, or else might be an old copy. And
        the partition must have a leader, or else this log may be the last replica.
        """
        log = self._logs.get(topic.name, state.index)
        if (
            log is not None
            and log.topic_id == topic.topic_id
            and state.leader != NO_LEADER
            and state.leader_epoch > log.leader_epochs.latest_epoch
        ):
            _log.info("%s is deleted: its replicas are %s now", log.name, list(state.replicas))
            self._logs.delete(topic.name, state.index)

    def _tell_coordinator(self, topic: TopicState, state: PartitionState) -> None:
        coordinator = self._coordinators.get(topic.name)
        if coordinator is not None:
            coordinator.become_leader(state.index, state.leader_epoch)

    def _go_offline(self, topic: TopicState, state: PartitionState, error: KafkaError) -> None:
        if not self._partitions.is_offline(topic.name, state.index):
            _log.error("%s-%d is offline: %s", topic.name, state.index, error)
            self._partitions.add_offline(topic.name, state.index)

    async def _drop(self, topic: TopicState, *, keeps_records: bool) -> None:
        for state in topic.partitions:
            self._stop(topic.name, state.index)
            await give_way()
        if not keeps_records:
            for coordinator in self._coordinators.values():
                coordinator.topic_deleted(topic.name, topic.topic_id)
        for state in topic.partitions:
            self._logs.wanted_places.pop((topic.name, state.index), None)
            log = self._logs.get(topic.name, state.index)
            if log is not None and log.topic_id in (topic.topic_id, _NO_ID):
                let_go = self._logs.move_aside if keeps_records else self._logs.delete
                let_go(topic.name, state.index)
            await give_way()

    # -- configuration -----------------------------------------------------------------

    async def _configure(self, topic: str) -> None:
        state = self._image.topics.get(topic)
        if state is None:
            return
        config = self.log_config(topic)
        for each in state.partitions:
            log = self._logs.get(topic, each.index)
            if log is not None:
                log.config = config
            await give_way()

    async def _configure_broker(self) -> None:
        take_over_stored_configs(self._config, self._image)
        for topic in list(self._image.topics):
            await self._configure(topic)
            await asyncio.sleep(0)
