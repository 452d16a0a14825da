"""Runs of consecutive special batches, decompressed so that a pass handles them as ordinary ones.

One call of a pass handles all batches of a run: compressed batches are decompressed first, and the
transactional attribute is removed. A run is a task for any thread, so its memory is bounded; a
batch that does not fit is left to the caller.
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
#: Limits of a run: enough bytes to be worth waking a thread, but few enough for a CPU cache.
_BATCHES_MAX: Final = 16
_RUN_BYTES: Final = 96 << 10
_DECIDED_MAX: Final = 256
#: Reserved for a decompressed run. Pages are allocated only when written to, and most runs need a
#: sixteenth of this.
UNCOMPRESSED_BYTES_MAX: Final = 4 << 20
_BATCH_LENGTH: Final = slice(8, 12)


class CheckedBatch(NamedTuple):
    """A batch whose CRC is correct, and the batch's location for messages."""

    batch: memoryview
    header: BatchHeader
    where: str

    def failed(self, reason: object) -> CleaningFailed:
        """The exception if the batch's records can't be read."""
        return CleaningFailed(f"{self.where}, offset {self.header.base_offset}: {reason}")


class BatchRun(Generic[D]):
    """Consecutive batches for a pass, and the results of batches that need no pass."""

    def __init__(self) -> None:
        self.batches: list[CheckedBatch] = []
        self.decided: list[D] = []
        self._size_bytes = 0

    def add(self, checked: CheckedBatch) -> None:
        """Add a batch for the pass."""
        self.batches.append(checked)
        self._size_bytes += checked.header.size

    @property
    def is_full(self) -> bool:
        """Whether to start another run with the next batch."""
        return (
            len(self.batches) >= _BATCHES_MAX
            or self._size_bytes >= _RUN_BYTES
            or len(self.decided) >= _DECIDED_MAX
        )


class UncompressedRun:
    """Memory for the decompressed batches of a run."""

    def __init__(self) -> None:
        self.chunk = memoryview(mmap.mmap(-1, UNCOMPRESSED_BYTES_MAX))
        self.size = 0
        self._ends: list[int] = []

    def fill(self, batches: Sequence[CheckedBatch]) -> int:
        """Decompress as many batches as fit; returns their number.

        Raises:
            CleaningFailed: a batch can't be decompressed.
        """
        self.size = 0
        self._ends.clear()
        if len(batches) > 1 and self._fill_at_once(batches):
            return len(batches)
        for checked in batches:
            if not self._append(checked):
                break
            self._ends.append(self.size)
        return len(self._ends)

    def _fill_at_once(self, batches: Sequence[CheckedBatch]) -> bool:
        """Decompress all batches by one call of the codec; False if each needs a separate call.

        Codecs read consecutive frames like a single frame. This avoids creating a decompressor and
        releasing the GIL for each batch. The kernel finds the end of each batch from the header.
        """
        codec = batches[0].header.compression
        decoder = JOINED.get(codec)
        if decoder is None:
            return False
        bodies = [checked.batch[HEADER_SIZE:] for checked in batches]
        if any(checked.header.compression != codec for checked in batches) or (
            codec == LZ4 and not all(map(is_whole, bodies))
        ):
            return False
        headers = b"".join(checked.batch[:HEADER_SIZE] for checked in batches)
        room = UNCOMPRESSED_BYTES_MAX - len(headers)
        try:
            uncompressed = arena_of_thread().decode(decoder, b"".join(bodies), room)
        except CorruptRecord:
            return False
        ends = (ctypes.c_int64 * len(batches))()
        count = compaction_kernels.required().lay_out(
            _address(uncompressed),
            len(uncompressed),
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

    def _append(self, checked: CheckedBatch) -> bool:
        batch, header, _ = checked
        start = self.size
        body_start = start + HEADER_SIZE
        try:
            body = decompress_for_now(
                header.compression,
                batch[HEADER_SIZE:],
                max(0, UNCOMPRESSED_BYTES_MAX - body_start),
            )
        except DecompressedTooLarge:
            return False
        except CorruptRecord as error:
            raise checked.failed(error) from None
        end = body_start + len(body)
        if end > UNCOMPRESSED_BYTES_MAX:
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
