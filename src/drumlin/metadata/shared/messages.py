"""The names of the messages between a broker and the process that owns the store.

The first names are requests that a broker sends, the rest are notifications that a broker gets.
"""

from __future__ import annotations

from typing import Final

from drumlin.metadata.image import Resource, ResourceType

REGISTER: Final = "register"
ELECT_LEADERS: Final = "elect leaders"
REASSIGN: Final = "reassign"
LEAVE_ISRS: Final = "leave isrs"
HAND_OVER: Final = "hand over"
NOTE_ADOPTED: Final = "note adopted"
CREATE_TOPIC: Final = "create topic"
ADD_PARTITIONS: Final = "add partitions"
PARTITION_COUNT: Final = "partition count"
DELETE_TOPIC: Final = "delete topic"
NOTE_FOLDERS: Final = "note folders"
ADVANCE_ALL: Final = "advance all"
ADVANCE: Final = "advance"
ALTER_ISRS: Final = "alter isrs"
ALTER_CONFIGS: Final = "alter configs"
PRODUCER_IDS: Final = "producer ids"

SNAPSHOT: Final = "snapshot"
TOPIC_CREATED: Final = "topic created"
TOPIC_DELETED: Final = "topic deleted"
PARTITIONS_ADDED: Final = "partitions added"
PARTITIONS_CHANGED: Final = "partitions changed"
BROKERS_CHANGED: Final = "brokers changed"
CONFIGS_CHANGED: Final = "configs changed"


def topic_resource(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)
