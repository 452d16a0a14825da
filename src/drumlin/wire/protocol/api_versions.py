"""ApiVersions (key 18), versions 0 to 4."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Tag, Versions, message
from drumlin.wire.schema.types import ZERO, Int16, Int64, Milliseconds32


@message
class ApiVersionsRequest:
    client_software_name: Annotated[str, Versions(3)] = ""
    client_software_version: Annotated[str, Versions(3)] = ""


@message
class ApiVersion:
    api_key: Int16
    min_version: Int16
    max_version: Int16


@message
class SupportedFeatureKey:
    name: str
    min_version: Int16
    max_version: Int16


@message
class FinalizedFeatureKey:
    name: str
    max_version_level: Int16
    min_version_level: Int16


@message
class ApiVersionsResponse:
    error_code: ErrorCode
    api_keys: tuple[ApiVersion, ...]
    throttle_time: Annotated[Milliseconds32, Versions(1)] = ZERO
    supported_features: Annotated[tuple[SupportedFeatureKey, ...], Versions(3), Tag(0)] = ()
    finalized_features_epoch: Annotated[Int64, Versions(3), Tag(1)] = -1
    finalized_features: Annotated[tuple[FinalizedFeatureKey, ...], Versions(3), Tag(2)] = ()
    zk_migration_ready: Annotated[bool, Versions(3), Tag(3)] = False
