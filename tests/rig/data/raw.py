"""A blocking client that sends exactly what it is told: well-formed requests or any bytes."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any, Self

from drumlin.wire.messages import encode_request, parse_response
from rig.data.messages import build, trimmed


class Closed(Exception):
    """The broker closed the connection."""


class NoAnswer(Exception):
    """Nothing came within the timeout; the connection is still open."""


class RawClient:
    """One connection. Requests are numbered from 1; answers must come in that order."""

    def __init__(self, port: int, client_id: str | None = "raw", timeout_s: float = 20.0) -> None:
        self.client_id = client_id
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        """Send one request and wait for its answer."""
        self.send(api, version, **fields)
        return self.receive(api, version)

    def send(self, api: str, version: int, **fields: Any) -> int:
        """Send a request made of plain data (see `rig.messages`); returns its correlation id."""
        self._correlation_id += 1
        message = build(api, version, fields)
        parts = encode_request(api, version, self._correlation_id, self.client_id, message)
        self.send_bytes(b"".join(parts))
        return self._correlation_id

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (ConnectionResetError, BrokenPipeError) as error:
            raise Closed(str(error)) from None

    def send_frame(self, frame: bytes) -> None:
        """Send any bytes after a correct length prefix."""
        self.send_bytes(len(frame).to_bytes(4, "big") + frame)

    def receive(self, api: str, version: int) -> Any:
        """The next answer, read as one to `api` of `version`; it has the fields of that alone."""
        _, message = self.receive_numbered(api, version)
        return message

    def receive_numbered(self, api: str, version: int) -> tuple[int, Any]:
        """Correlation id and message of the next answer."""
        correlation_id, message = parse_response(api, version, self.receive_frame())
        return correlation_id, trimmed(message, version)

    def receive_frame(self, timeout_s: float | None = None) -> bytes:
        """The next frame without its prefix.

        Raises:
            Closed: the broker closed the connection instead.
            NoAnswer: nothing came in time.
        """
        if timeout_s is not None:
            self.socket.settimeout(timeout_s)
        size = int.from_bytes(self._receive_exactly(4), "big", signed=True)
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        received = 0
        while received < size:
            try:
                count = self.socket.recv_into(view[received:])
            except TimeoutError:
                raise NoAnswer from None
            except ConnectionResetError as error:
                raise Closed(str(error)) from None
            if count == 0:
                raise Closed(f"after {received} of {size} bytes")
            received += count
        return bytes(data)
