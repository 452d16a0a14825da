"""Stretches of successive batches, unfolded so that a pass takes them for ordinary ones.

One call of a pass handles all batches of a stretch: compressed ones are unfolded uncompressed,
transactional ones without that attribute. A stretch is a task of its own, for any thread. So the
memory it unfolds into is bounded, and a batch that does not fit is left to the caller.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from drumlin.compaction.failures import CleaningFailed
from drumlin.records.batch.batch import (
    ATTRIBUTES_LOW_BYTE,
    COMPRESSION_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Buffer,
    seal,
)
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.crc_table import crc_table
from drumlin.records.compression.arena import DecompressedTooLarge, arena_of_thread
from drumlin.records.compression.compression import LZ4
from drumlin.records.compression.lz4_layout import is_whole
from drumlin.records.compression.stored_bodies import JOINED, decompress_for_now
from drumlin.records.kernels import compaction_kernels

D = TypeVar("D")
#: Enough to be worth waking a thread, and few enough for a processor's cache when unfolded.
_BATCHES_MAX: Final = 16
_STRETCH_BYTES: Final = 96 << 10
_DECIDED_MAX: Final = 256
#: Memory is used only where it is written to; most stretches need a sixteenth of it.
UNFOLDED_BYTES_MAX: Final = 4 << 20
_BATCH_LENGTH: Final = slice(8, 12)


class Taken(NamedTuple):
    """A sound batch, and where it lies."""

    batch: memoryview
    header: BatchHeader
    where: str

    def failed(self, reason: object) -> CleaningFailed:
        """The error to raise if it can't be read."""
        return CleaningFailed(f"{self.where}, offset {self.header.base_offset}: {reason}")


class Stretch(Generic[D]):
    """Successive batches, and the decisions about others among them."""

    def __init__(self) -> None:
        self.batches: list[Taken] = []
        self.decided: list[D] = []
        self._size_bytes = 0

    def add(self, taken: Taken) -> None:
        """Add a batch that is to be unfolded."""
        self.batches.append(taken)
        self._size_bytes += taken.header.size

    @property
    def is_full(self) -> bool:
        """Whether the next batch should go into another stretch."""
        return (
            len(self.batches) >= _BATCHES_MAX
            or self._size_bytes >= _STRETCH_BYTES
            or len(self.decided) >= _DECIDED_MAX
        )


class Unfolded:
    """Memory with the batches of a stretch, uncompressed."""

    def __init__(self) -> None:
        self.chunk = memoryview(mmap.mmap(-1, UNFOLDED_BYTES_MAX))
        self.size = 0
        self._ends: list[int] = []

    def fill(self, batches: Sequence[Taken]) -> int:
        """Unfold as many batches as there is room for; returns their number.

        Raises:
            CleaningFailed: one can't be decompressed.
        """
        self.size = 0
        self._ends.clear()
        if len(batches) > 1 and self._fill_at_once(batches):
            return len(batches)
        for taken in batches:
            if not self._append(taken):
                break
            self._ends.append(self.size)
        return len(self._ends)

    def _fill_at_once(self, batches: Sequence[Taken]) -> bool:
        """Unfold all of them by one call of the codec; False if they must be unfolded one by one.

        Successive frames are read like one. That spares creating a decompressor, and releasing the
        GIL, for each batch. The headers tell where the records of each batch end.
        """
        codec = batches[0].header.compression
        decoder = JOINED.get(codec)
        if decoder is None:
            return False
        bodies = [taken.batch[HEADER_SIZE:] for taken in batches]
        if any(taken.header.compression != codec for taken in batches) or (
            codec == LZ4 and not all(map(is_whole, bodies))
        ):
            return False
        headers = b"".join(taken.batch[:HEADER_SIZE] for taken in batches)
        room = UNFOLDED_BYTES_MAX - len(headers)
        try:
            unfolded = arena_of_thread().decode(decoder, b"".join(bodies), room)
        except CorruptRecord:
            return False
        ends = (ctypes.c_int64 * len(batches))()
        count = compaction_kernels.required().lay_out(
            _address(unfolded),
            len(unfolded),
            headers,
            len(batches),
            _address(self.chunk),
            ends,
            crc_table(),
        )
        if count < len(batches):
            return False
        self._ends += ends
        self.size = ends[-1]
        return True

    def _append(self, taken: Taken) -> bool:
        batch, header, _ = taken
        start = self.size
        body_start = start + HEADER_SIZE
        try:
            body = decompress_for_now(
                header.compression,
                batch[HEADER_SIZE:],
                max(0, UNFOLDED_BYTES_MAX - body_start),
            )
        except DecompressedTooLarge:
            return False
        except CorruptRecord as error:
            raise taken.failed(error) from None
        end = body_start + len(body)
        if end > UNFOLDED_BYTES_MAX:
            return False
        chunk = self.chunk
        chunk[start:body_start] = batch[:HEADER_SIZE]
        chunk[body_start:end] = body
        chunk[start:body_start][_BATCH_LENGTH] = (end - start - LOG_OVERHEAD).to_bytes(4, "big")
        chunk[start + ATTRIBUTES_LOW_BYTE] &= ~(COMPRESSION_MASK | TRANSACTIONAL_MASK) & 0xFF
        seal(chunk, start, end - start)
        self.size = end
        return True

    def index_of(self, position: int) -> int:
        """The number of the batch that contains a position."""
        return next(index for index, end in enumerate(self._ends) if position < end)


def _address(buffer: Buffer) -> Any:
    """The address of a buffer for a kernel; None if it is empty."""
    return ctypes.byref(ctypes.c_char.from_buffer(buffer)) if len(buffer) else None
