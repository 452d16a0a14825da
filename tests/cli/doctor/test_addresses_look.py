"""Addresses that brokers tell: names that do not resolve, closed ports, certificates."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from drumlin.cli.doctor.checks import listeners
from drumlin.cli.doctor.facts import Address, Configuration
from drumlin.cli.doctor.gathering.addresses import addresses_told, look_at_addresses
from drumlin.peer.connection import Address as Endpoint
from drumlin.securing.authority import Authority
from rig.ports import free_ports


def told(host: str, port: int, protocol: str | None = None) -> Address:
    return Address(1, "L", protocol, host, port, is_ours=True)


def test_names_and_ports() -> None:
    (port,) = free_ports(1)
    asked = [told("nowhere.invalid", 1), told("127.0.0.1", port)]
    lost, closed = asyncio.run(look_at_addresses(asked))
    assert lost.resolve_error
    assert [each.check for each in listeners.resolves([lost, closed])] == ["advertised-unresolved"]
    assert closed.resolved == ("127.0.0.1",)
    (found,) = listeners.reachable([lost, closed])
    assert f"127.0.0.1:{port} cannot be connected to" in found.what


def test_certificates(tmp_path: Path) -> None:
    pem = tmp_path / "broker.pem"
    pem.write_text(Authority.make("here").issue("broker", ["other.example"]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def look() -> Address:
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            (found,) = await look_at_addresses([told("127.0.0.1", port, "SSL")])
            return found

    found = asyncio.run(look())
    assert found.certificate is not None
    assert found.certificate.hosts == ("other.example",)
    (finding,) = listeners.certificate_covers([found])
    assert "127.0.0.1 is not in the certificate of L, which is for other.example" in finding.what


def test_which_listener_is_ours() -> None:
    values = {
        "listeners": "A://0.0.0.0:1,B://:2,CONTROLLER://:3",
        "advertised.listeners": "A://in.example:1,B://out.example:2",
        "controller.listener.names": "CONTROLLER",
    }
    found = addresses_told(
        {1: Endpoint("out.example", 2)}, [Configuration("broker 1", values, 1)], has_tls=False
    )
    assert [(each.listener, each.host, each.is_ours) for each in found] == [
        ("B", "out.example", True),
        ("A", "in.example", False),
    ]
