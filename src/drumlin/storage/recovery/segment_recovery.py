"""Reading a segment again, batch by batch with its CRC: the main work of a recovery.

Indexes, leader epochs and producer state are built from the sound batches. A kernel handles the
ordinary batches; the others, and all of them where there are no kernels, are checked here.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from drumlin.records.batch.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, compute_crc, parse_header
from drumlin.records.batch.scan import Scan
from drumlin.records.kernels import record_kernels
from drumlin.storage.log.producer_replay import follow_batch
from drumlin.storage.segment.segment import BatchPlace, IndexProgress, Segment
from drumlin.storage.segment.segment_times import TimestampAndOffset

if TYPE_CHECKING:
    from drumlin.storage.log.partition_log import PartitionLog
    from drumlin.storage.producers.producer_state import ProducerState

_logger = logging.getLogger(__name__)

_STEP_BYTES: Final = 1024 * 1024
_OLD_MAGICS: Final = (0, 1)
#: The size of a message without key and value; a run of zeros claims a smaller one.
_OLD_SIZE_MIN: Final = LOG_OVERHEAD + 14


class UnsupportedFormat(Exception):
    """Record batches from before Kafka 0.11: they are left as they are."""


def recover_segment(
    log: PartitionLog, segment: Segment, end_offset_max: int, end_offset: int
) -> int | None:
    """Read all batches below `end_offset_max`, rebuild indexes, cut after the last sound batch.

    `end_offset` is where the batches before it end.

    Returns:
        Where its batches end; None: not the whole file was sound.

    Raises:
        UnsupportedFormat: its batches are of an old format.
    """
    state, interval = log.producer_state, log.config.index_interval_bytes
    segment.start_indexes_anew()
    segment.transaction_index.clear()
    batches = SoundBatches(segment, end_offset_max)
    kernels = record_kernels.loaded
    scan = None if kernels is None else Scan(kernels, end_offset_max, interval)
    while True:
        latest_epoch = log.leader_epochs.latest_epoch
        if scan and batches.pass_ordinary(scan, latest_epoch, segment.index_progress):
            _take_over(segment, scan, batches.chunk_position)
            _follow_producers(state, scan)
        if batches.position:
            end_offset = batches.offset
        place = batches.next()
        if place is None:
            break
        header = place.header
        segment.index_batch(place, header.size, interval)
        if header.leader_epoch > log.leader_epochs.latest_epoch:
            # Not at its base offset, nor where the segment begins: the first batches of the epoch
            # may have been cleaned away. Too late, and diverged records would be taken for ours.
            log.leader_epochs.assign(header.leader_epoch, end_offset)
        if header.producer_id >= 0:
            follow_batch(state, segment, place, writes_index=True)
    state.end_offset = max(state.end_offset, batches.offset)
    segment.rest()
    if batches.position == segment.size:
        return end_offset
    _logger.warning(
        "%s: the last %d bytes, from offset %d on, are no sound batches and are cut off",
        segment.log_file.path,
        segment.size - batches.position,
        batches.offset,
    )
    segment.truncate_to_position(batches.position)
    return None


def _take_over(segment: Segment, scan: Scan, chunk_position: int) -> None:
    """Index the batches that the scan passed over."""
    entries = scan.entries(chunk_position)
    largest = TimestampAndOffset(*scan.largest_timestamp)
    segment.take_over_index(entries, IndexProgress(largest, scan.unindexed_bytes))


def _follow_producers(state: ProducerState, scan: Scan) -> None:
    known, end_offset = state.end_offset, state.end_offset
    for header in scan.producers_batches():
        if header.last_offset >= known:
            state.update(header, header.base_offset, header.max_timestamp)
            end_offset = max(end_offset, header.end_offset)
    state.end_offset = end_offset


class SoundBatches:
    """Batches of a segment, up to the first that is not sound.

    That is one that is cut off, garbled, out of order, or reaches `end_offset`.
    """

    def __init__(self, segment: Segment, end_offset: int) -> None:
        self.position = 0  # after all batches so far
        self.offset = segment.base_offset
        self.chunk_position = 0
        self._chunk = b""
        self._path = segment.log_file.path
        self._read = segment.reader()
        self._end = segment.size
        self._end_offset = end_offset

    def _need(self, size: int) -> int:
        """The start of the next batch in the chunk, read again if it lacks `size` bytes of it."""
        start = self.position - self.chunk_position
        if len(self._chunk) - start >= size:
            return start
        self._chunk = self._read(self.position, max(_STEP_BYTES, size))
        self.chunk_position = self.position
        return 0

    def next(self) -> BatchPlace | None:
        """The next batch, or None where they end.

        Raises:
            UnsupportedFormat: the first one is of an old format.
        """
        left = self._end - self.position
        if left < HEADER_SIZE:
            return None
        start = self._need(HEADER_SIZE)
        header = parse_header(self._chunk, start)
        size, last_offset = header.size, header.last_offset
        if header.magic in _OLD_MAGICS and self.position == 0 and _OLD_SIZE_MIN <= size <= left:
            raise UnsupportedFormat(f"{self._path} has batches of before Kafka 0.11")
        if (
            header.magic != MAGIC
            or not HEADER_SIZE <= size <= left
            or not self.offset <= header.base_offset <= last_offset < self._end_offset
        ):
            return None
        start = self._need(size)
        if compute_crc(self._chunk, start, size) != header.crc:
            return None
        place = BatchPlace(self.position, header)
        self.position += size
        self.offset = last_offset + 1
        return place

    def pass_ordinary(self, scan: Scan, leader_epoch: int, progress: IndexProgress) -> bool:
        """Let a kernel pass over the ordinary batches that come next in the chunk, if any do."""
        if self._end - self.position < HEADER_SIZE:
            return False
        start = self._need(HEADER_SIZE)
        passed, self.offset = scan.scan(
            self._chunk,
            start,
            self.offset,
            leader_epoch,
            progress.largest_timestamp,
            progress.unindexed_bytes,
        )
        self.position = self.chunk_position + passed
        return passed > start
