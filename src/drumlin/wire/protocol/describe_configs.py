"""DescribeConfigs (key 32), versions 1 to 4."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int8, Milliseconds32


@message
class DescribeConfigsResource:
    resource_type: Int8
    resource_name: str
    configuration_keys: tuple[str, ...] | None = ()


@message
class DescribeConfigsRequest:
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: Annotated[bool, Versions(3)] = False


@message
class DescribeConfigsSynonym:
    name: str
    value: str | None
    source: Int8


@message
class DescribeConfigsResourceResult:
    name: str
    value: str | None
    read_only: bool
    config_source: Int8 = -1
    is_sensitive: bool
    synonyms: tuple[DescribeConfigsSynonym, ...]
    config_type: Annotated[Int8, Versions(3)] = 0
    documentation: Annotated[str | None, Versions(3)] = None


@message
class DescribeConfigsResult:
    error_code: ErrorCode
    error_message: str | None
    resource_type: Int8
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...]


@message
class DescribeConfigsResponse:
    throttle_time: Milliseconds32
    results: tuple[DescribeConfigsResult, ...]
