"""Facts about the addresses that brokers tell their clients: names, connections, certificates."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from drumlin.cli.doctor.facts import Address, Certificate, Configuration
from drumlin.config.config_error import ConfigError
from drumlin.config.listeners import parse_listeners
from drumlin.peer.connection import Address as Endpoint
from drumlin.securing.authority import UnusableCertificate, read_certificate

_LOOK_S: Final = 5.0
_DEFAULT_NAME: Final = "the listener"


def addresses_told(
    brokers: Mapping[int, Endpoint], configurations: Iterable[Configuration], has_tls: bool
) -> list[Address]:
    """The addresses of all listeners; those of the one that we are told come first."""
    known = {each.broker: each for each in configurations}
    found = []
    for node_id, endpoint in sorted(brokers.items()):
        advertised = [*_advertised(node_id, known.get(node_id))]
        name = next(
            (e.listener for e in advertised if (e.host, e.port) == tuple(endpoint)), _DEFAULT_NAME
        )
        protocol = "SSL" if has_tls else None
        found.append(Address(node_id, name, protocol, endpoint.host, endpoint.port, is_ours=True))
        found += [each for each in advertised if each.listener != name and each.host]
    return found


def _advertised(node_id: int, configuration: Configuration | None) -> Iterator[Address]:
    values = configuration.values if configuration else {}
    text = values.get("advertised.listeners") or values.get("listeners") or ""
    controllers = values.get("controller.listener.names", "").upper().split(",")
    try:
        found = parse_listeners("advertised.listeners", tuple(filter(None, text.split(","))))
    except ConfigError:
        return
    for each in found:
        if each.name not in controllers:
            yield Address(node_id, each.name, None, each.host, each.port, is_ours=False)


async def look_at_addresses(addresses: Iterable[Address]) -> tuple[Address, ...]:
    """The addresses with what is found there."""
    return tuple(await asyncio.gather(*map(_look, addresses)))


async def _look(address: Address) -> Address:
    try:
        async with asyncio.timeout(_LOOK_S):
            infos = await asyncio.get_running_loop().getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM
            )
    except TimeoutError:
        return dataclasses.replace(address, resolve_error=f"no answer within {_LOOK_S:.0f} s")
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return dataclasses.replace(address, resolve_error=why)
    resolved = tuple(dict.fromkeys(str(each[4][0]) for each in infos))
    return await _connect(dataclasses.replace(address, resolved=resolved))


async def _connect(address: Address) -> Address:
    if not address.is_ours:
        return address  # another listener is often not for the network that we are in
    context = None
    if address.protocol == "SSL":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the certificate is looked at, and nothing is sent
    try:
        async with asyncio.timeout(_LOOK_S):
            _, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    except TimeoutError:
        return dataclasses.replace(address, connect_error=f"no answer within {_LOOK_S:.0f} s")
    except OSError as error:
        return dataclasses.replace(address, connect_error=error.strerror or str(error))
    try:
        return dataclasses.replace(address, certificate=_certificate(address, writer))
    finally:
        writer.transport.abort()


def _certificate(address: Address, writer: asyncio.StreamWriter) -> Certificate | None:
    connection = writer.get_extra_info("ssl_object")
    encoded = connection.getpeercert(binary_form=True) if connection is not None else None
    if not encoded:
        return None
    try:
        found = read_certificate(ssl.DER_cert_to_PEM_cert(encoded))
    except UnusableCertificate:
        return None
    where = f"broker {address.broker} ({address.host}:{address.port})"
    return Certificate(where, found.name, found.hosts, found.begins, found.ends)
