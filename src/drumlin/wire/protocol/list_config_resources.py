"""ListConfigResources (key 74), versions 0 to 1."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import NEVER, NullFrom, Versions, message
from drumlin.wire.schema.types import Int8, Milliseconds32


@message
class ListConfigResourcesRequest:
    resource_types: Annotated[tuple[Int8, ...] | None, Versions(1), NullFrom(NEVER)] = None


@message
class ConfigResource:
    resource_name: str
    resource_type: Annotated[Int8, Versions(1)] = 16


@message
class ListConfigResourcesResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    config_resources: tuple[ConfigResource, ...]
