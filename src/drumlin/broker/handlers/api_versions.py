"""ApiVersions (key 18), versions 0-4: the APIs and versions that this broker serves.

- An unknown version is answered in version 0 with UNSUPPORTED_VERSION and the versions of
  this API alone, so that the client can ask again (KIP-511).
- From version 3 the client names its software; a malformed name is INVALID_REQUEST.
- Version 3 lists features (KIP-584). Version 4 also lists those with a minimum level of 0, which
  clients of version 3 cannot read.
- Produce is advertised from version 0, though served from 3 only: librdkafka before 2.x
  concludes from a higher minimum that it may not compress (KAFKA-18659). Apache Kafka does
  the same.
- The APIs of telemetry are advertised where metrics are served, in Kafka where a plugin takes them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from drumlin.broker.apis.features import FEATURES, FINALIZED_EPOCH, LEVEL_0_FROM_VERSION
from drumlin.broker.apis.served import SERVED
from drumlin.broker.context import RequestContext
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import API_KEYS, ZERO
from drumlin.wire.protocol.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_NO_EPOCH: Final = -1
_SOFTWARE_FROM: Final = 3
_FEATURES_FROM: Final = 3
_API: Final = "api_versions"
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
#: Characters that a connection keeps of each.
_SOFTWARE_MAX: Final = 250
_PRODUCE_ADVERTISED_FROM: Final = 0
_ALL: Final = frozenset(SERVED)
_WITHOUT_TELEMETRY: Final = _ALL - {"get_telemetry_subscriptions", "push_telemetry"}


async def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.version >= _SOFTWARE_FROM:
        software = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(part) for part in software):
            return _response(context.version, ErrorCode.invalid_request, advertised=())
        name, version = software
        context.connection.software = name[:_SOFTWARE_MAX], version[:_SOFTWARE_MAX]
    advertised = _ALL if context.broker.telemetry.is_wanted else _WITHOUT_TELEMETRY
    return _response(context.version, ErrorCode.none, advertised)


def unsupported_version() -> ApiVersionsResponse:
    """The answer, in version 0, to an unknown version of ApiVersions."""
    return _response(0, ErrorCode.unsupported_version, advertised=(_API,))


def _response(
    version: int, error_code: ErrorCode, advertised: Collection[str]
) -> ApiVersionsResponse:
    served = sorted((API_KEYS[name], *SERVED[name]) for name in advertised)
    api_keys = tuple(
        ApiVersion(
            api_key=key,
            min_version=_PRODUCE_ADVERTISED_FROM if key == API_KEYS["produce"] else lowest,
            max_version=highest,
        )
        for key, lowest, highest in served
    )
    tells_features = error_code is ErrorCode.none and version >= _FEATURES_FROM
    return ApiVersionsResponse(
        error_code=error_code,
        api_keys=api_keys,
        throttle_time=ZERO,
        supported_features=_supported(version) if tells_features else (),
        finalized_features_epoch=FINALIZED_EPOCH if tells_features else _NO_EPOCH,
        finalized_features=_finalized() if tells_features else (),
    )


def _supported(version: int) -> tuple[SupportedFeatureKey, ...]:
    return tuple(
        SupportedFeatureKey(
            name=each.name,
            min_version=each.lowest,
            max_version=each.highest,
        )
        for each in FEATURES
        if each.lowest > 0 or version >= LEVEL_0_FROM_VERSION
    )


def _finalized() -> tuple[FinalizedFeatureKey, ...]:
    return tuple(
        FinalizedFeatureKey(
            name=each.name,
            max_version_level=each.highest,
            min_version_level=each.highest,
        )
        for each in FEATURES
    )
