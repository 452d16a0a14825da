"""Run as a program: one tenant that asks for all it can get, from an address of its own.

    python -m bench.security.flooder ADDRESS FORM LOGIN_PORT TLS_PORT PASSWORD TOPIC FILLED CA_FILE

It says "flooding" once it does, goes on until its standard input ends, and then says how many
answers it got. It is polite to the others on its machine alone (`nice`): they are measured.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from bench.load import batch_of, request_frame
from drumlin.wire.messages import encode_request, parse_response
from rig.data.messages import build

_CONNECTIONS, _IN_FLIGHT = 16, 5
_LARGE_BYTES: Final = 512 << 10
_SMALL_BYTES: Final = 300
_FETCH_BYTES: Final = 1 << 20
_GROUP: Final = b"group-name-of-16"
_TIMEOUT_S: Final = 20.0
#: 25 times what the one may. Through the loopback the kernel could give thousands, in calls that
#: are not interrupted: then all on this machine wait, a process that only echoes as well.
_COMINGS_A_SECOND: Final = 500
_IP_BIND_ADDRESS_NO_PORT: Final = 24  # ip(7); no constant of `socket`


class Flooder:
    """Who asks, and where."""

    def __init__(self, arguments: list[str]) -> None:
        self._address, form, login_port, tls_port = arguments[:4]
        password, topic, filled, ca_file = arguments[4:]
        self.form, self._topic, self._filled = form, topic, filled
        self._login_port, self._tls_port, self._password = int(login_port), int(tls_port), password
        self._context = ssl.create_default_context(cafile=ca_file)
        self.answers = 0
        self._numbers = iter(range(10**15, 10**16))

    def run(self) -> None:
        """Ask without an end."""
        comings = {
            "connections": lambda: self._dial(self._login_port).close(),
            "logins": lambda: self._log_in(self._password).close(),
            "failed_logins": self._fail_to_log_in,
            "handshakes": self._shake_hands,
        }
        if self.form in comings:
            for _ in range(_CONNECTIONS):
                threading.Thread(target=self._come, args=(comings[self.form],), daemon=True).start()
            return
        frame = _FRAMES[self.form](self)
        threading.Thread(target=self._ask, args=(frame,), daemon=True).start()

    # -- connections -------------------------------------------------------------------

    def _dial(self, port: int) -> socket.socket:
        connection = socket.socket()
        connection.settimeout(_TIMEOUT_S)
        # The port is chosen by `connect`: `bind` searches all that were closed in the last
        # minute, with a lock of the kernel that keeps the others' processes waiting.
        connection.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
        connection.bind((self._address, 0))
        connection.connect(("127.0.0.1", port))
        return connection

    def _log_in(self, password: str) -> socket.socket:
        connection = self._dial(self._login_port)
        _ask(connection, "sasl_handshake", 1, mechanism="PLAIN")
        token = f"\0bob\0{password}".encode()
        if _ask(connection, "sasl_authenticate", 2, auth_bytes=token).error_code:
            connection.close()
            raise ConnectionError("refused")
        return connection

    def _fail_to_log_in(self) -> None:
        with contextlib.suppress(ConnectionError):
            self._log_in("another")
        self.answers += 1

    def _shake_hands(self) -> None:
        with self._dial(self._tls_port) as plain:
            self._context.wrap_socket(plain, server_hostname="localhost").close()

    def _come(self, once: Callable[[], None]) -> None:
        due_s = time.monotonic()
        while True:
            with contextlib.suppress(OSError):  # refused, or closed
                once()
                self.answers += 1
            due_s = max(due_s + _CONNECTIONS / _COMINGS_A_SECOND, time.monotonic())
            time.sleep(max(0.0, due_s - time.monotonic()))

    # -- requests ----------------------------------------------------------------------

    def _ask(self, frame: Callable[[], bytes]) -> None:
        """Keep some requests of each connection on their way."""
        sockets = {}
        for _ in range(_CONNECTIONS):
            connection = self._log_in(self._password)
            sockets[connection.fileno()] = connection
        with contextlib.closing(select.epoll()) as poll:
            unread: dict[int, bytearray] = {}
            for descriptor, connection in sockets.items():
                poll.register(descriptor, select.EPOLLIN)
                unread[descriptor] = bytearray()
                for _ in range(_IN_FLIGHT):
                    threading.Thread(target=connection.sendall, args=(frame(),)).start()
            while True:
                for descriptor, _ in poll.poll():
                    connection = sockets[descriptor]
                    received = unread[descriptor]
                    received += connection.recv(_FETCH_BYTES)
                    for _ in _taken(received):
                        self.answers += 1
                        connection.sendall(frame())

    def small(self) -> Callable[[], bytes]:
        return self._produce(batch_of(_SMALL_BYTES))

    def large(self) -> Callable[[], bytes]:
        return self._produce(batch_of(_LARGE_BYTES))

    def _produce(self, batch: bytes) -> Callable[[], bytes]:
        data = [{"name": self._topic, "partition_data": [{"index": 0, "records": batch}]}]
        frame = request_frame("produce", 9, acks=1, timeout=30_000, topic_data=data)
        return lambda: frame

    def fetch(self) -> Callable[[], bytes]:
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": _FETCH_BYTES}
        part |= {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
        topics = [{"topic": self._filled, "partitions": [part]}]
        frame = request_frame(
            "fetch",
            12,
            replica_id=-1,
            max_wait=500,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            session_epoch=-1,
            topics=topics,
        )
        return lambda: frame

    def metadata(self) -> Callable[[], bytes]:
        frame = request_frame("metadata", 9, topics=None)
        return lambda: frame

    def joins(self) -> Callable[[], bytes]:
        frame = request_frame(
            "join_group",
            3,
            group_id=_GROUP.decode(),
            session_timeout=6000,
            rebalance_timeout=6000,
            member_id="",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": bytes(20)}],
        )
        return lambda: frame.replace(_GROUP, b"%d" % next(self._numbers))


_FRAMES: Final[dict[str, Callable[[Flooder], Callable[[], bytes]]]] = {
    "produce_small": Flooder.small,
    "produce_large": Flooder.large,
    "fetch": Flooder.fetch,
    "metadata": Flooder.metadata,
    "joins": Flooder.joins,
}


def _ask(connection: socket.socket, api: str, version: int, **fields: Any) -> Any:
    parts = encode_request(api, version, 1, "flood", build(api, version, fields))
    connection.sendall(b"".join(bytes(each) for each in parts))
    received = bytearray()
    while True:
        data = connection.recv(1 << 16)
        if not data:
            raise ConnectionError("closed")
        received += data
        for frame in _taken(received):
            return parse_response(api, version, frame)[1]


def _taken(received: bytearray) -> Iterator[bytes]:
    """The answers that are whole, which are taken away."""
    while len(received) >= 4:
        size = 4 + int.from_bytes(received[:4], "big")
        if len(received) < size:
            return
        frame = bytes(received[4:size])
        del received[:size]
        yield frame


def main() -> None:
    os.nice(15)
    flooder = Flooder(sys.argv[1:])
    flooder.run()
    print("flooding", flush=True)
    sys.stdin.read()
    print(flooder.answers, flush=True)
    os._exit(0)  # its threads wait for a broker that makes them wait


if __name__ == "__main__":
    main()
