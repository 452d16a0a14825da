"""ExpireDelegationToken (key 40), versions 1-2: end a token, at once or later (KIP-48)."""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.broker.login.delegation_tokens import ended
from drumlin.broker.several_apis.token_requests import change, milliseconds
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


async def handle(
    context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    principal, period_ms = context.session.principal, milliseconds(request.expiry_time_period)
    code, ends_at = await change(
        context, request.hmac, lambda token, now_ms: ended(token, principal, period_ms, now_ms)
    )
    return ExpireDelegationTokenResponse(
        throttle_time=ZERO, error_code=code, expiry_timestamp=ends_at
    )
