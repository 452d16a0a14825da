"""The client's side of SCRAM (RFC 5802, RFC 7677): messages in, messages out. No I/O.

The broker, too, must prove that it knows the password. Its messages are bounded and checked before
anything is computed from them. As in Kafka, user names and passwords are sent as UTF-8 without
SASLprep.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import Final

from drumlin.peer.peer_error import AuthenticationFailed
from drumlin.peer.security.settings import Scram, revealed

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: The minimum in RFC 7677; fewer iterations make it easy to guess the password.
_ITERATIONS_MIN: Final = 4096
#: Kafka allows 16,384. A broker that demands more than this would keep our processor busy.
_ITERATIONS_MAX: Final = 1 << 18
_MESSAGE_BYTES_MAX: Final = 4096
_GS2_HEADER: Final = "n,,"  # no channel binding, no other identity
_FIRST: Final = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,10})(?:,.*)?")
_FINAL: Final = re.compile(r"v=([A-Za-z0-9+/=]+)(?:,.*)?")


class ScramExchange:
    """One login: call `first`, then `answer` until it returns None."""

    def __init__(self, login: Scram, nonce: str | None = None) -> None:
        self.mechanism = login.shown_as or login.mechanism
        self._hash = _HASHES[login.mechanism]
        self._password = revealed(login.password).encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        name = login.username.replace("=", "=3D").replace(",", "=2C")
        self._client_first = f"n={name},r={self._nonce}"
        self._server_signature: bytes | None = None
        self._is_over = False

    def first(self) -> bytes:
        """The first message."""
        return (_GS2_HEADER + self._client_first).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """The answer; None once both sides are authenticated. Slow with many iterations.

        Raises:
            AuthenticationFailed: the broker does not know the password, or violates the protocol.
        """
        if self._is_over:
            raise AuthenticationFailed("a message of SCRAM after the last one")
        self._is_over = True  # unless this is a valid first challenge
        if len(challenge) > _MESSAGE_BYTES_MAX:
            raise AuthenticationFailed(f"a message of SCRAM with {len(challenge)} bytes")
        try:
            text = challenge.decode()
        except UnicodeDecodeError:
            raise AuthenticationFailed("a message of SCRAM that is no text") from None
        if self._server_signature is None:
            answer = self._prove(text)
            self._is_over = False
            return answer
        self._check(text, self._server_signature)
        return None

    def _prove(self, server_first: str) -> bytes:
        matched = _FIRST.fullmatch(server_first)
        if matched is None:
            raise AuthenticationFailed("the broker's first message is not SCRAM")
        nonce, salt, iterations = matched[1], _from_base64(matched[2]), int(matched[3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("the broker's nonce does not continue ours")
        if not _ITERATIONS_MIN <= iterations <= _ITERATIONS_MAX:
            allowed = f"{_ITERATIONS_MIN} to {_ITERATIONS_MAX} are allowed"
            raise AuthenticationFailed(f"the broker asks for {iterations} iterations, {allowed}")
        channel = base64.b64encode(_GS2_HEADER.encode()).decode()
        unproved = f"c={channel},r={nonce}"
        auth_message = f"{self._client_first},{server_first},{unproved}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), auth_message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), auth_message)
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()

    def _check(self, server_final: str, signature: bytes) -> None:
        if server_final.startswith("e="):
            raise AuthenticationFailed(f"the broker refuses: {server_final[2:]}")
        matched = _FINAL.fullmatch(server_final)
        if matched is None:
            raise AuthenticationFailed("the broker does not prove that it knows the password")
        if not hmac.compare_digest(_from_base64(matched[1]), signature):
            raise AuthenticationFailed("the broker proves wrongly that it knows the password")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailed("a message of SCRAM with broken base64") from None
