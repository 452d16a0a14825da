"""Decoding columns without kernels: slow, and the reference for tests of the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from drumlin.records.plain.bodies import RECORD_SIZE_MIN, Body, Selection
from drumlin.records.plain.record import Record, decode_body

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_UINT32: Final = 0xFFFFFFFF


def decode_plain(
    bodies: Iterable[Body], selection: Selection, max_rows: int, max_bytes: int
) -> Iterator[list[tuple[Record, int]]]:
    """The wanted records and their timestamp types, in as many lists as with kernels."""
    rows: list[tuple[Record, int]] = []
    size = 0
    for body in bodies:
        for record in decode_body(memoryview(body.source)[body.start : body.end], body.header):
            if not selection.start_offset <= record.offset < selection.end_offset:
                continue
            length = _size(record)
            if rows and (len(rows) == max_rows or size + length > max_bytes):
                yield rows
                rows, size = [], 0
            rows.append((record, int(body.header.is_log_append_time)))
            size += length
    if rows:
        yield rows


def _size(record: Record) -> int:
    """The approximate size of a record in a batch."""

    fields = [record.key, record.value, *(part for pair in record.headers for part in pair)]
    return RECORD_SIZE_MIN + sum(len(field) for field in fields if field)


def murmur2_plain(key: bytes) -> int:
    """Kafka's default hash of a key (murmur2), from 0 to 2^31 - 1."""
    value = _SEED ^ len(key)
    whole = len(key) & ~3
    for start in range(0, whole, 4):
        block = int.from_bytes(key[start : start + 4], "little") * _MULTIPLIER & _UINT32
        block = (block ^ block >> 24) * _MULTIPLIER & _UINT32
        value = (value * _MULTIPLIER & _UINT32) ^ block
    if len(key) > whole:
        rest = int.from_bytes(key[whole:], "little")
        value = (value ^ rest) * _MULTIPLIER & _UINT32
    value = (value ^ value >> 13) * _MULTIPLIER & _UINT32
    return (value ^ value >> 15) & 0x7FFFFFFF
