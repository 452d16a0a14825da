"""The steady client: 100 small Produce requests a second, and how long each of them took.

It runs in a process of its own, on one connection. Every request is sent when it is due, whether
or not those before it were answered, and its time is taken from when it was due: so what a stall
holds up is counted in full. It must never wait for an answer before it sends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import time
from collections import deque
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import NamedTuple, Self

from bench.brokers import Broker, require_no_error
from bench.load import batch_of
from bench.produce import once_led, produce_frame
from drumlin.wire.messages import parse_response

PER_SECOND = 100
_BATCH_BYTES = 300
_PRODUCE = 13
_SETTLING_S = 0.2  # not counted: the connection is new
_PATIENCE_S = 120.0
_PRIORITY = -10  # before the neighbour: this one is to measure the broker, not the scheduler


class Times(NamedTuple):
    """For every request in turn, in ms: until it was answered, and until it was sent."""

    answered_ms: list[float]
    sent_ms: list[float]


class SteadyClient:
    """The process; one measurement at a time, of any broker."""

    def __init__(self) -> None:
        processes = multiprocessing.get_context("spawn")
        self._control, its = processes.Pipe()
        self._process = processes.Process(target=_serve, args=(its,), daemon=True)
        self._process.start()
        its.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.join()

    def begin(self, broker: Broker, topic: str) -> None:
        """Send to a topic from now on; returns when the connection has settled."""
        frame = produce_frame(broker, topic, batch_of(_BATCH_BYTES))
        once_led(broker, frame)
        self._control.send((broker.port, frame))
        time.sleep(_SETTLING_S)

    def end(self) -> Times:
        """Send no more, and wait for what is not answered yet."""
        self._control.send(None)
        said = self._control.recv()
        if isinstance(said, str):
            raise RuntimeError(f"the steady client failed: {said}")
        settled = int(PER_SECOND * _SETTLING_S)
        return Times(said[0][settled:], said[1][settled:])


def _serve(control: Connection) -> None:
    with contextlib.suppress(PermissionError):
        os.nice(_PRIORITY)
    while True:
        try:
            port, frame = control.recv()
        except EOFError:
            return
        try:
            control.send(_measure(control, port, frame))
        except (OSError, RuntimeError) as error:
            if control.recv() is None:  # asked to end a measurement that has ended already
                control.send(f"{type(error).__name__}: {error}")


def _measure(control: Connection, port: int, frame: bytes) -> tuple[list[float], list[float]]:
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _Stream(connection, frame).run(control)


class _Stream:
    def __init__(self, connection: socket.socket, frame: bytes) -> None:
        self._connection = connection
        self._frame = frame
        self._due: deque[float] = deque()  # of what was sent and is not answered yet
        self._answered_ms: list[float] = []
        self._sent_ms: list[float] = []
        self._received = bytearray()

    def run(self, control: Connection) -> tuple[list[float], list[float]]:
        """Until the other end says that it is enough, and all is answered."""
        next_due, is_over, patience_ends = time.monotonic(), False, 0.0
        while not is_over or self._due:
            now = time.monotonic()
            if not is_over and now >= next_due:
                self._connection.sendall(self._frame)
                self._due.append(next_due)
                self._sent_ms.append(1000 * (now - next_due))
                next_due += 1 / PER_SECOND
                continue
            if is_over and now > patience_ends:
                raise RuntimeError(f"{len(self._due)} requests without an answer")
            wait_s = 1.0 if is_over else next_due - now
            sources: list[socket.socket | Connection] = (
                [self._connection] if is_over else [self._connection, control]
            )
            ready = wait(sources, wait_s)
            if self._connection in ready:
                self._take(self._connection.recv(1 << 16))
            if control in ready:
                control.recv()
                is_over, patience_ends = True, now + _PATIENCE_S
        return self._answered_ms, self._sent_ms

    def _take(self, data: bytes) -> None:
        now = time.monotonic()
        if not data:
            raise RuntimeError("the broker closed the connection")
        self._received += data
        while len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < end:
                return
            _, answer = parse_response("produce", _PRODUCE, bytes(self._received[4:end]))
            require_no_error(answer.responses[0].partition_responses[0])
            del self._received[:end]
            self._answered_ms.append(1000 * (now - self._due.popleft()))
