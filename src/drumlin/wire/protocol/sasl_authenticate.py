"""SaslAuthenticate (key 36), versions 0 to 2."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.types import ZERO, Milliseconds64


@message
class SaslAuthenticateRequest:
    auth_bytes: bytes


@message
class SaslAuthenticateResponse:
    error_code: ErrorCode
    error_message: str | None
    auth_bytes: bytes
    session_lifetime: Annotated[Milliseconds64, Versions(1)] = ZERO
