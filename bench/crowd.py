"""Many clients at once, each with one request unanswered at a time: one loop over their sockets."""

from __future__ import annotations

import itertools
import select
import time
from collections.abc import Iterable, Sequence

from bench.dial import Dial

_TIMEOUT_S = 60.0
_RECEIVE_BYTES = 1 << 20
_LENGTH_BYTES = 4


class _Client:
    """One connection, and what it has of an answer that is not whole yet."""

    def __init__(self, dial: Dial, frames: Sequence[bytes]) -> None:
        self._frames = itertools.cycle(frames)
        self.received = b""
        self.socket = dial()

    def ask(self) -> None:
        """Send the next request."""
        self.socket.sendall(next(self._frames))

    def take(self) -> bytes | None:
        """The answer, once it is whole."""
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise RuntimeError("the broker closed the connection")
        self.received += data
        if len(self.received) < _LENGTH_BYTES:
            return None
        size = _LENGTH_BYTES + int.from_bytes(self.received[:_LENGTH_BYTES], "big")
        if len(self.received) < size:
            return None
        if len(self.received) > size:
            raise RuntimeError("more than one answer to one request")
        answer, self.received = self.received, b""
        return answer


class Crowd:
    """A client for each connection and list of frames, which it sends again and again."""

    def __init__(self, clients: Iterable[tuple[Dial, Sequence[bytes]]]) -> None:
        self._clients = [_Client(dial, frames) for dial, frames in clients]
        self._by_descriptor = {each.socket.fileno(): each for each in self._clients}
        self._poll = select.epoll()
        for descriptor in self._by_descriptor:
            self._poll.register(descriptor, select.EPOLLIN)

    def close(self) -> None:
        self._poll.close()
        for client in self._clients:
            client.socket.close()

    def run(self, seconds: float) -> int:
        """Ask for so long, wait for every answer; their number.

        Raises:
            RuntimeError: an answer differs from the first one in size: it tells an error; or none
                comes.
        """
        deadline = time.perf_counter() + seconds
        for client in self._clients:
            client.ask()
        open_requests, answered = len(self._clients), 0
        sizes: dict[_Client, int] = {}
        while open_requests:
            answering = self._poll.poll(_TIMEOUT_S)
            if not answering:
                raise RuntimeError(f"{open_requests} requests without an answer")
            for descriptor, _ in answering:
                client = self._by_descriptor[descriptor]
                answer = client.take()
                if answer is None:
                    continue
                if sizes.setdefault(client, len(answer)) != len(answer):
                    raise RuntimeError(f"an answer of {len(answer)} bytes among others")
                answered += 1
                if time.perf_counter() < deadline:
                    client.ask()
                else:
                    open_requests -= 1
        return answered
