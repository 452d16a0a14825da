"""Tokens for client credentials, from an OAuth 2.0 endpoint (RFC 6749, section 4.4).

Requests run in a thread. They must never follow redirects, which would send the secret elsewhere,
nor send the secret unencrypted to another machine. `abort` ends a request, no matter how slow the
endpoint is.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import SplitResult, urlencode, urlsplit

from drumlin.peer.peer_error import AuthenticationFailed, ConnectionLost
from drumlin.peer.security.claims import lifetime_of, seconds
from drumlin.peer.security.secret import Secret
from drumlin.peer.security.settings import OAuthBearer, SecurityOptionError, revealed
from drumlin.peer.security.tls import OF_TOKEN_ENDPOINT, context_of, explained

if TYPE_CHECKING:  # loaded by those who have an endpoint: every command waits for imports
    import http.client

_ANSWER_BYTES_MAX: Final = 1 << 20
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_PASSING: Final = frozenset({408, 425, 429})


class Token(NamedTuple):
    """A token; `lifetime_s` is None if neither the endpoint nor the token limits it."""

    text: str
    lifetime_s: float | None

    def __repr__(self) -> str:
        return f"Token(***, lifetime_s={self.lifetime_s})"


class TokenEndpoint:
    """An endpoint that issues tokens; each token needs a new `request`."""

    def __init__(self, login: OAuthBearer) -> None:
        assert login.token_endpoint is not None
        self._url = _checked(login.token_endpoint)
        self._login = login
        self._context = context_of(login.token_tls) if self._url.scheme == "https" else None

    def request(self, timeout_s: float) -> TokenRequest:
        """Create a request, without sending it."""
        import http.client

        host, port = self._url.hostname or "", self._url.port
        connection: http.client.HTTPConnection
        if self._context is None:
            connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        else:
            connection = http.client.HTTPSConnection(
                host, port, timeout=timeout_s, context=self._context
            )
        return TokenRequest(connection, self._url, self._login)


class TokenRequest:
    """One request to the endpoint. Call `send` in a thread, `abort` in any."""

    def __init__(
        self, connection: http.client.HTTPConnection, url: SplitResult, login: OAuthBearer
    ) -> None:
        self._connection = connection
        self._socket: socket.socket | None = None
        self._target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._login = login
        # The query of the URL is not shown.
        self._where = f"token endpoint {url.scheme}://{url.hostname}{url.path}"

    def send(self) -> Token:
        """Send the request, and wait for the token.

        Raises:
            AuthenticationFailed: the request was refused, or there is no token in the answer.
            ConnectionLost: the endpoint is unreachable or fails.
        """
        import http.client

        try:
            self._connection.connect()
            # http.client drops its socket when it knows that no other response follows.
            self._socket = self._connection.sock
            self._connection.request("POST", self._target, self._body(), self._headers())
            response = self._connection.getresponse()
            body = response.read(_ANSWER_BYTES_MAX)
        except OSError as error:
            if isinstance(error, ssl.SSLError):
                raise explained(error, self._where, OF_TOKEN_ENDPOINT) from None
            raise ConnectionLost(f"{self._where}: {error.strerror or error}") from None
        except http.client.HTTPException as error:
            raise ConnectionLost(f"{self._where}: {type(error).__name__}") from None
        finally:
            self._connection.close()
        return self._token(response.status, body)

    def abort(self) -> None:
        """End the request now, at any stage."""
        sock = self._socket or self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                # Not SSLSocket.shutdown, as after that a concurrent read would return ciphertext.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def _body(self) -> str:
        fields = {"grant_type": "client_credentials"}
        if self._login.scope:
            fields["scope"] = self._login.scope
        return urlencode(fields)

    def _headers(self) -> dict[str, str]:
        assert self._login.client_id is not None
        assert self._login.client_secret is not None
        pair = f"{self._login.client_id}:{revealed(self._login.client_secret)}"
        return {
            "Accept": "application/json",
            "Authorization": "Basic " + base64.b64encode(pair.encode()).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
        }

    def _token(self, status: int, body: bytes) -> Token:
        try:
            answer: Any = json.loads(body)
        except ValueError:  # also for bytes that are not text
            answer = None
        except RecursionError:
            answer = None
        if not isinstance(answer, dict):
            answer = {}
        if status != HTTPStatus.OK:
            assert self._login.client_secret is not None
            said = Secret(self._login.client_secret).hidden_in(_error_of(answer))
            why = f"{self._where}: HTTP status {status}{said}"
            if status >= 500 or status in _PASSING:
                raise ConnectionLost(why)
            raise AuthenticationFailed(why)
        text, lifetime_s = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(text, str) or not text:
            raise AuthenticationFailed(f"{self._where}: there is no access_token in its answer")
        return Token(text, lifetime_of(text) if lifetime_s is None else seconds(lifetime_s))


def _error_of(answer: dict[str, Any]) -> str:
    """The endpoint's description of an error (RFC 6749, section 5.2)."""
    said = [answer.get("error"), answer.get("error_description")]
    texts = [each[:200] for each in said if isinstance(each, str) and each.isprintable()]
    return f" ({': '.join(texts)})" if texts else ""


def _checked(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_known = parts.scheme in {"https", "http"} and bool(parts.hostname)
        is_known = is_known and url.isascii() and url.isprintable() and " " not in url
        _ = parts.port
    except ValueError:
        is_known = False
    if not is_known:
        raise SecurityOptionError("token endpoint: expected a URL, https://…")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise SecurityOptionError("token endpoint: the client's secret is sent over https only")
    return parts
