"""Handshakes of TLS that fail are in the audit log: from where, at what listener, and why."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from rig.brokers.drumlin_with_listeners import DrumlinWithListeners
from rig.servers.certificates import Certificates
from rig.waiting import wait_until

Shake = Callable[[socket.socket, ssl.SSLContext], None]


def _shake(sock: socket.socket, context: ssl.SSLContext) -> None:
    with context.wrap_socket(sock, server_hostname="localhost") as tls:
        tls.recv(1)  # in TLS 1.3 the broker's refusal comes afterwards


def _distrusting(sock: socket.socket, _: ssl.SSLContext) -> None:
    _shake(sock, ssl.create_default_context())


def _foreign(sock: socket.socket, context: ssl.SSLContext, certificates: Certificates) -> None:
    context.load_cert_chain(certificates.path("foreign.pem"))
    _shake(sock, context)


def _old(sock: socket.socket, context: ssl.SSLContext) -> None:
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    _shake(sock, context)


def _other_suites(sock: socket.socket, context: ssl.SSLContext) -> None:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES128-SHA")
    _shake(sock, context)


def _sends(data: bytes) -> Shake:
    def send(sock: socket.socket, _: ssl.SSLContext) -> None:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(100):
            pass

    return send


#: Its length is 3 bytes: it is not yet over.
_LONG = (b"\x16\x03\x01\x40\x00" + b"\x01\x01\x00\x00" + bytes(16_380)) * 3
_HELLO = b"\x16\x03\x01\x00\x04\x01\x00\x00\x00"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1")
@pytest.mark.parametrize(
    ("listener", "shake", "why"),
    [
        ("tls", _sends(b"GET /secret HTTP/1.1\r\n\r\n"), "it does not speak TLS"),
        ("tls", _sends(b""), "it has gone away"),
        ("tls", _sends(_HELLO), "it does not keep to TLS"),
        ("tls", _sends(_LONG), "it is too long"),
        ("tls", _distrusting, "it does not trust the broker's certificate"),
        ("tls", _old, "no version of TLS in common"),
        ("tls", _other_suites, "no cipher suite in common"),
        ("mutual", _shake, "it has shown no certificate"),
        ("mutual", _foreign, "its certificate is not trusted"),
    ],
)
def test_why_a_handshake_has_failed(
    secured_drumlin: DrumlinWithListeners,
    certificates: Certificates,
    listener: str,
    shake: Any,
    why: str,
) -> None:
    context = ssl.create_default_context(cafile=certificates.path("ca.crt"))
    port = int(secured_drumlin.addresses[listener].rpartition(":")[2])
    wanted = {"event": "handshake failed", "host": "127.0.0.1", "why": why}
    wanted |= {"listener": listener.upper()}
    with (
        socket.create_connection(("127.0.0.1", port), 20) as sock,
        contextlib.suppress(OSError),  # whatever a broker that has closed it already leaves
    ):
        shake(sock, context, *([certificates] if shake is _foreign else []))

    def is_told() -> bool:
        lines = (each.partition("drumlin.audit: ") for each in secured_drumlin.said().splitlines())
        return wanted in [json.loads(text) for _, _, text in lines if text]

    wait_until(is_told, f"a line with {why!r}", 20)
    assert "/secret" not in secured_drumlin.said()
