"""OAUTHBEARER (RFC 7628): a login by a token from another server, which a validator checks.

A token that is refused is answered with a challenge, as the RFC says; the peer answers that with
one byte, and then the login fails with the same text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from drumlin.broker.login.mechanisms.exchange import Accepted, LoginRefused

MECHANISM: Final = "OAUTHBEARER"
#: Real tokens have one to eight thousand bytes.
_TOKEN_BYTES_MAX: Final = 64 * 1024
_FIRST: Final = re.compile(
    rb"n,(?:a=(?P<other>(?:[^=,\x00]|=2C|=3D)+))?,\x01"
    rb"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)+)\x01"
)
_BEARER: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +(?P<token>[-_.A-Za-z0-9~+/=]+) *")
_AUTH: Final = "auth"


class TokenRefused(Exception):
    """A token is not valid; the message is for logs only, as it may reveal what is expected."""


class Bearer(NamedTuple):
    """The claims of a valid token."""

    name: str
    lifetime_ms: int


#: Validates a token; raises `TokenRefused`.
Validate = Callable[[str], Awaitable[Bearer]]


class OAuthBearerExchange:
    """One login."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._challenge: str | None = None
        self._why: str | None = None

    def take(self, token: bytes) -> Awaitable[bytes | Accepted]:
        if self._challenge is not None:
            raise LoginRefused(self._challenge, why=self._why)
        matched = _FIRST.fullmatch(token) if len(token) <= _TOKEN_BYTES_MAX else None
        if matched is None:
            raise LoginRefused("Authentication failed: invalid OAUTHBEARER client first message")
        pairs: dict[str, str] = {}
        for pair in matched["pairs"].split(b"\x01")[:-1]:
            key, _, value = pair.decode().partition("=")
            if key in pairs:
                raise LoginRefused(f"Authentication failed: {key} is given twice")
            pairs[key] = value
        bearer = _BEARER.fullmatch(pairs.get(_AUTH, ""))
        if bearer is None:
            raise LoginRefused("Authentication failed: there is no bearer token")
        other = (matched["other"] or b"").decode("utf-8", "replace")
        return self._end(bearer["token"], other.replace("=2C", ",").replace("=3D", "="))

    async def _end(self, token: str, other: str) -> bytes | Accepted:
        try:
            bearer = await self._validate(token)
        except TokenRefused as refusal:
            self._why = str(refusal)
            self._challenge = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            return self._challenge.encode()
        if other and other != bearer.name:
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different "
                "from the token's principal name"
            )
        return Accepted(b"", bearer.name, lifetime_ms=bearer.lifetime_ms)
