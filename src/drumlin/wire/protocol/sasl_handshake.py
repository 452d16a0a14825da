"""SaslHandshake (key 17), versions 0 to 1."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message


@message
class SaslHandshakeRequest:
    mechanism: str


@message
class SaslHandshakeResponse:
    error_code: ErrorCode
    mechanisms: tuple[str, ...] = ()
