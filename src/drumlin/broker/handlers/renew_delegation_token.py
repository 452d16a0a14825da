"""RenewDelegationToken (key 39), versions 1-2: extend the life of a token. See `unsecured.py`."""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.unsecured import NO_TIME, no_tokens
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


async def handle(
    _: RequestContext, __: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        throttle_time=ZERO,
        error_code=no_tokens(),
        expiry_timestamp=NO_TIME,
    )
