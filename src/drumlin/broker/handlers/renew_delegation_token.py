"""RenewDelegationToken (key 39), versions 1-2: extend the life of a token (KIP-48)."""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.several_apis.token_requests import change, milliseconds
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


async def handle(
    context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    tokens = context.broker.delegation_tokens
    principal, period_ms = context.session.principal, milliseconds(request.renew_period)
    code, ends_at = await change(
        context,
        request.hmac,
        lambda token, now_ms: tokens.renewed(token, principal, period_ms, now_ms),
    )
    return RenewDelegationTokenResponse(
        throttle_time=ZERO, error_code=code, expiry_timestamp=ends_at
    )
