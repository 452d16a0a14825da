"""Clients that show very many certificates: a thread looks at them, and the loop goes on."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from broker.net.tls_ends import connected
from drumlin.broker.net.handshake import Handshake
from drumlin.broker.net.tls_channel import TlsChannel
from drumlin.broker.net.tls_records import RECEIVED_BYTES
from drumlin.turns import Rounds
from drumlin.wire.frames import SCRATCH_BYTES
from rig.servers.certificates import Certificates

_MANY = 40


@pytest.fixture(scope="module")
def context(certificates: Certificates) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificates.path("server.pem"))
    made.load_verify_locations(certificates.path("ca.crt"))
    made.verify_mode = ssl.CERT_REQUIRED
    return made


class _HeldThread(ThreadPoolExecutor):
    """Begins nothing before it is let go."""

    def __init__(self) -> None:
        super().__init__(1)
        self._is_free = threading.Event()
        self.asked = -1  # but for that it waits
        self.submit(self._is_free.wait)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.asked += 1
        return super().submit(function, *args, **kwargs)

    def let_go(self) -> None:
        self._is_free.set()


class _Peer:
    """A client with its own certificate and many others, and the broker's end of its handshake."""

    def __init__(
        self, context: ssl.SSLContext, certificates: Certificates, own: str, folder: Path
    ) -> None:
        shown = folder / "shown.pem"
        one = certificates.text("stranger.crt")
        shown.write_text(certificates.text(f"{own}.pem") + one * _MANY)
        ours = ssl.create_default_context(cafile=certificates.path("ca.crt"))
        ours.load_cert_chain(shown)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = ours.wrap_bio(self._in, self._out, server_hostname="localhost")
        self.socket, accepted = connected()
        self.thread = _HeldThread()
        self.channel = TlsChannel(
            accepted,
            context,
            scratch=bytearray(SCRATCH_BYTES),
            received=bytearray(RECEIVED_BYTES),
        )
        self.ends: list[object] = []
        self.handshake = Handshake(
            self.channel,
            Rounds(),
            self.thread,
            on_open=lambda _, channel: self.ends.append(channel),
            on_end=lambda _, reason: self.ends.append(reason),
        )

    async def show(self) -> None:
        """Send all that a client sends, until a step has come to the thread."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await loop.sock_sendall(self.socket, self._out.read())
                self._in.write(await loop.sock_recv(self.socket, 1 << 16))
            else:
                break
        await loop.sock_sendall(self.socket, self._out.read())
        await _until(lambda: self.thread.asked)
        assert not self.ends

    def close(self) -> None:
        self.thread.let_go()
        self.thread.shutdown()
        self.socket.close()


async def _until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def _run(peer: Callable[[], _Peer], steps: Callable[[_Peer], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        made = peer()
        try:
            await steps(made)
        finally:
            made.close()

    asyncio.run(run())


def test_a_thread_looks_at_many_certificates(
    context: ssl.SSLContext, certificates: Certificates, tmp_path: Path
) -> None:
    async def steps(peer: _Peer) -> None:
        await peer.show()
        peer.thread.let_go()
        await _until(lambda: peer.ends)
        assert peer.ends == [peer.channel]
        # The file has the whole chain.
        own = x509.load_pem_x509_certificate(certificates.text("client.crt").encode())
        assert peer.channel.certificate() == own.public_bytes(Encoding.DER)
        peer.channel.close()

    _run(lambda: _Peer(context, certificates, "client", tmp_path), steps)


def test_many_certificates_that_are_not_trusted(
    context: ssl.SSLContext, certificates: Certificates, tmp_path: Path
) -> None:
    async def steps(peer: _Peer) -> None:
        await peer.show()
        peer.thread.let_go()
        await _until(lambda: peer.ends)
        assert isinstance(peer.ends[0], ssl.SSLCertVerificationError)
        assert len(peer.ends) == 1

    _run(lambda: _Peer(context, certificates, "foreign", tmp_path), steps)


def test_a_peer_dismissed_while_the_thread_is_at_it(
    context: ssl.SSLContext, certificates: Certificates, tmp_path: Path
) -> None:
    """The channel is closed when the thread has left it."""

    async def steps(peer: _Peer) -> None:
        await peer.show()
        peer.handshake.close("too slow")
        assert peer.ends == ["too slow"]
        assert peer.channel.fileno() >= 0
        peer.thread.let_go()
        await _until(lambda: peer.channel.fileno() < 0)
        assert peer.ends == ["too slow"]

    _run(lambda: _Peer(context, certificates, "client", tmp_path), steps)
