"""One connection: versions, correlation ids, time limits, and what it says when it breaks."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from drumlin.peer.connection import Address, BrokerConnection
from drumlin.peer.options import PeerOptions
from drumlin.peer.peer_error import (
    ConnectionLost,
    InvalidResponse,
    PeerError,
    RequestTimeout,
    UnsupportedByBroker,
)
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO, encode_response
from drumlin.wire.protocol.init_producer_id import InitProducerIdRequest
from rig.brokers.scripted_broker import CloseConnection, ScriptedBroker, Silence
from rig.data.messages import Shape, response_shape
from rig.ports import free_ports
from rig.waiting import eventually

T = TypeVar("T")
OPTIONS = PeerOptions(request_timeout_ms=5_000, connect_timeout_ms=2_000)
REQUEST = InitProducerIdRequest(transactional_id=None, transaction_timeout=ZERO)


def with_connection(
    broker: ScriptedBroker,
    use: Callable[[BrokerConnection], Awaitable[T]],
    options: PeerOptions = OPTIONS,
) -> T:
    async def run() -> T:
        connection = await BrokerConnection.open(Address("127.0.0.1", broker.port), options)
        try:
            return await use(connection)
        finally:
            connection.close()

    return asyncio.run(run())


def answer_with(producer_id: int) -> Callable[[Shape, Any], Any]:
    def answer(shape: Shape, request: Any) -> Any:
        return shape(
            "InitProducerIdResponse",
            throttle_time=ZERO,
            error_code=ErrorCode.none,
            producer_id=producer_id,
            producer_epoch=0,
        )

    return answer


async def ask(connection: BrokerConnection) -> int:
    response = await connection.request("init_producer_id", REQUEST)
    producer_id: int = response.producer_id
    return producer_id


def test_the_highest_common_version_is_used() -> None:
    with ScriptedBroker() as broker:
        broker.versions["init_producer_id"] = (0, 2)
        broker.script("init_producer_id", answer_with(7))
        assert with_connection(broker, ask) == 7
    assert [version for name, version, _ in broker.requests if name == "init_producer_id"] == [2]


def test_a_request_may_depend_on_the_version_that_is_used() -> None:
    async def ask_by_version(connection: BrokerConnection) -> Any:
        def request(version: int) -> InitProducerIdRequest:
            name = f"in version {version}"
            return InitProducerIdRequest(transactional_id=name, transaction_timeout=ZERO)

        return await connection.request("init_producer_id", request)

    with ScriptedBroker() as broker:
        broker.versions["init_producer_id"] = (0, 2)
        broker.script("init_producer_id", answer_with(7))
        with_connection(broker, ask_by_version)
    asked = [request for name, _, request in broker.requests if name == "init_producer_id"]
    assert [each.transactional_id for each in asked] == ["in version 2"]


def test_an_old_broker_answers_api_versions_in_the_oldest_format() -> None:
    """KIP-511: error 35 in version 0, with the versions that it does know."""

    def too_new(shape: Shape, request: Any) -> Any:
        oldest = response_shape("api_versions", 0)
        known = oldest("ApiVersion", api_key=18, min_version=0, max_version=2)
        refusal = oldest(
            "ApiVersionsResponse", error_code=ErrorCode.unsupported_version, api_keys=(known,)
        )
        return b"".join(encode_response("api_versions", 0, 0, refusal))

    with ScriptedBroker() as broker:
        broker.script("api_versions", too_new, broker.api_versions)
        broker.script("init_producer_id", answer_with(3))
        assert with_connection(broker, ask) == 3
    versions = [version for name, version, _ in broker.requests if name == "api_versions"]
    assert len(versions) == 2
    assert versions[1] == 2


@pytest.mark.parametrize("offered", [(100, 101), None])
def test_an_api_without_a_common_version_is_named(offered: tuple[int, int] | None) -> None:
    with ScriptedBroker() as broker:
        if offered is None:
            del broker.versions["init_producer_id"]
        else:
            broker.versions["init_producer_id"] = offered
        with pytest.raises(UnsupportedByBroker, match=f"{broker.address}.* init_producer_id"):
            with_connection(broker, ask)


def test_requests_are_pipelined_and_answers_matched() -> None:
    """Nothing is answered before all requests have come; then in reverse order."""
    waiting: list[Any] = []

    def collect(shape: Shape, request: Any) -> Any:
        waiting.append(shape)
        if len(waiting) < 3:
            return Silence()
        frames = [
            b"".join(
                encode_response(
                    "init_producer_id",
                    each.version,
                    correlation_id,
                    answer_with(correlation_id)(each, None),
                )
            )
            for correlation_id, each in enumerate(waiting, start=1)
        ]
        return b"".join(reversed(frames))

    async def three(connection: BrokerConnection) -> list[int]:
        return await asyncio.gather(*(ask(connection) for _ in range(3)))

    with ScriptedBroker() as broker:
        broker.script("init_producer_id", collect)
        assert with_connection(broker, three) == [1, 2, 3]


def test_an_answer_in_single_bytes_is_put_together() -> None:
    async def serve_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shape = response_shape("api_versions", 4)
        known = shape("ApiVersion", api_key=18, min_version=0, max_version=4)
        response = shape(
            "ApiVersionsResponse",
            error_code=ErrorCode.none,
            api_keys=(known,),
            throttle_time=ZERO,
        )
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        for byte in b"".join(encode_response("api_versions", 4, 0, response)):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()

    async def run() -> int:
        server = await asyncio.start_server(serve_slowly, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        connection = await BrokerConnection.open(Address("127.0.0.1", port), OPTIONS)
        version = connection.version_of("api_versions")
        connection.close()
        server.close()
        return version

    assert asyncio.run(run()) == 4


def test_a_request_without_an_answer_times_out_and_closes() -> None:
    async def use(connection: BrokerConnection) -> tuple[BaseException, BaseException, bool]:
        first = connection.send("init_producer_id", REQUEST, timeout_ms=50)
        second = connection.send("init_producer_id", REQUEST)
        errors = await asyncio.gather(first, second, return_exceptions=True)
        return errors[0], errors[1], connection.is_open

    with ScriptedBroker() as broker:
        broker.script("init_producer_id", lambda shape, request: Silence())
        first, second, is_open = with_connection(broker, use)
    assert isinstance(first, RequestTimeout)
    assert broker.address in str(first)
    assert "init_producer_id" in str(first)
    assert isinstance(second, PeerError)
    assert not is_open


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    "nonsense",
    [
        pytest.param(frame((99).to_bytes(4, "big") + bytes(30)), id="unknown correlation id"),
        pytest.param(frame((1).to_bytes(4, "big") + b"\x00\x00"), id="truncated body"),
        pytest.param(frame(b"\x00"), id="no header"),
        pytest.param(b"\xff\xff\xff\xff", id="negative size"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n" * 4, id="another protocol"),
    ],
)
def test_nonsense_closes_the_connection_and_says_so(nonsense: bytes) -> None:
    with ScriptedBroker() as broker:
        broker.script("init_producer_id", lambda shape, request: CloseConnection(nonsense))
        with pytest.raises((InvalidResponse, ConnectionLost), match=broker.address):
            with_connection(broker, ask)


@pytest.mark.parametrize("first", [b"", b"\x00\x00\x01\x00 and no more"])
def test_a_closed_connection_fails_what_waits(first: bytes) -> None:
    with ScriptedBroker() as broker:
        broker.script("init_producer_id", lambda shape, request: CloseConnection(first))
        with pytest.raises(ConnectionLost, match=f"{broker.address}.*closed"):
            with_connection(broker, ask)


def test_a_closed_connection_takes_no_more_requests() -> None:
    async def use(connection: BrokerConnection) -> None:
        connection.close()
        await ask(connection)

    with ScriptedBroker() as broker, pytest.raises(ConnectionLost, match="not sent"):
        with_connection(broker, use)


def test_nobody_listening_is_named() -> None:
    async def run() -> None:
        await BrokerConnection.open(Address("127.0.0.1", free_ports(1)[0]), OPTIONS)

    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:\d+: Connection refused"):
        asyncio.run(run())


def open_descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


def test_a_shortage_of_descriptors_ends_the_attempt_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lack(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    async def run(broker: ScriptedBroker) -> list[dict[str, Any]]:
        port = broker.port
        unhandled: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, each: unhandled.append(each))
        before = open_descriptors()
        with monkeypatch.context() as short:
            short.setattr(socket, "fromfd", lack)
            with pytest.raises(ConnectionLost, match=f"127.0.0.1:{port}: Too many open files"):
                await BrokerConnection.open(Address("127.0.0.1", port), OPTIONS)
        await eventually(lambda: broker.connection_count == 1 and open_descriptors() == before)
        return unhandled

    with ScriptedBroker() as broker:
        assert asyncio.run(run(broker)) == []


def test_a_listener_that_says_nothing_is_no_broker() -> None:
    with ScriptedBroker() as broker:
        broker.script("api_versions", lambda shape, request: Silence())
        with pytest.raises(RequestTimeout, match="api_versions in 80 ms"):
            with_connection(broker, ask, PeerOptions(connect_timeout_ms=80))
