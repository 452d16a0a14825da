"""One load generator for both brokers: prebuilt frames out in bulk, answers counted in bulk.

All requests of a load have one size, and so have their answers; then nothing needs to be parsed
on the way, and Python sends and counts far more than a broker can answer. That the answers
said what they should is checked before (the first one is parsed) and after (the log has grown
by what was sent, no byte is left over).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from bench.dial import Dial
from bench.harness import Metric
from drumlin.records.plain.record import Record, encode_batch
from drumlin.wire.messages import API_KEYS, encode_request, parse_request_header, parse_response
from rig.data.messages import build
from rig.data.raw import RawClient

#: How busy the generator itself was: near 100 it would be the bottleneck, not the broker.
GENERATOR = Metric("generator", "% generator CPU", higher_is_better=False)

_RECEIVE_BYTES = 4 << 20
_RECORD_OVERHEAD = 16  # more than a record has besides its value


def batch_of(size: int, record_bytes: int | None = None) -> bytes:
    """A record batch of exactly `size` bytes: one record, or several of about `record_bytes`."""
    now_ms = time.time_ns() // 1_000_000
    count = 1 if record_bytes is None else max(1, size // record_bytes)
    value = b"v" * (size // count - _RECORD_OVERHEAD)
    last_value = value
    while True:
        values = [value] * (count - 1) + [last_value]
        records = [Record(i, now_ms, None, each) for i, each in enumerate(values)]
        batch = encode_batch(records)
        if len(batch) == size:
            return bytes(batch)
        last_value = b"v" * (len(last_value) + size - len(batch))


def request_frame(api: str, version: int, **fields: object) -> bytes:
    """A whole request, its length prefix included."""
    message = build(api, version, dict(fields))
    return b"".join(bytes(part) for part in encode_request(api, version, 1, "bench", message))


def first_answer(port: int, frame: bytes) -> tuple[bytes, Any]:
    """Send one request; its answer as bytes, length prefix included, and as a message."""
    header = parse_request_header(memoryview(frame)[4:])
    api = next(name for name, key in API_KEYS.items() if key == header.api_key)
    with RawClient(port, "bench") as client:
        client.send_bytes(frame)
        body = client.receive_frame()
    _, answer = parse_response(api, header.api_version, body)
    return len(body).to_bytes(4, "big") + body, answer


class Load:
    """A stream of requests over one connection, `in_flight` of them unanswered at a time."""

    def __init__(
        self, dial: Dial, frames: Sequence[bytes], in_flight: int, response_bytes: int
    ) -> None:
        self._frame_bytes = len(frames[0])
        if any(len(frame) != self._frame_bytes for frame in frames):
            raise ValueError("the frames of a load have one size")
        self._cycle = len(frames)
        # Any run of up to `in_flight` frames is one slice, also around the end.
        repeats = -(-(self._cycle + in_flight) // self._cycle)
        self._ring = memoryview(b"".join(frames) * repeats)
        self._in_flight = in_flight
        self._response_bytes = response_bytes
        self._socket = dial()
        self._buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self._next = 0

    def close(self) -> None:
        self._socket.close()

    def run(self, seconds: float, requests_max: int) -> int:
        """Send for `seconds`, or until `requests_max`, wait for every answer; their number."""
        deadline = time.perf_counter() + seconds
        sent = min(self._in_flight, requests_max)
        self._send(sent)
        answered = pending_bytes = 0
        while answered < sent:
            pending_bytes += self._receive()
            done, pending_bytes = divmod(pending_bytes, self._response_bytes)
            answered += done
            if done and time.perf_counter() < deadline:
                more = min(done, requests_max - sent)
                self._send(more)
                sent += more
        if pending_bytes:
            raise RuntimeError(f"{pending_bytes} bytes too many: an answer of another size")
        return answered

    def _send(self, count: int) -> None:
        if count:
            start = self._next * self._frame_bytes
            self._socket.sendall(self._ring[start : start + count * self._frame_bytes])
            self._next = (self._next + count) % self._cycle

    def _receive(self) -> int:
        count = self._socket.recv_into(self._buffer)
        if count == 0:
            raise RuntimeError("the broker closed the connection")
        return count
