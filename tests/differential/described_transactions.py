"""Answers to DescribeTransactions, read by hand: kio cannot read the start time of a transaction
that has not begun, which is -1. Of what kio can read it makes the same as `rig.messages.render`.
"""

from __future__ import annotations

import struct
from typing import Any

from drumlin.wire.error_codes import ErrorCode


class _Reader:
    def __init__(self, frame: bytes) -> None:
        self._frame, self._at = frame, 0

    def number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f">{kind}", self._frame, self._at)
        self._at += struct.calcsize(f">{kind}")
        return int(value)

    def size(self) -> int:
        """Of a text or an array: one more than it is, and zero for none."""
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - 1

    def text(self) -> str:
        size = self.size()
        self._at += size
        return self._frame[self._at - size : self._at].decode()

    def end(self) -> None:
        """Of a structure, and no tagged field in it."""
        assert self.number("B") == 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._frame)


def read(frame: bytes) -> dict[str, Any]:
    """What a response of version 0 says; `frame` is without its size."""
    reader = _Reader(frame)
    reader.number("i")  # of the request
    reader.end()
    answer: dict[str, Any] = {"throttle_time": reader.number("i")}
    answer["transaction_states"] = [_transaction(reader) for _ in range(reader.size())]
    reader.end()
    assert reader.is_at_end
    return answer


def _transaction(reader: _Reader) -> dict[str, Any]:
    said: dict[str, Any] = {
        "error_code": ErrorCode(reader.number("h")).name,
        "transactional_id": reader.text(),
        "transaction_state": reader.text(),
        "transaction_timeout": reader.number("i"),
        "transaction_start_time": reader.number("q"),
        "producer_id": reader.number("q"),
        "producer_epoch": reader.number("h"),
    }
    said["topics"] = [_topic(reader) for _ in range(reader.size())]
    reader.end()
    return said


def _topic(reader: _Reader) -> dict[str, Any]:
    said = {
        "topic": reader.text(),
        # Kafka has a set of them.
        "partitions": sorted(reader.number("i") for _ in range(reader.size())),
    }
    reader.end()
    return said
