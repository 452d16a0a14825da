"""ExpireDelegationToken (key 40), versions 1-2: expire a token. See `unsecured.py`."""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.unsecured import NO_TIME, no_tokens
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


async def handle(
    _: RequestContext, __: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(
        throttle_time=ZERO,
        error_code=no_tokens(),
        expiry_timestamp=NO_TIME,
    )
