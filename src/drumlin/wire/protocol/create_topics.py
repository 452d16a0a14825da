"""CreateTopics (key 19), versions 2 to 7."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Tag, Versions, message
from drumlin.wire.schema.types import Int8, Int16, Int32, Milliseconds32


@message
class CreatableReplicaAssignment:
    partition_index: Int32
    broker_ids: tuple[Int32, ...] = ()


@message
class CreatableTopicConfig:
    name: str
    value: str | None


@message
class CreatableTopic:
    name: str
    num_partitions: Int32
    replication_factor: Int16
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]


@message
class CreateTopicsRequest:
    topics: tuple[CreatableTopic, ...]
    timeout: Milliseconds32 = timedelta(milliseconds=60000)
    validate_only: bool = False


@message
class CreatableTopicConfigs:
    name: str
    value: str | None
    read_only: bool
    config_source: Int8 = -1
    is_sensitive: bool


@message
class CreatableTopicResult:
    name: str
    topic_id: Annotated[UUID | None, Versions(7)] = None
    error_code: ErrorCode
    error_message: str | None
    topic_config_error_code: Annotated[Int16, Versions(5), Tag(0)] = 0
    num_partitions: Annotated[Int32, Versions(5)] = -1
    replication_factor: Annotated[Int16, Versions(5)] = -1
    configs: Annotated[tuple[CreatableTopicConfigs, ...] | None, Versions(5)] = None


@message
class CreateTopicsResponse:
    throttle_time: Milliseconds32
    topics: tuple[CreatableTopicResult, ...]
