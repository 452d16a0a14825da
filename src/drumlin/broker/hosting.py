"""What this broker hosts: carries changes of the metadata over into logs and partitions.

The metadata says which partitions there are and who leads them; this module makes it so on
this broker. It is the only place where logs are created and deleted.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final
from uuid import UUID

from drumlin.config.topic import log_config
from drumlin.coordination.group_coordinator import OFFSETS_TOPIC
from drumlin.metadata.changes import (
    Change,
    ConfigsChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from drumlin.metadata.image import PartitionState, Resource, ResourceType, TopicState
from drumlin.replication.partition import Partition
from drumlin.wire.errors import KafkaError

if TYPE_CHECKING:
    from drumlin.config.broker import BrokerConfig
    from drumlin.config.topic import LogConfig
    from drumlin.coordination.group_coordinator import GroupCoordinator
    from drumlin.metadata.image import ClusterImage
    from drumlin.replication.partition import PartitionRegistry
    from drumlin.storage.log_directories import LogDirectories

_log = logging.getLogger(__name__)
_NO_ID: Final = UUID(int=0)


class Hosting:
    """Keeps logs and partitions in step with the metadata."""

    def __init__(
        self,
        config: BrokerConfig,
        image: ClusterImage,
        logs: LogDirectories,
        partitions: PartitionRegistry,
        groups: GroupCoordinator,
    ) -> None:
        self._config = config
        self._image = image
        self._logs = logs
        self._partitions = partitions
        self._groups = groups

    def host_all(self) -> None:
        """Serve every partition that the metadata gives us and that we do not serve yet.

        At the start of a broker, and when a log dir has come back.
        """
        for topic in self._image.topics.values():
            config = self.log_config(topic.name)
            for state in topic.partitions:
                if self._partitions.find(topic.name, state.index) is None:
                    self._host(topic, state, config, is_new=False)
        for log in self._logs:
            if self._partitions.find(log.topic, log.partition) is None:
                _log.warning("%s is not in the metadata; it is left alone, unserved", log.path)

    def on_change(self, change: Change) -> None:
        """Follow one change of the metadata."""
        match change:
            case TopicCreated(topic):
                self._host_partitions(topic, topic.partitions)
            case PartitionsAdded(topic, partitions):
                self._host_partitions(topic, partitions)
            case TopicDeleted(topic):
                self._drop(topic)
            case ConfigsChanged(resource) if resource.type is ResourceType.TOPIC:
                self._configure(resource.name)
            case ConfigsChanged(resource) if resource.type is ResourceType.BROKER:
                self._configure_broker()

    def log_config(self, topic: str) -> LogConfig:
        """A topic's configuration as it is now."""
        return log_config(self._image.topic_configs(topic), self._config.topic_defaults())

    # -- partitions --------------------------------------------------------------------

    def _host_partitions(self, topic: TopicState, states: tuple[PartitionState, ...]) -> None:
        config = self.log_config(topic.name)
        for state in states:
            self._host(topic, state, config, is_new=True)

    def _host(
        self, topic: TopicState, state: PartitionState, config: LogConfig, *, is_new: bool
    ) -> None:
        if state.leader != self._config.node_id:
            return
        log = self._logs.get(topic.name, state.index)
        if log is not None and log.topic_id not in (topic.topic_id, _NO_ID):
            # A topic of the same name that was deleted while its folder could not be.
            self._logs.delete(topic.name, state.index)
            log = None
        try:
            if log is None:
                log = self._logs.create(
                    topic.name, state.index, topic.topic_id, config, is_new=is_new
                )
            elif log.topic_id == _NO_ID:
                log.write_topic_id(topic.topic_id)
        except KafkaError as error:
            _log.error("%s-%d cannot be hosted: %s", topic.name, state.index, error)
            return
        log.start_leader_epoch(state.leader_epoch)
        self._partitions.add(
            Partition(log, state.leader_epoch, len(state.replicas), len(state.isr))
        )
        if topic.name == OFFSETS_TOPIC:
            self._groups.become_leader(state.index, state.leader_epoch)

    def _drop(self, topic: TopicState) -> None:
        for state in topic.partitions:
            if topic.name == OFFSETS_TOPIC:
                self._groups.resign(state.index)
            self._partitions.remove(topic.name, state.index)
            self._logs.delete(topic.name, state.index)
        self._groups.topic_deleted(topic.name, topic.topic_id)

    # -- configuration -----------------------------------------------------------------

    def _configure(self, topic: str) -> None:
        state = self._image.topics.get(topic)
        if state is None:
            return
        config = self.log_config(topic)
        for each in state.partitions:
            log = self._logs.get(topic, each.index)
            if log is not None:
                log.config = config

    def _configure_broker(self) -> None:
        everyone = Resource(ResourceType.BROKER, "")
        this_one = Resource(ResourceType.BROKER, str(self._config.node_id))
        image = self._image
        self._config.update_dynamic(image.configs(everyone), image.configs(this_one))
        for topic in self._image.topics:
            self._configure(topic)
