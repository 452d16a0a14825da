"""DescribeDelegationToken (key 41), versions 1-3: the tokens of owners. See `unsecured.py`."""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.unsecured import no_tokens
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


async def handle(
    _: RequestContext, __: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(throttle_time=ZERO, error_code=no_tokens(), tokens=())
