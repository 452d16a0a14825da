"""The login of a connection: SaslHandshake, then SaslAuthenticate until both sides are done.

KIP-43 and KIP-152. The exchange decides on the contents of SASL messages; this module wraps them in
Kafka's requests, and interprets the broker's refusals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from drumlin.peer.peer_error import AuthenticationFailed
from drumlin.peer.security.access import Access
from drumlin.peer.security.exchanges import Exchange
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.sasl_authenticate import SaslAuthenticateRequest
from drumlin.wire.protocol.sasl_handshake import SaslHandshakeRequest
from drumlin.wire.schema.declaration import Message

#: Sends a request ahead of all others, and waits for the answer.
Ask = Callable[[str, Message], Awaitable[Any]]


async def log_in(ask: Ask, access: Access, exchange: Exchange, where: str) -> float:
    """Log in; returns the lifetime of the login in seconds, 0 if it does not expire.

    Raises:
        AuthenticationFailed: one side rejects the other's identity.
        PeerError, KafkaError: the broker cannot decide at the moment.
    """
    response = await ask("sasl_handshake", SaslHandshakeRequest(mechanism=exchange.mechanism))
    _check_handshake(response, exchange.mechanism, where)
    message: bytes | None = exchange.first()
    lifetime_s = 0.0
    while message is not None:
        answer = await ask("sasl_authenticate", SaslAuthenticateRequest(auth_bytes=message))
        _check(answer, access, exchange, where)
        lifetime_s = max(answer.session_lifetime.total_seconds(), 0.0)
        try:
            message = await asyncio.to_thread(exchange.answer, answer.auth_bytes)
        except AuthenticationFailed as error:
            access.refused()
            raise _failed(access, exchange, where, access.without_secrets(str(error))) from None
    return lifetime_s


def _check_handshake(response: Any, mechanism: str, where: str) -> None:
    code = response.error_code
    if code is ErrorCode.none:
        return
    if code is ErrorCode.unsupported_sasl_mechanism:
        names = (each[:40] for each in response.mechanisms[:20] if each.isprintable())
        offered = ", ".join(sorted(names)) or "nothing"
        raise AuthenticationFailed(f"{where}: it does not offer {mechanism}, but {offered}")
    if code is ErrorCode.illegal_sasl_state:
        raise AuthenticationFailed(
            f"{where}: it has no login; it wants security.protocol PLAINTEXT or SSL"
        )
    raise KafkaError(code, f"{where}: sasl_handshake")


def _check(answer: Any, access: Access, exchange: Exchange, where: str) -> None:
    if answer.error_code is ErrorCode.none:
        return
    access.refused()
    reason = access.without_secrets(answer.error_message or answer.error_code.name)
    if answer.error_code.retriable:
        raise KafkaError(answer.error_code, f"{where}: sasl_authenticate: {reason}")
    raise _failed(access, exchange, where, reason)


def _failed(access: Access, exchange: Exchange, where: str, reason: str) -> AuthenticationFailed:
    failed = f"{access.user} cannot log in with {exchange.mechanism}"
    return AuthenticationFailed(f"{where}: {failed}: {reason}")
