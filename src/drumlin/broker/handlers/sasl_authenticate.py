"""SaslAuthenticate (key 36), versions 0-2, without a login in progress: always an error.

`broker/login/dispatcher.py` answers it while a peer logs in.
"""

from __future__ import annotations

from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

_MESSAGE: Final = "SaslAuthenticate request received after successful authentication"


async def handle(_: RequestContext, __: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.illegal_sasl_state, error_message=_MESSAGE, auth_bytes=b""
    )
