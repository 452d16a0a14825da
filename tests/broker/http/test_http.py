"""HTTP as the broker speaks it: what is no request is answered, and nothing takes it down."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.broker.http import server as http_server
from drumlin.broker.http.admin_socket import (
    FILE_NAME,
    bind_admin_socket,
    connect_to_admin_socket,
    remove_admin_socket,
)
from drumlin.broker.http.message import HttpError, Request, Response, body_length, parse_head
from drumlin.broker.http.server import HttpServer
from rig.depth import so_many
from rig.waiting import eventually

LIMIT_S = 20.0


def test_a_request_is_read() -> None:
    request = parse_head(b"GET /a%20b?x=1&y= HTTP/1.1\r\nHost: h\r\nX-Y:  z \r\n\r\n")
    assert request == Request("GET", "/a b", {"x": "1", "y": ""}, {"host": "h", "x-y": "z"})
    assert body_length(request) == 0


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 505),
        (b"GET http://x/ HTTP/1.1\r\n\r\n", 400),
        (b"GET /\x01 HTTP/1.1\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\n\r\n", 400),
        (b"GET /%ff HTTP/1.1\r\n\r\n", 400),
        (b"GET /?a=%ff HTTP/1.1\r\n\r\n", 400),
        (b"GET /?a=1&a=2 HTTP/1.1\r\n\r\n", 400),
        (b"GET /?" + b"a&" * 200 + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
    ],
)
def test_what_is_no_request(head: bytes, status: int) -> None:
    with pytest.raises(HttpError) as caught:
        parse_head(head)
    assert caught.value.status == status


@pytest.mark.parametrize(
    ("field", "status"),
    [
        ("Content-Length: x", 400),
        ("Content-Length: -1", 400),
        ("Content-Length: 65537", 413),
        ("Content-Length: 99999999999999999999", 400),
        ("Transfer-Encoding: chunked", 501),
    ],
)
def test_bodies_that_are_not_taken(field: str, status: int) -> None:
    request = parse_head(f"POST / HTTP/1.1\r\n{field}\r\n\r\n".encode())
    with pytest.raises(HttpError) as caught:
        body_length(request)
    assert caught.value.status == status


@settings(max_examples=so_many(100, 300), deadline=None)
@given(
    st.binary(max_size=200)
    | st.binary(max_size=60).map(lambda junk: b"GET /" + junk + b" HTTP/1.1\r\n\r\n")
    | st.binary(max_size=60).map(lambda junk: b"GET / HTTP/1.1\r\n" + junk + b"\r\n\r\n")
)
def test_junk_is_a_request_or_an_error(junk: bytes) -> None:
    with contextlib.suppress(HttpError):
        assert body_length(parse_head(junk)) >= 0


@pytest.mark.parametrize("body", [b"[", b"[1]", b"\xff", b"[" * 50_000])
def test_a_body_that_is_no_json_object(body: bytes) -> None:
    with pytest.raises(HttpError):
        Request("POST", "/", body=body).json()


# -- connections -------------------------------------------------------------------------------


async def _echo(request: Request) -> Response:
    return Response.of_json({"query": dict(request.query), "body": request.body.decode()})


async def _fail(request: Request) -> Response:
    raise RuntimeError("on purpose")


async def _wait_for_ever(request: Request) -> Response:
    await asyncio.Event().wait()
    raise AssertionError


async def _large(request: Request) -> Response:
    return Response(bytes(16 << 20))


ROUTES = {
    "/echo": {"GET": _echo, "POST": _echo},
    "/fail": {"GET": _fail},
    "/large": {"GET": _large},
    "/wait": {"GET": _wait_for_ever},
}


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """The port of a server with `ROUTES`."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    server = HttpServer(ROUTES)
    await server.start(sock)
    try:
        yield sock.getsockname()[1]
    finally:
        await server.stop()


async def _send(port: int, request: bytes, *, then_close: bool = False) -> bytes:
    async with asyncio.timeout(LIMIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        if then_close:
            writer.write_eof()
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := await reader.read(65536):
                answer += piece
        writer.close()
        return answer


def _status(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


def test_requests_are_answered() -> None:
    async def run() -> None:
        async with serving() as port:
            answer = await _send(port, b"GET /echo?a=b HTTP/1.1\r\n\r\n")
            head, body = answer.split(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert json.loads(body) == {"query": {"a": "b"}, "body": ""}
            answer = await _send(port, b"POST /echo HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi")
            assert json.loads(answer.split(b"\r\n\r\n")[1])["body"] == "hi"
            assert _status(await _send(port, b"GET /none HTTP/1.1\r\n\r\n")) == 404
            assert _status(await _send(port, b"DELETE /echo HTTP/1.1\r\n\r\n")) == 405
            assert _status(await _send(port, b"junk\r\n\r\n")) == 400
            assert _status(await _send(port, b"GET /fail HTTP/1.1\r\n\r\n")) == 500

    asyncio.run(run())


def test_a_head_is_that_of_get_without_its_body() -> None:
    """As load balancers ask, whether a broker is ready."""

    async def run() -> None:
        async with serving() as port:
            head, body = (await _send(port, b"GET /echo HTTP/1.1\r\n\r\n")).split(b"\r\n\r\n")
            told = await _send(port, b"HEAD /echo HTTP/1.1\r\n\r\n")
            assert told == head + b"\r\n\r\n"
            assert f"Content-Length: {len(body)}".encode() in told
            for path, status in (("none", 404), ("fail", 500)):
                told = await _send(port, f"HEAD /{path} HTTP/1.1\r\n\r\n".encode())
                assert _status(told) == status and told.endswith(b"\r\n\r\n")

    asyncio.run(run())


def test_a_method_that_is_not_taken_is_told_which_are() -> None:
    async def run() -> None:
        async with serving() as port:
            told = await _send(port, b"OPTIONS /echo HTTP/1.1\r\n\r\n")
            assert _status(told) == 405
            assert b"\r\nAllow: GET, POST, HEAD\r\n" in told

    asyncio.run(run())


def test_what_is_too_large_is_refused() -> None:
    async def run() -> None:
        async with serving() as port:
            answer = await _send(port, b"GET /echo HTTP/1.1\r\na: " + b"x" * 40_000 + b"\r\n\r\n")
            assert _status(answer) == 431
            assert _status(await _send(port, b"x" * 40_000)) == 431
            assert _status(await _send(port, b"x" * 3_000_000)) == 431
            large = b"POST /echo HTTP/1.1\r\nContent-Length: 70000\r\n\r\n"
            assert _status(await _send(port, large)) == 413

    asyncio.run(run())


def test_what_does_not_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_REQUEST_S", 0.05)

    async def run() -> None:
        async with serving() as port:
            assert await _send(port, b"GET /ec", then_close=True) == b""
            assert await _send(port, b"", then_close=True) == b""
            assert _status(await _send(port, b"GET /echo HTTP/1.1\r\n")) == 408
            half = b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhi"
            assert _status(await _send(port, half)) == 408

    asyncio.run(run())


def test_only_so_many_are_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 1)

    async def run() -> None:
        async with serving() as port:
            _, first = await asyncio.open_connection("127.0.0.1", port)
            first.write(b"GET /wait HTTP/1.1\r\n\r\n")
            await first.drain()
            assert await _send(port, b"GET /echo HTTP/1.1\r\n\r\n") == b""
            first.close()

    asyncio.run(run())


def test_who_does_not_send_its_request_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 3)

    async def run() -> None:
        async with serving() as port:
            dawdlers = []
            for _ in range(3):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /ec")
                await writer.drain()
                dawdlers.append((reader, writer))
            assert _status(await _send(port, b"GET /echo HTTP/1.1\r\n\r\n")) == 200
            reader, _ = dawdlers[0]  # the oldest one
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            for _, writer in dawdlers:
                writer.close()

    asyncio.run(run())


def test_who_does_not_read_its_answer_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 3)

    async def run() -> None:
        async with serving() as port:
            readers = []
            for _ in range(3):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
                writer.write(b"GET /large HTTP/1.1\r\n\r\n")
                assert await reader.readexactly(4) == b"HTTP"
                readers.append(writer)
            assert _status(await _send(port, b"GET /echo HTTP/1.1\r\n\r\n")) == 200
            for writer in readers:
                writer.close()

    asyncio.run(run())


def test_a_burst_leaves_no_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of connections that come together, some are dropped before their tasks have begun."""
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 4)

    def open_count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def run() -> None:
        before = open_count()
        async with serving() as port, asyncio.timeout(LIMIT_S):
            busy = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            for _, writer in busy:
                writer.write(b"GET /wait HTTP/1.1\r\n\r\n")
                await writer.drain()
            burst = [socket.create_connection(("127.0.0.1", port)) for _ in range(30)]
            assert _status(await _send(port, b"GET /echo HTTP/1.1\r\n\r\n")) == 200
            for sock in burst:
                sock.close()
            for _, writer in busy:
                writer.close()
        await eventually(lambda: open_count() <= before)

    gc.collect()
    gc.disable()  # what it would find lives long in a broker
    try:
        asyncio.run(run())
    finally:
        gc.enable()


def test_a_stop_waits_for_nobody() -> None:
    async def run() -> None:
        async with asyncio.timeout(LIMIT_S):
            async with serving() as port:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /wait HTTP/1.1\r\n\r\n")
                await writer.drain()
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()

    asyncio.run(run())


# -- the socket in a log dir -------------------------------------------------------------------


def test_a_socket_is_its_owners(tmp_path: Path) -> None:
    with bind_admin_socket(tmp_path):
        assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    remove_admin_socket(tmp_path)
    remove_admin_socket(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    bind_admin_socket(tmp_path).close()
    with pytest.raises(ConnectionRefusedError):
        connect_to_admin_socket(tmp_path, LIMIT_S)
    with bind_admin_socket(tmp_path) as listening:
        listening.listen()
        connect_to_admin_socket(tmp_path, LIMIT_S).close()


def test_a_directory_may_lie_deep(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with bind_admin_socket(deep) as listening:
        listening.listen()
        connect_to_admin_socket(deep, LIMIT_S).close()
        assert (deep / FILE_NAME).is_socket()
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
