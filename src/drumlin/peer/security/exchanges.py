"""The exchange of messages in a client's login, for each SASL mechanism. No I/O."""

from __future__ import annotations

from typing import Protocol

from drumlin.peer.peer_error import AuthenticationFailed
from drumlin.peer.security.settings import Plain, revealed

_END_OF_FAILURE = b"\x01"


class Exchange(Protocol):
    """One login: call `first`, then `answer` until it returns None."""

    @property
    def mechanism(self) -> str:
        """The name of the SASL mechanism."""

    def first(self) -> bytes:
        """The first message."""

    def answer(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge; None at the end. Slow, so it must not run in the event loop.

        Raises:
            AuthenticationFailed: the broker violates the protocol.
        """


class PlainExchange:
    """PLAIN (RFC 4616): a single message with user name and password."""

    mechanism = "PLAIN"

    def __init__(self, login: Plain) -> None:
        self._message = f"\0{login.username}\0{revealed(login.password)}".encode()

    def first(self) -> bytes:
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise AuthenticationFailed("the broker continues after the end of PLAIN")
        return None


class BearerExchange:
    """OAUTHBEARER (RFC 7628): a token; a broker that rejects it first gives the reason."""

    mechanism = "OAUTHBEARER"

    def __init__(self, token: str, extensions: tuple[tuple[str, str], ...] = ()) -> None:
        pairs = "".join(f"{name}={value}\x01" for name, value in extensions)
        self._message = f"n,,\x01auth=Bearer {token}\x01{pairs}\x01".encode()
        self._is_refused = False

    def first(self) -> bytes:
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        if self._is_refused:
            raise AuthenticationFailed("the broker does not take the token")
        if not challenge:
            return None
        self._is_refused = True
        return _END_OF_FAILURE
