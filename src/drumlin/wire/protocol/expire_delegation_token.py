"""ExpireDelegationToken (key 40), versions 1 to 2."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Milliseconds32, Milliseconds64, Moment


@message
class ExpireDelegationTokenRequest:
    hmac: bytes
    expiry_time_period: Milliseconds64


@message
class ExpireDelegationTokenResponse:
    error_code: ErrorCode
    expiry_timestamp: Moment
    throttle_time: Milliseconds32
