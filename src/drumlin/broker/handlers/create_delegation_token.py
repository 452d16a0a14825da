"""CreateDelegationToken (key 38), versions 1-3: a token for the user who has logged in. See
`unsecured.py`.

Version 3 can name another owner.
"""

from __future__ import annotations

from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.unsecured import ANONYMOUS, NO_TIME, no_tokens
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

_WITH_OWNER: Final = 3


async def handle(
    context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    requester_type, requester_name = ANONYMOUS
    owner_type, owner_name = ANONYMOUS
    if context.version >= _WITH_OWNER and request.owner_principal_name:
        owner_type, owner_name = request.owner_principal_type or "", request.owner_principal_name
    return CreateDelegationTokenResponse(
        error_code=no_tokens(),
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=NO_TIME,
        expiry_timestamp=NO_TIME,
        max_timestamp=NO_TIME,
        token_id="",
        hmac=b"",
        throttle_time=ZERO,
    )
