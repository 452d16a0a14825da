"""The group coordinator's view of the metadata: topics, and the configuration of each group."""

from __future__ import annotations

import functools
from collections.abc import Collection
from uuid import UUID

from drumlin.broker.parts.parts import BrokerData
from drumlin.config.keys import group_keys
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.group_context import Topic
from drumlin.metadata.image import Resource, ResourceType, TopicState
from drumlin.metadata.store.changes import (
    Change,
    ConfigsChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)


class ImageTopics:
    """The topics of the broker's current image."""

    def __init__(self, broker: BrokerData) -> None:
        self._image = broker.metadata.image
        self.was_deleted = broker.metadata.was_deleted
        self.was_any_deleted = broker.metadata.was_any_deleted

    def by_name(self, name: str) -> Topic | None:
        return _seen(self._image.topics.get(name))

    def by_id(self, topic_id: UUID) -> Topic | None:
        return _seen(self._image.topics_by_id.get(topic_id))

    def names(self) -> Collection[str]:
        return self._image.topics.keys()


def group_setting(broker: BrokerData, group_id: str, key: str) -> int | str | bool:
    """A key of one group's configuration: its own value, or the broker's for all groups.

    If the broker has no such key, the group key's default is used.
    """
    text = broker.metadata.image.configs(Resource(ResourceType.GROUP, group_id)).get(key)
    if text is None:
        value = broker.config.__dict__.get(_broker_attribute(key))
        if value is not None:
            assert isinstance(value, int | str)
            return value
    declared = group_keys()[key]
    value = declared.parse(declared.default or "" if text is None else text)
    assert isinstance(value, int | str)
    return value


@functools.cache
def _broker_attribute(key: str) -> str:
    return f"group_{key.replace('.', '_')}"


def tell_groups(groups: GroupCoordinator, change: Change) -> None:
    """Notify the coordinator of changes that may lead to other assignments."""
    if isinstance(change, ConfigsChanged) and change.resource.type is ResourceType.ACL:
        groups.rights_changed()
    elif isinstance(change, TopicCreated | TopicDeleted | PartitionsAdded):
        groups.topic_changed(change.topic.name, is_new=isinstance(change, TopicCreated))


def _seen(topic: TopicState | None) -> Topic | None:
    return None if topic is None else Topic(topic.topic_id, topic.name, len(topic.partitions))
