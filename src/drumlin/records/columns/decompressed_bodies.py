"""Decompressing bodies in groups, so that one kernel call decodes many bodies.

Well compressed bodies are small, and calling a codec costs as much as decompressing one to ten
kilobytes. Therefore adjacent frames of lz4 and zstd are decompressed as one: the record counts in
the batch headers show where a body ends and the next begins. False counts that cancel each other
out are not noticed: then offsets may be wrong, as in any batch of a malicious producer. The memory
for decompressed bodies is reused.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final

import numpy as np
from numpy.typing import NDArray

from drumlin.records.batch.batch import COMPRESSION_MASK, Buffer
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.columns.found_bodies import Bodies
from drumlin.records.compression import lz4_layout, zstd_frames
from drumlin.records.compression.compression import LZ4, NONE, ZSTD
from drumlin.records.compression.stored_bodies import JOINED, decoder_of, decompress
from drumlin.records.kernels.layout import (
    BODY_ATTRIBUTES,
    BODY_BASE_OFFSET,
    BODY_COUNT,
    BODY_END,
    BODY_START,
    OPEN,
)
from drumlin.records.plain.bodies import RECORD_SIZE_MIN
from drumlin.records.plain.record import DECOMPRESSED_BYTES_MAX

#: The size to decompress before decoding, small enough to stay in a processor's cache.
_GROUP_BYTES: Final = 1 << 20
_MEMORY_BYTES: Final = 4 << 20
_RATIO_AT_FIRST: Final = 4.0
_MEMORIES_KEPT: Final = 2

_spare: deque[memoryview] = deque(maxlen=_MEMORIES_KEPT)


def decompressed(buffer: Buffer, bodies: Bodies) -> Iterator[tuple[Buffer, Bodies]]:
    """The same bodies in runs, each with the memory of its decompressed bodies.

    That memory is valid until the next run is requested.

    Raises:
        CorruptRecord: a body cannot be decompressed, or is too small for its records.
    """
    codecs = bodies[:, BODY_ATTRIBUTES] & COMPRESSION_MASK
    if not codecs.any():
        yield buffer, bodies
        return
    try:
        memory = _spare.pop()
    except IndexError:
        memory = memoryview(mmap(-1, _MEMORY_BYTES, flags=MAP_PRIVATE | MAP_ANONYMOUS))
    try:
        borders = [0, *(np.flatnonzero(np.diff(codecs)) + 1).tolist(), len(bodies)]
        for first, end in itertools.pairwise(borders):
            codec = int(codecs[first])
            if codec == NONE:
                yield buffer, bodies[first:end]
            else:
                yield from _Run(memoryview(buffer), codec, bodies[first:end], memory).groups()
    finally:
        _spare.append(memory)


def _are_frames(
    codec: int, data: memoryview, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> bool:
    """Whether the bodies can be decompressed as one: each consists of whole frames only."""
    if codec == LZ4:
        return lz4_layout.are_whole(data, starts, ends)
    return codec == ZSTD and zstd_frames.are_whole(data, starts, ends)


class _Run:
    """Consecutive bodies with the same codec."""

    def __init__(self, view: memoryview, codec: int, bodies: Bodies, memory: memoryview) -> None:
        self._view = view
        self._codec = codec
        self._decode = decoder_of(codec)
        self._bodies = bodies.copy()
        self._memory = memory
        self._starts = bodies[:, BODY_START]
        self._ends = bodies[:, BODY_END]
        self._sizes_before = np.concatenate(([0], np.cumsum(self._ends - self._starts)))
        self._ratio = _RATIO_AT_FIRST
        self._joins = _are_frames(codec, view, self._starts, self._ends)

    def groups(self) -> Iterator[tuple[Buffer, Bodies]]:
        first = 0
        while first < len(self._bodies):
            end = self._end_of_group(first)
            source, done = self._decompress(first, end)
            group = self._bodies[first:done]
            self._check_counts(group, len(source))
            self._ratio = len(source) / max(1, self._compressed_bytes(first, done))
            first = done
            yield source, group
            del source, group

    def _end_of_group(self, first: int) -> int:
        wanted = self._sizes_before[first] + _GROUP_BYTES / max(self._ratio, 1)
        end = int(np.searchsorted(self._sizes_before, wanted, "right")) - 1
        return max(end, first + 1)

    def _compressed_bytes(self, first: int, end: int) -> int:
        return int(self._sizes_before[end] - self._sizes_before[first])

    def _decompress(self, first: int, end: int) -> tuple[memoryview, int]:
        """Decompress bodies from `first` on; returns their memory, and the row after the last."""
        if self._joins and end - first > 1:
            size = self._decompress_joined(first, end)
            if size is not None:
                self._bodies[first:end, BODY_START] = OPEN
                self._bodies[first:end, BODY_END] = OPEN
                self._bodies[first, BODY_START] = 0
                self._bodies[end - 1, BODY_END] = size
                return self._memory[:size], end
        if self._ratio * self._compressed_bytes(first, first + 1) > len(self._memory):
            return self._decompress_large(first), first + 1
        borders = [0]
        places = zip(self._starts[first:end].tolist(), self._ends[first:end].tolist(), strict=True)
        for start, stop in places:
            room = self._memory[borders[-1] :]
            size = self._decode(self._view[start:stop], room)
            if size is None:
                break
            borders.append(borders[-1] + size)
        if len(borders) == 1:
            return self._decompress_large(first), first + 1
        end = first + len(borders) - 1
        self._bodies[first:end, BODY_START] = borders[:-1]
        self._bodies[first:end, BODY_END] = borders[1:]
        return self._memory[: borders[-1]], end

    def _decompress_joined(self, first: int, end: int) -> int | None:
        """Decompress bodies as one frame; returns the size, None if each needs its own call."""
        places = zip(self._starts[first:end].tolist(), self._ends[first:end].tolist(), strict=True)
        frames = b"".join([self._view[start:stop] for start, stop in places])
        try:
            return JOINED[self._codec](memoryview(frames), self._memory)
        except CorruptRecord:
            return None

    def _decompress_large(self, row: int) -> memoryview:
        """Decompress a body that needs memory of its own."""
        data = self._view[self._starts[row] : self._ends[row]]
        body = memoryview(decompress(self._codec, data, DECOMPRESSED_BYTES_MAX))
        self._bodies[row, BODY_START] = 0
        self._bodies[row, BODY_END] = len(body)
        return body

    def _check_counts(self, group: Bodies, size: int) -> None:
        # The counts, by which memory is allocated, are limited by the decompressed size.
        counts = group[:, BODY_COUNT]
        if int(counts.sum()) > size // RECORD_SIZE_MIN:
            offset = group[0, BODY_BASE_OFFSET]
            raise CorruptRecord(
                f"batches from offset {offset} on: {counts.sum()} records in {size} bytes"
            )
