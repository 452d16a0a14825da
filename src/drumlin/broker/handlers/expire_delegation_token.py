"""ExpireDelegationToken (key 40), versions 1-2: the end of a token. See `unsecured.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.unsecured import NO_TIME, no_tokens
from drumlin.wire.messages import ZERO, Shape

if TYPE_CHECKING:
    from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
    from kio.schema.expire_delegation_token.v2.response import ExpireDelegationTokenResponse


async def handle(
    _: RequestContext, __: ExpireDelegationTokenRequest, shape: Shape
) -> ExpireDelegationTokenResponse:
    return shape(
        "ExpireDelegationTokenResponse",
        throttle_time=ZERO,
        error_code=no_tokens(),
        expiry_timestamp=NO_TIME,
    )
