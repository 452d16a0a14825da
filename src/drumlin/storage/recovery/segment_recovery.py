"""Reading and checking a segment batch by batch: the main work of a recovery.

Indexes, leader epochs and producer state are built from the valid batches. A kernel handles the
ordinary batches; the others, or all of them without kernels, are checked here.
"""

from __future__ import annotations

import logging
from typing import Final

from drumlin.records.batch.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, compute_crc, parse_header
from drumlin.records.batch.scan import Scan
from drumlin.records.kernels import record_kernels
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.log.producer_replay import follow_batch
from drumlin.storage.producers.producer_state import ProducerState
from drumlin.storage.segment.segment import BatchPlace, IndexProgress, Segment
from drumlin.storage.segment.segment_times import TimestampAndOffset

_logger = logging.getLogger(__name__)

_STEP_BYTES: Final = 1024 * 1024
_OLD_MAGICS: Final = (0, 1)
#: The minimum size of an old message. Zero bytes at the end of a file would state a smaller size.
_OLD_SIZE_MIN: Final = LOG_OVERHEAD + 14


class UnsupportedFormat(Exception):
    """The log has record batches from before Kafka 0.11; it is left unchanged."""


def recover_segment(
    log: PartitionLog, segment: Segment, end_offset_max: int, end_offset: int
) -> int | None:
    """Read all batches below `end_offset_max`, rebuild indexes, cut after the last valid batch.

    `end_offset` is the end offset of the previous segment's batches.

    Returns:
        The end offset of its batches; None if the file was not valid up to its end.

    Raises:
        UnsupportedFormat: its batches have an old format.
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
            # The epoch starts where the previous batch ends, since its first batches may have been
            # compacted away: an epoch that starts too late would hide diverging records.
            log.leader_epochs.assign(header.leader_epoch, end_offset)
        if header.producer_id >= 0:
            follow_batch(state, segment, place, writes_index=True)
    state.end_offset = max(state.end_offset, batches.offset)
    segment.rest()
    if batches.position == segment.size:
        return end_offset
    _logger.warning(
        "%s: the last %d bytes, from offset %d on, are not valid batches, and are cut off",
        segment.log_file.path,
        segment.size - batches.position,
        batches.offset,
    )
    segment.truncate_to_position(batches.position)
    return None


def _take_over(segment: Segment, scan: Scan, chunk_position: int) -> None:
    """Index the batches of a scan."""
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
    """The batches of a segment, up to the first invalid one.

    A batch is invalid if it is cut off, damaged, out of order, or not below `end_offset`.
    """

    def __init__(self, segment: Segment, end_offset: int) -> None:
        self.position = 0  # the end of all batches so far
        self.offset = segment.base_offset
        self.chunk_position = 0
        self._chunk = b""
        self._path = segment.log_file.path
        self._read = segment.reader()
        self._end = segment.size
        self._end_offset = end_offset

    def _need(self, size: int) -> int:
        """The start of the next batch in the chunk, which is read again if it has too few bytes."""
        start = self.position - self.chunk_position
        if len(self._chunk) - start >= size:
            return start
        self._chunk = self._read(self.position, max(_STEP_BYTES, size))
        self.chunk_position = self.position
        return 0

    def next(self) -> BatchPlace | None:
        """The next batch; None at the end.

        Raises:
            UnsupportedFormat: the first batch has an old format.
        """
        left = self._end - self.position
        if left < HEADER_SIZE:
            return None
        start = self._need(HEADER_SIZE)
        header = parse_header(self._chunk, start)
        size, last_offset = header.size, header.last_offset
        if header.magic in _OLD_MAGICS and self.position == 0 and _OLD_SIZE_MIN <= size <= left:
            raise UnsupportedFormat(f"{self._path} has batches from before Kafka 0.11")
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
        """Let a kernel check the next ordinary batches in the chunk; False if there are none."""
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
