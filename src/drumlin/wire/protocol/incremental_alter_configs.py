"""IncrementalAlterConfigs (key 44), versions 0 to 1."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int8, Milliseconds32


@message
class AlterableConfig:
    name: str
    config_operation: Int8
    value: str | None


@message
class AlterConfigsResource:
    resource_type: Int8
    resource_name: str
    configs: tuple[AlterableConfig, ...]


@message
class IncrementalAlterConfigsRequest:
    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool


@message
class AlterConfigsResourceResponse:
    error_code: ErrorCode
    error_message: str | None
    resource_type: Int8
    resource_name: str


@message
class IncrementalAlterConfigsResponse:
    throttle_time: Milliseconds32
    responses: tuple[AlterConfigsResourceResponse, ...]
