"""UpdateFeatures (key 57), versions 0-2: change the levels of features (KIP-584). See
`features.py`.

All updates succeed, or the first error is returned and none takes effect.

Version notes: 1 replaces `allow_downgrade` by a type of update, and adds `validate_only`; 2 no
longer has results for single features.
"""

from __future__ import annotations

from typing import Final

from drumlin.broker.apis.features import check_update
from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Operation
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_SAFE_DOWNGRADE: Final = 2
_RESULTS_UP_TO: Final = 1


async def handle(context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    context.require_cluster(Operation.ALTER)
    code, message = ErrorCode.none, None
    for each in request.feature_updates:
        try:
            check_update(each.feature, each.max_version_level, _type_of(each))
        except KafkaError as error:
            code, message = error.code, error.message
            break
        await give_way()
    results = []
    if code is ErrorCode.none and context.version <= _RESULTS_UP_TO:
        for each in request.feature_updates:
            name = each.feature
            result = UpdatableFeatureResult(feature=name, error_code=code, error_message="NONE")
            results.append(result)
            await give_way()
    return UpdateFeaturesResponse(
        throttle_time=ZERO,
        error_code=code,
        error_message=message,
        results=tuple(results),
    )


def _type_of(update: FeatureUpdateKey) -> int:
    return _SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
