"""Peers that begin to show who they are and do not end: they are bounded, and nobody notices."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator

import pytest

from fuzz.doors import Doors
from rig.data.raw import RawClient
from rig.waiting import wait_until

_STRANGERS_MAX = 2000
_MORE = 150
_DEADLINE_S = 30
_REQUEST = bytes.fromhex("0000000b00120000") + b"who?" + b"\x00\x01s"


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    doors = Doors(tmp_path_factory.mktemp("doors"))
    try:
        doors.start()
        doors.make_ready()
        yield doors
    finally:
        doors.close()
    doors.check_output()


def _first_bytes(doors: Doors) -> dict[str, bytes]:
    """What a peer begins with at each listener."""
    outgoing = ssl.MemoryBIO()
    tls = doors.context().wrap_bio(ssl.MemoryBIO(), outgoing)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    hello = outgoing.read()
    return {"tls": hello, "mutual": hello, "tlslogin": hello, "login": _REQUEST}


def _begin(doors: Doors, listener: str, data: bytes) -> socket.socket:
    stranger = socket.create_connection(("127.0.0.1", doors.ports[listener]), timeout=20)
    stranger.sendall(data)
    return stranger


def _is_closed(stranger: socket.socket) -> bool:
    stranger.setblocking(False)
    try:
        while stranger.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _is_served(user: RawClient) -> bool:
    return bool(user.ask("metadata", 9, topics=[]).cluster_id)


def test_a_crowd_that_stops_in_the_middle_of_a_handshake(doors: Doors) -> None:
    """Of too many, those go that have been waiting longest; users are served, and come in."""
    first = _first_bytes(doors)
    with contextlib.ExitStack() as stack, doors.log_in() as user:
        strangers = []
        for number in range(_STRANGERS_MAX + _MORE):
            listener = list(first)[number % len(first)]
            data = first[listener][: -1 - number % 9]
            strangers.append(stack.enter_context(_begin(doors, listener, data)))
            if number % 500 == 0:
                assert _is_served(user)
        assert _is_served(user)
        wait_until(lambda: sum(map(_is_closed, strangers)) >= _MORE, "some to be closed")
        # They are let in a few at a time at each listener, so the order is not quite theirs.
        assert not any(map(_is_closed, strangers[4 * _MORE :]))
        with doors.log_in() as another:
            assert _is_served(another)
    assert "too many others wait as well" in doors.said()


@pytest.mark.deep
def test_who_takes_a_second_for_each_byte_is_turned_away(doors: Doors) -> None:
    first = _first_bytes(doors)
    with contextlib.ExitStack() as stack, doors.log_in() as user:
        slow = {
            name: stack.enter_context(_begin(doors, name, data[:1])) for name, data in first.items()
        }
        began_s = time.monotonic()
        for at in range(1, 3 * _DEADLINE_S):
            for name, stranger in list(slow.items()):
                try:
                    stranger.send(first[name][at % len(first[name]) :][:1])
                except OSError:
                    del slow[name]
            assert _is_served(user)
            if not slow:
                break
            time.sleep(1)
        assert not slow
        assert time.monotonic() - began_s > _DEADLINE_S / 2


@contextlib.contextmanager
def _openssl(doors: Doors, listener: str, version: str) -> Iterator[subprocess.Popen[bytes]]:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("the program openssl is not there")
    where = f"127.0.0.1:{doors.ports[listener]}"
    with subprocess.Popen(
        [program, "s_client", "-connect", where, version],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as client:
        try:
            yield client
        finally:
            client.kill()


def _await(client: subprocess.Popen[bytes], text: bytes) -> None:
    assert client.stdout is not None
    said = b""
    while text not in said:
        data = client.stdout.read1(1 << 16)
        assert data, said
        said += data


@pytest.mark.parametrize("command", [b"k", b"K"], ids=["its own", "both"])
def test_other_keys_in_the_middle_of_a_connection(doors: Doors, command: bytes) -> None:
    """KeyUpdate of TLS 1.3, for the peer alone and for both sides."""
    with _openssl(doors, "tls", "-tls1_3") as client:
        assert client.stdin is not None
        _await(client, b"Verify return code")
        for _ in range(3):
            client.stdin.write(command + b"\n")
            client.stdin.flush()
            _await(client, b"KEYUPDATE")
            client.stdin.write(_REQUEST)
            client.stdin.flush()
            _await(client, b"who?")


def test_another_handshake_is_refused(doors: Doors) -> None:
    """Renegotiation, which TLS 1.2 has: it would cost us more than the peer."""
    with _openssl(doors, "tls", "-tls1_2") as client, doors.log_in() as user:
        assert client.stdin is not None
        _await(client, b"Verify return code")
        client.stdin.write(b"R\n")
        client.stdin.flush()
        _await(client, b"no renegotiation")
        assert _is_served(user)
