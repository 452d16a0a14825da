"""The two ends of a connection with TLS, of which only the broker's acts by itself."""

from __future__ import annotations

import contextlib
import socket
import ssl

from drumlin.broker.net.tls_channel import TlsChannel
from drumlin.broker.net.tls_records import RECEIVED_BYTES
from drumlin.wire.frames import SCRATCH_BYTES
from rig.servers.certificates import Certificates


def connected(send_buffer_bytes: int = 32_768) -> tuple[socket.socket, socket.socket]:
    """The peer's socket and the broker's, neither of which blocks."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        peer = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
    peer.setblocking(False)
    accepted.setblocking(False)
    return peer, accepted


class Ends:
    """A channel, and the peer's socket, which takes nothing by itself."""

    def __init__(
        self,
        context: ssl.SSLContext,
        certificates: Certificates,
        trusting: ssl.SSLContext | None = None,
    ) -> None:
        """`trusting`: the peer's context, if it is not a usual one."""
        peer, accepted = connected()
        self.scratch = bytearray(SCRATCH_BYTES)
        self.received = bytearray(RECEIVED_BYTES)
        self.channel = TlsChannel(accepted, context, scratch=self.scratch, received=self.received)
        trusting = trusting or ssl.create_default_context(cafile=certificates.path("ca.crt"))
        self.peer = trusting.wrap_socket(
            peer, server_hostname="localhost", do_handshake_on_connect=False
        )
        self.taken = b""
        while not self.channel.is_open:
            for shake_hands in (self.peer.do_handshake, self.channel.shake_hands):
                with contextlib.suppress(ssl.SSLWantReadError, BlockingIOError):
                    shake_hands()

    def take(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            while True:
                self.taken += self.peer.recv(1 << 16)

    def close(self) -> None:
        self.channel.close()
        self.peer.close()
