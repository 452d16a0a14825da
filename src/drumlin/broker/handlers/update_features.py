"""UpdateFeatures (key 57), versions 0-2: other levels of features (KIP-584). See `features.py`.

All updates succeed, or the first that does not is told of, and none counts.

Version notes: 1 says how an update may lower a level, in place of whether it may, and can only
validate; 2 answers no more for each feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drumlin.broker.apis.features import UPGRADE, check_update
from drumlin.broker.context import RequestContext
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

if TYPE_CHECKING:
    from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
    from kio.schema.update_features.v2.response import UpdateFeaturesResponse

_SAFE_DOWNGRADE: Final = 2


async def handle(
    _: RequestContext, request: UpdateFeaturesRequest, shape: Shape
) -> UpdateFeaturesResponse:
    code, message = ErrorCode.none, None
    for each in request.feature_updates:
        try:
            check_update(each.feature, each.max_version_level, _type_of(each))
        except KafkaError as error:
            code, message = error.code, error.message
            break
        await give_way()
    results = []
    if code is ErrorCode.none and shape.has("UpdatableFeatureResult"):
        for each in request.feature_updates:
            name = each.feature
            result = shape(
                "UpdatableFeatureResult", feature=name, error_code=code, error_message="NONE"
            )
            results.append(result)
            await give_way()
    return shape(
        "UpdateFeaturesResponse",
        throttle_time=ZERO,
        error_code=code,
        error_message=message,
        results=tuple(results),
    )


def _type_of(update: FeatureUpdateKey) -> int:
    if getattr(update, "allow_downgrade", False):
        return _SAFE_DOWNGRADE
    upgrade_type: int = getattr(update, "upgrade_type", UPGRADE)
    return upgrade_type
