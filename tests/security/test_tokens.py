"""Tokens for OAUTHBEARER: from functions and endpoints, had once, had again, and not had."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

import pytest

from drumlin.peer.peer_error import AuthenticationFailed, ConnectionLost, PeerError
from drumlin.peer.security.claims import described, lifetime_of
from drumlin.peer.security.token_endpoint import Token
from drumlin.peer.security.tokens import TokenSource
from drumlin.security import OAuthBearer, SecurityOptionError, Tls
from rig.servers.certificates import Certificates

TIMEOUT_MS = 20_000


class Endpoint:
    """A token endpoint on loopback; `answers` are (status, body), the last one stays."""

    def __init__(self, *answers: tuple[int, Any], tls: ssl.SSLContext | None = None) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str | None, dict[str, list[str]]]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.asked.append((self.path, self.headers["Authorization"], parse_qs(body)))
                status, answer = endpoint.answers[0]
                if len(endpoint.answers) > 1:
                    del endpoint.answers[0]
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.scheme = "http" if tls is None else "https"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server.server_port}/token"

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def login(url: str, **more: Any) -> OAuthBearer:
    return OAuthBearer(token_endpoint=url, client_id="me", client_secret="hunter2", **more)


def had(source: OAuthBearer, times: int = 1, timeout_ms: int = TIMEOUT_MS) -> list[str]:
    async def ask() -> list[str]:
        tokens = TokenSource(source, timeout_ms)
        return list(await asyncio.gather(*(tokens.token() for _ in range(times))))

    return asyncio.run(ask())


def jwt(lifetime_s: float, subject: str = "a") -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    now = time.time()
    claims = {"sub": subject, "iat": now - 3600, "exp": now + lifetime_s}
    return f"{part({'alg': 'none'})}.{part(claims)}."


@pytest.mark.parametrize("token", ["", "abc", "a.b.c", "..", "\u00e9.W10.x", "W10.W10.W10"])
def test_what_is_no_jwt_says_nothing_of_itself(token: str) -> None:
    assert described(token) == ""
    assert lifetime_of(token) is None


def test_an_endpoint_is_asked_once_with_the_clients_credentials() -> None:
    with Endpoint((200, {"access_token": "abc", "expires_in": 300})) as endpoint:
        assert had(login(endpoint.url, scope="a b"), times=5) == ["abc"] * 5
    ((path, authorization, fields),) = endpoint.asked
    assert path == "/token"
    assert authorization == "Basic " + base64.b64encode(b"me:hunter2").decode()
    assert fields == {"grant_type": ["client_credentials"], "scope": ["a b"]}


def test_a_secret_that_an_endpoint_repeats_is_not_told_on() -> None:
    answer = {"error": "invalid_client", "error_description": "no hunter2 here"}
    with Endpoint((401, answer)) as endpoint, pytest.raises(AuthenticationFailed) as caught:
        had(login(endpoint.url))
    assert "401 (invalid_client: no *** here)" in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ({"access_token": "abc", "expires_in": 0}, 3),
        ({"access_token": "abc"}, 3),
        ({"access_token": "abc", "expires_in": "300"}, 1),
        ({"access_token": "abc", "expires_in": float("nan")}, 3),
        ({"access_token": "abc", "expires_in": 10**400}, 3),
        ({"access_token": "abc", "expires_in": True}, 3),
        ({"access_token": "abc", "expires_in": "9" * 5000}, 3),
    ],
)
def test_a_token_is_used_as_long_as_its_answer_says(answer: dict[str, Any], asked: int) -> None:
    with Endpoint((200, answer)) as endpoint:
        had(login(endpoint.url), times=3)
    assert len(endpoint.asked) == asked


@pytest.mark.parametrize(("lifetime_s", "asked"), [(300, 1), (float("inf"), 3), (-1, 3)])
def test_a_token_is_used_as_long_as_it_says(lifetime_s: float, asked: int) -> None:
    with Endpoint((200, {"access_token": jwt(lifetime_s)})) as endpoint:
        had(login(endpoint.url), times=3)
    assert len(endpoint.asked) == asked


def test_a_token_does_not_show_where_futures_are_logged() -> None:
    assert repr(Token("hunter2", 300.0)) == "Token(***, lifetime_s=300.0)"


def test_a_function_is_asked_when_its_token_gets_old() -> None:
    calls = []

    def token() -> str:
        calls.append(threading.current_thread() is threading.main_thread())
        return jwt(300)

    had(OAuthBearer(token), times=3)
    assert calls == [False], "never in the loop, which it may keep waiting"
    had(OAuthBearer(lambda: calls.append(False) or "opaque"), times=3)
    assert len(calls) == 4, "it is unknown how long this one is good for"


@pytest.mark.parametrize(
    ("answer", "kind", "why"),
    [
        ((401, {"error": "invalid_client"}), AuthenticationFailed, "401 .invalid_client"),
        ((400, b"<html>"), AuthenticationFailed, "400"),
        ((302, b""), AuthenticationFailed, "302"),
        ((503, {}), ConnectionLost, "503"),
        ((429, {}), ConnectionLost, "429"),
        ((200, {}), AuthenticationFailed, "no access_token"),
        ((200, b"[" * 500_000), AuthenticationFailed, "no access_token"),
        ((200, b"x" * (5 << 20)), AuthenticationFailed, "no access_token"),
        ((200, {"access_token": "a\x01b"}), AuthenticationFailed, "no bearer token"),
        ((200, {"access_token": "a" * 300_000}), AuthenticationFailed, "no bearer token"),
    ],
)
def test_no_token_is_one_clear_sentence(
    answer: tuple[int, Any], kind: type[PeerError], why: str
) -> None:
    with Endpoint(answer) as endpoint, pytest.raises(kind, match=why) as caught:
        had(login(endpoint.url + "?key=hunter2"))
    assert "hunter2" not in str(caught.value)
    assert len(endpoint.asked) == 1, "and the secret is not carried elsewhere"


@pytest.mark.parametrize(
    "drip",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nx: ",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n",
    ],
)
def test_an_endpoint_without_an_end_keeps_nobody(drip: bytes) -> None:
    """It says nothing, or a byte now and then; the thread that listens ends too."""
    with _dripping(drip) as port:
        before = threading.active_count()
        with pytest.raises(ConnectionLost, match="no token within 300 ms"):
            had(login(f"http://127.0.0.1:{port}/"), timeout_ms=300)
        assert threading.active_count() <= before, "asyncio.run waits for its threads"


def test_a_function_that_takes_long_is_waited_for_and_not_called_twice() -> None:
    """No caller waits for longer than for a connection; what it gives in the end is not lost."""
    calls = []
    is_ready = threading.Event()

    def token() -> str:
        calls.append(1)
        is_ready.wait(60)
        return "opaque"

    async def ask() -> str:
        tokens = TokenSource(OAuthBearer(token), 50)
        for _ in range(2):
            answers = await asyncio.gather(tokens.token(), tokens.token(), return_exceptions=True)
            assert [type(each) for each in answers] == [ConnectionLost] * 2
            assert "no token within 50 ms" in str(answers[0])
        is_ready.set()
        while True:
            with contextlib.suppress(ConnectionLost):
                return await tokens.token()

    assert asyncio.run(asyncio.wait_for(ask(), 60)) == "opaque"
    assert len(calls) == 1


@contextmanager
def _dripping(first: bytes) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        is_over = threading.Event()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                while not is_over.wait(0.05):
                    try:
                        connection.sendall(first and b"a" if is_begun else first)
                    except OSError:
                        return
                    is_begun.append(True)

        is_begun: list[bool] = []
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        is_over.set()
        thread.join()


def test_an_endpoint_has_to_prove_itself(certificates: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.path("server.pem"))
    with Endpoint((200, {"access_token": "abc"}), tls=context) as endpoint:
        trusting = login(endpoint.url, token_tls=Tls(ca=certificates.path("ca.crt")))
        assert had(trusting) == ["abc"]
        with pytest.raises(
            AuthenticationFailed, match=r"not signed by a CA that is trusted.*token_tls="
        ):
            had(login(endpoint.url))
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/token",
        "file:///token",
        "https://",
        "issuer",
        "https://a:b/",
        "https://a/b c",
        "https://a/ü",
    ],
)
def test_a_secret_is_sent_over_https_only(url: str) -> None:
    with pytest.raises(SecurityOptionError, match="token endpoint"):
        had(login(url))


@pytest.mark.parametrize(
    "function",
    [lambda: 1 / 0, lambda: None, lambda: "a b", lambda: ""],
    ids=["raises", "nothing", "with a space", "empty"],
)
def test_a_function_that_gives_no_token(function: Callable[[], Any]) -> None:
    with pytest.raises(AuthenticationFailed):
        had(OAuthBearer(function))
