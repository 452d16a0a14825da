"""Reads `.index` and `.timeindex` files and compares their entries with the log next to them."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

from drumlin.cli.dump.findings import Item, Problem, base_offset_of, mapped
from drumlin.records.batch.batch import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    Buffer,
    iterate_headers,
    parse_header,
)
from drumlin.storage.segment.offset_index import OffsetIndex
from drumlin.storage.segment.time_index import TimeIndex


def read_offset_index(path: Path, *, deep: bool) -> Iterator[Item]:
    """Entries of an `.index` file, each compared with the batch that it points at."""
    del deep  # entries have no records inside
    base_offset, previous = base_offset_of(path), -1
    with mapped(path) as buffer, _log_beside(path) as log:
        for position, (relative, log_position) in _entries(buffer, OffsetIndex.LAYOUT):
            offset = base_offset + relative
            yield {"kind": "index", "offset": offset, "log_position": log_position}
            if relative <= previous:
                yield Problem(path, position, f"offset {offset} does not rise")
            previous = relative
            fault = None if log is None else _pointer_fault(log, log_position, offset)
            if fault:
                yield Problem(path, position, fault)
        yield from _rest(path, buffer, OffsetIndex.LAYOUT)


def _pointer_fault(log: Buffer, position: int, offset: int) -> str | None:
    if position < 0 or position + HEADER_SIZE > len(log):
        return f"points at position {position} of a log of {len(log)} bytes"
    header = parse_header(log, position)
    if header.magic != MAGIC or header.last_offset != offset:
        return f"no batch with last offset {offset} begins at position {position} of the log"
    return None


def read_time_index(path: Path, *, deep: bool) -> Iterator[Item]:
    """Entries of a `.timeindex` file, each compared with the batch of its offset."""
    del deep  # entries have no records inside
    base_offset, previous = base_offset_of(path), (-1, -1)
    with mapped(path) as buffer, _log_beside(path) as log:
        batches = _Batches(log)
        for position, (timestamp, relative) in _entries(buffer, TimeIndex.LAYOUT):
            offset = base_offset + relative
            yield {"kind": "time-index", "timestamp": timestamp, "offset": offset}
            if timestamp < previous[0] or relative < previous[1]:
                message = f"timestamp {timestamp} or offset {offset} runs backwards"
                yield Problem(path, position, message)
            previous = (timestamp, relative)
            fault = None if log is None else batches.timestamp_fault(timestamp, offset)
            if fault:
                yield Problem(path, position, fault)
        yield from _rest(path, buffer, TimeIndex.LAYOUT)


class _Batches:
    """The batches of a log, walked once, for lookups in ascending order."""

    def __init__(self, log: Buffer | None) -> None:
        self._headers = iter(()) if log is None else iterate_headers(log)
        self._current: BatchHeader | None = None

    def timestamp_fault(self, timestamp: int, offset: int) -> str | None:
        while self._current is None or self._current.last_offset < offset:
            found = next(self._headers, None)
            if found is None:
                return f"offset {offset} lies after the end of the log"
            self._current = found[1]
        actual = self._current.max_timestamp
        if actual != timestamp:
            return f"timestamp {timestamp}, but the batch of offset {offset} has {actual}"
        return None


@contextlib.contextmanager
def _log_beside(path: Path) -> Iterator[Buffer | None]:
    log = path.with_suffix(".log")
    if not log.exists():
        yield None
        return
    with mapped(log) as buffer:
        yield buffer


def _entries(buffer: Buffer, layout: struct.Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Position and fields of every entry, up to the zeros after the last one.

    The index of an active segment may be larger than its content. Its first entry may validly be
    all zeros (a batch of one record at the start of the segment); no later entry may.
    """
    for position in range(0, len(buffer) - layout.size + 1, layout.size):
        entry = layout.unpack_from(buffer, position)
        if not any(entry) and (position or _is_zero(buffer)):
            return
        yield position, entry


def _is_zero(buffer: Buffer) -> bool:
    return len(buffer) > TimeIndex.LAYOUT.size and not any(buffer[:4096])


def _rest(path: Path, buffer: Buffer, layout: struct.Struct) -> Iterator[Problem]:
    rest = len(buffer) % layout.size
    if rest and any(buffer[-rest:]):
        message = f"{rest} bytes after the last whole entry of {layout.size} bytes"
        yield Problem(path, len(buffer) - rest, message)
