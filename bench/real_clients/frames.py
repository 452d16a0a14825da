"""Requests of which no two are alike, and the load generators that send them.

Batches differ in size and in every byte of their values, so that nothing that a broker keeps of
one request serves it for the next.
"""

from __future__ import annotations

import random
import socket
import time
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from bench.dial import Dial
from drumlin.records.plain.record import Record, encode_batch

#: Stands for the topic's id in frames that are made before the topic is.
TOPIC_ID = uuid.UUID("5eed5eed-5eed-5eed-5eed-5eed5eed5eed")
_RANDOM_BYTES = 4 << 20
_RECEIVE_BYTES = 4 << 20
_LENGTH_BYTES = 4
_RECORD_OVERHEAD = 16
_random = random.Random(1)
_noise = _random.randbytes(_RANDOM_BYTES)


class Batch(NamedTuple):
    """An encoded record batch, and how many records it holds."""

    data: bytes
    records: int


def noise(size: int) -> bytes:
    """Random bytes, others each time."""
    start = _random.randrange(_RANDOM_BYTES - size)
    return _noise[start : start + size]


def distinct_batches(count: int, size: int, record_bytes: int | None, spread: float) -> list[Batch]:
    """Batches of `size` bytes more or less, of one record or of several of about that many."""
    now_ms = time.time_ns() // 1_000_000
    batches = []
    for _ in range(count):
        about = round(size * _random.uniform(1 - spread, 1 + spread))
        records = 1 if record_bytes is None else max(1, about // record_bytes)
        value_bytes = about // records - _RECORD_OVERHEAD
        values = [
            Record(each, now_ms + each, None, noise(value_bytes + _random.randrange(8)))
            for each in range(records)
        ]
        batches.append(Batch(bytes(encode_batch(values)), records))
    return batches


def equal_batches(count: int, size: int) -> list[bytes]:
    """Batches of one record and one size, whose bytes differ."""
    now_ms = time.time_ns() // 1_000_000
    return [
        bytes(encode_batch([Record(0, now_ms + each, None, noise(size))])) for each in range(count)
    ]


class Answered(NamedTuple):
    """What came back."""

    requests: int
    bytes: int


class DistinctLoad:
    """A stream of requests over one connection, `in_flight` of them unanswered at a time."""

    def __init__(self, dial: Dial, frames: Sequence[bytes], in_flight: int) -> None:
        self._count = len(frames)
        self._in_flight = in_flight
        # Any run of up to `in_flight` frames is one slice, also around the end.
        ring = [*frames, *frames[:in_flight]]
        self._ends = [0]
        for each in ring:
            self._ends.append(self._ends[-1] + len(each))
        self._ring = memoryview(b"".join(ring))
        self._socket = dial()
        self._answers = Answers()
        self._next = 0

    def close(self) -> None:
        self._socket.close()

    def run(self, seconds: float, requests_max: int) -> Answered:
        """Send for so long, or until `requests_max`, and wait for every answer."""
        deadline = time.perf_counter() + seconds
        sent = min(self._in_flight, requests_max)
        self._send(sent)
        answered, received = 0, self._answers.bytes
        while answered < sent:
            done = self._answers.receive(self._socket)
            answered += done
            if done and time.perf_counter() < deadline:
                more = min(done, requests_max - sent)
                self._send(more)
                sent += more
        return Answered(answered, self._answers.bytes - received)

    def _send(self, count: int) -> None:
        while count:
            part = min(count, self._in_flight)
            first = self._next
            self._socket.sendall(self._ring[self._ends[first] : self._ends[first + part]])
            self._next = (first + part) % self._count
            count -= part


class Answers:
    """Counts the answers in a stream without keeping them: only their lengths are read."""

    def __init__(self) -> None:
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._view = memoryview(self._buffer)
        self._missing = 0  # of the answer that has begun
        self._head = b""  # of a length that is not whole
        self.bytes = 0

    def receive(self, connection: socket.socket) -> int:
        """Take what has come; how many answers are whole by it."""
        size = connection.recv_into(self._view)
        if size == 0:
            raise RuntimeError("the broker closed the connection")
        self.bytes += size
        position = done = 0
        while position < size:
            if not self._missing:
                wanted = _LENGTH_BYTES - len(self._head)
                self._head += self._view[position : min(size, position + wanted)]
                position = min(size, position + wanted)
                if len(self._head) == _LENGTH_BYTES:
                    self._missing, self._head = int.from_bytes(self._head, "big"), b""
                continue
            taken = min(self._missing, size - position)
            position += taken
            self._missing -= taken
            done += not self._missing
        return done


def with_topic_id(frames: Sequence[bytes], topic_id: uuid.UUID) -> list[bytes]:
    """The frames with the topic's own id in the place of `TOPIC_ID`."""
    return [each.replace(TOPIC_ID.bytes, topic_id.bytes, 1) for each in frames]
