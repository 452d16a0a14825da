"""RenewDelegationToken (key 39), versions 1 to 2."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Milliseconds32, Milliseconds64, Moment


@message
class RenewDelegationTokenRequest:
    hmac: bytes
    renew_period: Milliseconds64


@message
class RenewDelegationTokenResponse:
    error_code: ErrorCode
    expiry_timestamp: Moment
    throttle_time: Milliseconds32
