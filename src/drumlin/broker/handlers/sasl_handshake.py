"""SaslHandshake (key 17), versions 0-1, where no login is possible: always an error.

`broker/login/dispatcher.py` answers it while a peer logs in.
"""

from __future__ import annotations

from drumlin.broker.context import RequestContext
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


async def handle(_: RequestContext, __: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state)
