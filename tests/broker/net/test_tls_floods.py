"""Peers that send very many records of TLS: no call takes more than a few of them."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import ssl
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from broker.net.tls_ends import Ends, connected
from drumlin.broker.net.channel import Channel
from drumlin.broker.net.handshake import Handshake
from drumlin.broker.net.handshake_failures import HandshakeTooLong
from drumlin.broker.net.tls_channel import TlsChannel
from drumlin.broker.net.tls_records import RECEIVED_BYTES
from drumlin.turns import Rounds
from drumlin.wire.frames import SCRATCH_BYTES
from rig.servers.certificates import Certificates

_RECORDS_MAX = 32
_HEADER_BYTES = 5
_APPLICATION_DATA, _HANDSHAKE = 23, 22


@pytest.fixture(scope="module")
def context(certificates: Certificates) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificates.path("server.pem"))
    return made


def _channel(accepted: socket.socket, context: ssl.SSLContext) -> TlsChannel:
    memory = bytearray(SCRATCH_BYTES), bytearray(RECEIVED_BYTES)
    return TlsChannel(accepted, context, scratch=memory[0], received=memory[1])


class _Hello:
    """A client whose first message is as long as wanted, in records of one byte each."""

    def __init__(self, certificates: Certificates, protocols: int) -> None:
        trusting = ssl.create_default_context(cafile=certificates.path("ca.crt"))
        if protocols:
            trusting.set_alpn_protocols([f"{each:0250d}" for each in range(protocols)])
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = trusting.wrap_bio(self._in, self._out, server_hostname="localhost")

    def next(self, answer: bytes) -> bytes:
        """What the client sends next."""
        self._in.write(answer)
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self._out.read()

    def first(self) -> bytes:
        sent, cut = self.next(b""), b""
        while sent:
            size = _HEADER_BYTES + int.from_bytes(sent[3:5], "big")
            cut += b"".join(
                b"\x16\x03\x01\x00\x01" + bytes([each]) for each in sent[_HEADER_BYTES:size]
            )
            sent = sent[size:]
        return cut


def _sent(data: bytes, channel: Channel, peer: socket.socket, step: str) -> None:
    """Send it as there is room, and see that a call takes a few records at the most."""
    left = memoryview(data)
    memory = memoryview(bytearray(4096))
    while left or channel.unread_bytes():
        with contextlib.suppress(BlockingIOError):
            left = left[peer.send(left) :]
        before = channel.unread_bytes()
        with contextlib.suppress(BlockingIOError):
            if step == "hello":
                channel.shake_hands()
            else:
                channel.receive_into([memory])
        assert before - channel.unread_bytes() <= _RECORDS_MAX * 27


def test_a_hello_of_a_byte_a_record(context: ssl.SSLContext, certificates: Certificates) -> None:
    """As long a one as we take, in 5,000 records."""
    peer, accepted = connected()
    channel = _channel(accepted, context)
    hello = _Hello(certificates, protocols=19)
    try:
        _sent(hello.first(), channel, peer, "hello")
        while not channel.is_open:
            with contextlib.suppress(BlockingIOError):
                answer = peer.recv(1 << 16)
                peer.send(hello.next(answer))
            with contextlib.suppress(BlockingIOError):
                channel.shake_hands()
        assert channel.unread_bytes() == 0
    finally:
        channel.close()
        peer.close()


def test_a_hello_without_an_end(context: ssl.SSLContext, certificates: Certificates) -> None:
    """OpenSSL would take one of 128 KB, and certificates of 100 KB."""
    peer, accepted = connected()
    channel = _channel(accepted, context)
    try:
        with pytest.raises(HandshakeTooLong):
            _sent(_Hello(certificates, protocols=255).first(), channel, peer, "hello")
    finally:
        channel.close()
        peer.close()


def test_a_handshake_goes_on_though_nothing_more_comes(
    context: ssl.SSLContext, certificates: Certificates
) -> None:
    """All has been received at once, and is taken in turns."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        peer, accepted = connected()
        opened: list[object] = []
        handshake = Handshake(
            _channel(accepted, context),
            Rounds(),
            ThreadPoolExecutor(1),
            on_open=lambda _, channel: opened.append(channel),
            on_end=lambda _, reason: opened.append(reason),
        )
        hello = _Hello(certificates, protocols=0)
        sent = hello.first()
        async with asyncio.timeout(20):
            while not opened:
                await loop.sock_sendall(peer, sent)
                sent = b""
                receive = asyncio.ensure_future(loop.sock_recv(peer, 1 << 16))
                while not opened and not receive.done():  # noqa: ASYNC110
                    await asyncio.sleep(0)
                if receive.done():
                    sent = hello.next(receive.result())
                else:
                    receive.cancel()
        assert isinstance(opened[0], TlsChannel)
        assert hello.tls.version() == "TLSv1.3"
        opened[0].close()
        handshake.close(None)
        peer.close()

    asyncio.run(run())


def test_little_is_kept_for_a_stranger(context: ssl.SSLContext, certificates: Certificates) -> None:
    """What a call may not take waits in the socket, but for a part of it."""
    ends = Ends(context, certificates)
    memory = memoryview(bytearray(4096))

    def in_socket() -> int:
        found = fcntl.ioctl(ends.channel.fileno(), termios.FIONREAD, bytes(4))
        return int.from_bytes(found, sys.byteorder)

    try:
        count_sent = 0
        while in_socket() <= 18_000:
            with contextlib.suppress(ssl.SSLWantWriteError):
                count_sent += ends.peer.send(b"x")
        come = in_socket()
        count = ends.channel.receive_into([memory])
        assert count == _RECORDS_MAX
        assert in_socket() >= come - 16 * 1024
        while count < count_sent:
            with contextlib.suppress(BlockingIOError):
                count += ends.channel.receive_into([memory])
        assert count == count_sent
    finally:
        ends.close()


class _Secret:
    """The secret by which a client of TLS 1.3 encrypts, to write any record with it."""

    def __init__(self, secret: bytes) -> None:
        self._secret, self._count = secret, 0

    def record(self, data: bytes, kind: int) -> bytes:
        header = b"\x17\x03\x03" + (len(data) + 17).to_bytes(2, "big")
        nonce = (int.from_bytes(self._derived(b"iv", 12), "big") ^ self._count).to_bytes(12, "big")
        self._count += 1
        key = AESGCM(self._derived(b"key", 32))
        return header + key.encrypt(nonce, data + bytes([kind]), header)

    def key_update(self) -> bytes:
        """Announces other keys, asks for the same of the peer, and goes over to them."""
        record = self.record(b"\x18\x00\x00\x01\x01", _HANDSHAKE)
        self.__init__(self._derived(b"traffic upd", 48))  # type: ignore[misc]
        return record

    def _derived(self, name: bytes, size: int) -> bytes:
        label = b"tls13 " + name
        info = size.to_bytes(2, "big") + bytes([len(label)]) + label + b"\x00"
        return HKDFExpand(SHA384(), size, info).derive(self._secret)


def test_keys_that_are_asked_for_again_and_again(
    context: ssl.SSLContext, certificates: Certificates, tmp_path: Path
) -> None:
    """Before anybody has logged in, too; nor are the answers kept for who does not read them."""
    trusting = ssl.create_default_context(cafile=certificates.path("ca.crt"))
    trusting.minimum_version = ssl.TLSVersion.TLSv1_3
    trusting.keylog_filename = str(tmp_path / "keys")
    ends = Ends(context, certificates, trusting)
    lines = (tmp_path / "keys").read_text().splitlines()
    texts = [each.split()[2] for each in lines if each.startswith("CLIENT_TRAFFIC_SECRET_0")]
    secret = _Secret(bytes.fromhex(texts[0]))
    peer = socket.socket(fileno=ends.peer.detach())
    channel, memory = ends.channel, memoryview(bytearray(4096))
    try:
        _sent(b"".join(secret.key_update() for _ in range(1000)), channel, peer, "flood")
        peer.send(secret.record(b"data", _APPLICATION_DATA))
        count = 0
        while not count:
            with contextlib.suppress(BlockingIOError):
                count = channel.receive_into([memory])
        assert memory[:count] == b"data"

        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        left = memoryview(b"".join(secret.key_update() for _ in range(10_000)))
        while (left or channel.unread_bytes()) and not channel.receiving_needs_room:
            with contextlib.suppress(BlockingIOError):
                left = left[peer.send(left) :]
            with contextlib.suppress(BlockingIOError):
                channel.receive_into([memory])
        assert channel.receiving_needs_room
    finally:
        peer.close()
        ends.channel.close()
