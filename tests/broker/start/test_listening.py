"""Which sockets a listener gets; tests listen on loopback only, also where they mean "any"."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from broker.in_process import running
from drumlin.broker.start import server, startup
from drumlin.broker.start.startup import StartFailed, families
from drumlin.wire.messages import encode_request, parse_response
from rig.data.messages import build
from rig.waiting import wait_until

IPV4, IPV6 = socket.AF_INET, socket.AF_INET6


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", [(IPV4, "127.0.0.1")]),
        ("0.0.0.0", [(IPV4, "0.0.0.0")]),
        ("localhost", [(IPV4, "localhost")]),
        ("::1", [(IPV6, "::1")]),
    ],
)
def test_one_address_is_one_socket(
    host: str, expected: list[tuple[socket.AddressFamily, str]]
) -> None:
    assert families(host) == expected


@pytest.mark.parametrize("host", ["", "::"])
def test_any_address_is_both_where_there_is_ipv6(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for has_ipv6, expected in ((True, [(IPV4, ""), (IPV6, "::")]), (False, [(IPV4, "")])):
        monkeypatch.setattr(startup, "_has_ipv6", lambda answer=has_ipv6: answer)
        assert families(host) == expected


@pytest.fixture
def loopback_for_any(monkeypatch: pytest.MonkeyPatch) -> None:
    if len(families("")) < 2:
        pytest.skip("no IPv6 on this machine")
    both = [(IPV4, "127.0.0.1"), (IPV6, "::1")]
    monkeypatch.setattr(startup, "families", lambda _: both)


@pytest.mark.usefixtures("loopback_for_any")
def test_a_broker_answers_on_both(tmp_path: Path) -> None:
    request = b"".join(encode_request("api_versions", 0, 1, "t", build("api_versions", 0, {})))

    async def ask(host: str, port: int) -> str:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(request)
        size = int.from_bytes(await reader.readexactly(4), "big")
        _, answer = parse_response("api_versions", 0, await reader.readexactly(size))
        writer.close()
        return str(answer.error_code.name)

    async def scenario() -> None:
        async with running(tmp_path, listeners="PLAINTEXT://:0") as broker:
            (listener,) = broker.listeners
            for host in ("127.0.0.1", "::1"):
                assert await ask(host, listener.port) == "none"

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.usefixtures("loopback_for_any")
def test_a_port_that_is_taken_for_one_of_them(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        async with running(tmp_path, listeners=f"PLAINTEXT://:{port}"):
            pass

    with socket.create_server(("::1", 0), family=IPV6) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            StartFailed, match=rf"cannot listen on \*:{port}: Address already in use"
        ):
            asyncio.run(scenario(port))


def test_hundreds_of_clients_may_connect_before_one_is_accepted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            (listener,) = broker.listeners
            address = ("127.0.0.1", listener.port)
            # The loop stands still meanwhile: clients that find no place would time out.
            clients = [socket.create_connection(address, timeout=20) for _ in range(500)]
            for client in clients:
                client.close()

    asyncio.run(scenario())


def test_refusals_of_very_many_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Addresses beyond a maximum are counted together: neither memory nor log grows with them."""
    monkeypatch.setattr(server, "_REFUSED_MAX", 3)

    async def refused(port: int, host: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))
        assert await reader.read() == b""
        writer.close()

    async def run() -> None:
        settings = {
            "max_connections_per_ip": "0",
            "max_connections_per_ip_overrides": "127.0.0.1:1",
        }
        async with running(tmp_path, **settings) as broker:
            for number in range(10):
                await refused(broker.listeners[0].port, f"127.0.1.{number + 1}")

    asyncio.run(run())
    told = [each.getMessage() for each in caplog.records if "refused a conn" in each.getMessage()]
    assert [each.split(":")[0] for each in told] == [
        *(f"refused a connection from 127.0.1.{number} (1 so far)" for number in (1, 2, 3)),
        *(f"refused a connection from another address ({count} so far)" for count in (1, 2, 4)),
    ]


def test_most_connections_of_a_listener(tmp_path: Path) -> None:
    """Clients, too many for theirs and for the broker, keep no broker out."""

    async def open_at(port: int, count: int) -> int:
        """How many of so many more connections are let in."""
        answered = []
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            writer.write(bytes((0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 255, 255)))
            with contextlib.suppress(ConnectionError):
                answered.append(await reader.read(4))
        return len(list(filter(None, answered)))

    async def run() -> None:
        settings = {
            "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
            "listener_security_protocol_map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
            "inter_broker_listener_name": "BROKERS",
            "max_connections": "5",
            "listener_name_clients_max_connections": "3",
            "listener_name_brokers_max_connections": "6",
        }
        async with running(tmp_path, **settings) as broker:
            clients, brokers = (each.port for each in broker.listeners)
            assert await open_at(clients, 5) == 3
            assert await open_at(brokers, 5) == 5
            for writer in writers:
                writer.close()
            counts = broker.server.traffic().values()

            def have_left() -> bool:
                return all(each.opened == each.closed for each in counts)

            await asyncio.to_thread(wait_until, have_left, "the end of all connections")
            assert await open_at(clients, 5) == 3
            assert await open_at(brokers, 9) == 6
            for writer in writers:
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()

    writers: list[asyncio.StreamWriter] = []
    asyncio.run(asyncio.wait_for(run(), 30))
