"""UpdateFeatures (key 57), versions 0 to 2."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import Int8, Int16, Milliseconds32


@message
class FeatureUpdateKey:
    feature: str
    max_version_level: Int16
    allow_downgrade: Annotated[bool, Versions(0, 0)] = False
    upgrade_type: Annotated[Int8, Versions(1)] = 1


@message
class UpdateFeaturesRequest:
    timeout: Milliseconds32 = timedelta(milliseconds=60000)
    feature_updates: tuple[FeatureUpdateKey, ...]
    validate_only: Annotated[bool, Versions(1)] = False


@message
class UpdatableFeatureResult:
    feature: str
    error_code: ErrorCode
    error_message: str | None


@message
class UpdateFeaturesResponse:
    throttle_time: Milliseconds32
    error_code: ErrorCode
    error_message: str | None
    results: Annotated[tuple[UpdatableFeatureResult, ...], Versions(0, 1)] = ()
