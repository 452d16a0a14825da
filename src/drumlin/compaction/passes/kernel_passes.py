"""A cleaning's two passes over the batches in a log, in machine code that releases the GIL.

Pass 1 puts the last offset of every key into the map; pass 2 writes the surviving records. Both
process a chunk of log bytes batch by batch. A pass handles *ordinary* batches: neither compressed
nor transactional nor control batches. A pass stops before any other batch, a *special* batch. Then
the caller verifies the CRC of the batch, passes the decompressed records (`map_body`,
`filter_body`), and writes the batch itself.

A pass never opens a file, and no content of a log can make it read or write outside its buffers.
"""

from __future__ import annotations

import ctypes
from typing import Any

from drumlin.compaction.passes.offset_map import OffsetMap
from drumlin.compaction.passes.pass_outcomes import (
    FAULTS,
    check_header,
    filtered_body,
    new_horizon_ms,
    pass_over,
)
from drumlin.compaction.passes.passes import (
    Chunk,
    FilteredBody,
    FilterFacts,
    FilterRules,
    FilterStop,
    MapFacts,
    Reason,
    Stop,
)
from drumlin.records.batch.batch import NO_TIMESTAMP, BatchHeader, Buffer
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.crc_table import crc_table
from drumlin.records.batch.scan import IndexEntry
from drumlin.records.batch.varint import INT64_MAX
from drumlin.records.kernels import compaction_layout as at
from drumlin.records.kernels.layout import SCAN_ENTRIES_MAX, SCAN_ENTRY_WIDTH
from drumlin.records.kernels.machine_code import CompactionKernels

_MapState = ctypes.c_int64 * at.MAP_STATE_WIDTH
_FilterState = ctypes.c_int64 * at.FILTER_STATE_WIDTH
_Entries = ctypes.c_int64 * (SCAN_ENTRIES_MAX * SCAN_ENTRY_WIDTH)


class MapPass:
    """Pass 1 over one log. It has processed everything up to `offset_map.latest_offset`."""

    def __init__(
        self, kernels: CompactionKernels, offset_map: OffsetMap, first_offset: int, end_offset: int
    ) -> None:
        assert first_offset >= offset_map.base_offset
        self._kernels = kernels
        self._map = offset_map
        self._state = _MapState()
        self._state[at.MAP_FIRST_OFFSET] = first_offset
        self._state[at.MAP_END_OFFSET] = min(end_offset, INT64_MAX)

    @property
    def end_offset(self) -> int:
        """The offset at which the pass ends: a caller sets the end offset of each segment.

        A batch beyond the end offset has a damaged base offset, which the CRC does not cover.
        """
        return self._state[at.MAP_END_OFFSET]

    @end_offset.setter
    def end_offset(self, offset: int) -> None:
        self._state[at.MAP_END_OFFSET] = min(offset, INT64_MAX)

    def run(self, chunk: Chunk, size: int, position: int = 0) -> Stop:
        """Put the records of the ordinary batches in `chunk[position:size]` into the map.

        Records below the first dirty offset are skipped, whole batches unread; a batch at
        or after the end offset ends the pass (DONE). When the map is FULL, its `latest_offset`
        precedes the first record that did not fit, and may precede all records. After CORRUPT the
        map is unusable.

        Stops: END, SPECIAL, DONE, FULL, CORRUPT.
        """
        state = self._state
        assert 0 <= position <= size <= len(chunk)
        state[at.MAP_POSITION] = position
        status = self._kernels.map_batches(
            _pointer(chunk), size, self._map.words, state, crc_table()
        )
        return Stop(*_outcome(status, state[at.MAP_POSITION], state))

    def map_body(self, body: Buffer, header: BatchHeader) -> Reason:
        """Put the records of a batch, given its decompressed body: END, DONE or FULL.

        Raises:
            CorruptRecord: the records don't match the header.
        """
        _take_header(self._state, header)
        status = self._kernels.map_records(_pointer(body), len(body), self._map.words, self._state)
        if status >= at.FAULT_MAGIC:
            raise CorruptRecord(FAULTS[status])
        return Reason(status)

    def pass_over(self, header: BatchHeader) -> Reason:
        """Skip a control batch or an aborted batch: END or DONE."""
        return pass_over(
            self._map, header, self._state[at.MAP_FIRST_OFFSET], self._state[at.MAP_END_OFFSET]
        )

    @property
    def facts(self) -> MapFacts:
        return MapFacts._make(self._state[at.MAP_BATCHES : at.MAP_KEYLESS + 1])


class FilterPass:
    """Pass 2 over one log.

    A batch that begins before `next_offset`, the end offset of the batches processed so far, or
    ends after `end_offset`, the segment's end offset, is corrupt. `unindexed_bytes` counts the
    bytes since the last index entry. `largest_timestamp` is the file's largest timestamp, with the
    last offset of the first batch that has it. The caller sets these values at the beginning of a
    segment or a file, and updates them when the caller handles a batch itself.
    """

    def __init__(
        self,
        kernels: CompactionKernels,
        offset_map: OffsetMap,
        rules: FilterRules,
        index_interval_bytes: int,
    ) -> None:
        """A batch gets an index entry after more than `index_interval_bytes` without an entry.

        With -1, every batch gets an entry.
        """
        self._kernels = kernels
        self._map = offset_map
        self._rules = rules
        self._state = state = _FilterState()
        self._entries = _Entries()
        self._body = bytearray()
        state[at.FILTER_NOW_MS] = rules.passed_until_ms
        state[at.FILTER_NEW_HORIZON_MS] = new_horizon_ms(rules)
        state[at.FILTER_INTERVAL] = index_interval_bytes
        state[at.FILTER_LARGEST_TIMESTAMP] = state[at.FILTER_LARGEST_OFFSET] = NO_TIMESTAMP
        state[at.FILTER_END_OFFSET] = state[at.FILTER_EARLIEST_HORIZON] = INT64_MAX
        # All memory whose address is passed to kernels must live as long as this object.
        self._kept_empty = (ctypes.c_int64 * len(rules.kept_empty))(*rules.kept_empty)
        state[at.FILTER_KEPT_EMPTY] = ctypes.addressof(self._kept_empty)
        state[at.FILTER_KEPT_EMPTY_COUNT] = len(rules.kept_empty)
        self._bitmap: Any = None
        if rules.bitmap:
            self._bitmap = ctypes.c_char.from_buffer(rules.bitmap)
            state[at.FILTER_BITMAP] = ctypes.addressof(self._bitmap)
            state[at.FILTER_BITMAP_START] = rules.bitmap_start
            state[at.FILTER_BITMAP_END] = rules.bitmap_start + 8 * len(rules.bitmap)

    @property
    def next_offset(self) -> int:
        return self._state[at.FILTER_NEXT_OFFSET]

    @next_offset.setter
    def next_offset(self, offset: int) -> None:
        self._state[at.FILTER_NEXT_OFFSET] = offset

    @property
    def end_offset(self) -> int:
        return self._state[at.FILTER_END_OFFSET]

    @end_offset.setter
    def end_offset(self, offset: int) -> None:
        self._state[at.FILTER_END_OFFSET] = offset

    @property
    def unindexed_bytes(self) -> int:
        return self._state[at.FILTER_UNINDEXED]

    @unindexed_bytes.setter
    def unindexed_bytes(self, size_bytes: int) -> None:
        self._state[at.FILTER_UNINDEXED] = size_bytes

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        state = self._state
        return state[at.FILTER_LARGEST_TIMESTAMP], state[at.FILTER_LARGEST_OFFSET]

    @largest_timestamp.setter
    def largest_timestamp(self, largest: tuple[int, int]) -> None:
        state = self._state
        state[at.FILTER_LARGEST_TIMESTAMP], state[at.FILTER_LARGEST_OFFSET] = largest

    def run(
        self,
        chunk: Chunk,
        size: int,
        output: Chunk,
        *,
        position: int = 0,
        output_size: int = 0,
        file_position: int = 0,
    ) -> FilterStop:
        """Append the surviving records of the ordinary batches in `chunk[position:size]`.

        A batch whose records all survive is copied unchanged. Any other keeps its header except for
        size, count, largest timestamp and CRC; a new delete horizon also changes base timestamp and
        deltas, so that records grow. The CRC is verified before a batch is changed.

        Args:
            output_size: the used part of `output`, to which the batches are appended.
            file_position: the position of `output`'s first byte in the file.

        Stops: END, SPECIAL, FULL, CORRUPT. New index entries are in `entries`.
        """
        state = self._state
        assert 0 <= position <= size <= len(chunk)
        assert 0 <= output_size <= len(output)
        state[at.FILTER_POSITION] = position
        state[at.FILTER_OUTPUT_SIZE] = output_size
        state[at.FILTER_FILE_POSITION] = file_position
        state[at.FILTER_ENTRY_COUNT] = state[at.FILTER_ROOM_NEEDED] = 0
        status = self._kernels.filter_batches(
            _pointer(chunk),
            size,
            _pointer(output),
            len(output),
            self._map.words,
            state,
            self._entries,
            crc_table(),
        )
        return FilterStop(
            *_outcome(status, state[at.FILTER_POSITION], state),
            state[at.FILTER_OUTPUT_SIZE],
            state[at.FILTER_ROOM_NEEDED],
        )

    @property
    def entries(self) -> list[IndexEntry]:
        """The index entries of the last `run`, with positions in the file."""
        numbers = self._entries[: self._state[at.FILTER_ENTRY_COUNT] * SCAN_ENTRY_WIDTH]
        fields = [numbers[field::SCAN_ENTRY_WIDTH] for field in range(SCAN_ENTRY_WIDTH)]
        return list(map(IndexEntry, *fields))

    def filter_body(self, body: Buffer, header: BatchHeader) -> FilteredBody:
        """The surviving records of a batch, given its decompressed body.

        Raises:
            CorruptRecord: the records don't match the header.
        """
        state = self._state
        _take_header(state, header)
        room = len(body) * at.REBASED_BODY_GROWTH_MAX
        if room > len(self._body):
            self._body = bytearray(room)
        status = self._kernels.filter_records(
            _pointer(body),
            len(body),
            _pointer(self._body),
            len(self._body),
            self._map.words,
            state,
        )
        if status >= at.FAULT_MAGIC:
            raise CorruptRecord(FAULTS[status])
        assert status == at.STOP_END
        return filtered_body(
            self._rules,
            header,
            body,
            memoryview(self._body)[: state[at.FILTER_OUTPUT_SIZE]],
            state[at.FILTER_BATCH + at.BATCH_RECORDS_WRITTEN],
            state[at.FILTER_BATCH + at.BATCH_MAX_TIMESTAMP],
            state[at.FILTER_NEW_HORIZON_MS] if state[at.FILTER_HORIZON_IS_DUE] else None,
        )

    @property
    def earliest_horizon_ms(self) -> int:
        """The earliest delete horizon of the kept tombstones; `NO_HORIZON` if there are none.

        A horizon that has passed only counts if the rules keep such tombstones.
        """
        return self._state[at.FILTER_EARLIEST_HORIZON]

    @property
    def facts(self) -> FilterFacts:
        state = self._state
        records = at.FILTER_FACTS
        return FilterFacts(
            batches_read=state[at.FILTER_BATCHES_READ],
            bytes_read=state[at.FILTER_BYTES_READ],
            records_read=state[records + at.BATCH_RECORDS_READ],
            batches_written=state[at.FILTER_BATCHES_WRITTEN],
            bytes_written=state[at.FILTER_BYTES_WRITTEN],
            records_written=state[records + at.BATCH_RECORDS_WRITTEN],
            superseded=state[records + at.BATCH_SUPERSEDED],
            tombstones_dropped=state[records + at.BATCH_TOMBSTONES_DROPPED],
            keyless=state[records + at.BATCH_KEYLESS],
            tombstones_kept=state[records + at.BATCH_TOMBSTONES_KEPT],
        )


def _pointer(buffer: Buffer) -> Any:
    """The address of a buffer for ctypes, which keeps its memory in place."""
    if isinstance(buffer, bytes):
        return buffer
    if not len(buffer):
        return None
    if isinstance(buffer, memoryview) and buffer.readonly:
        return bytes(buffer)  # ctypes gives no address of read-only memory
    return ctypes.byref(ctypes.c_char.from_buffer(buffer))


def _take_header(state: Any, header: BatchHeader) -> None:
    """Store the fields of a header in the state of the kernels.

    Raises:
        CorruptRecord: the fields are impossible.
    """
    check_header(header)
    state[: at.HEAD_WIDTH] = (
        header.size,
        header.base_offset,
        header.last_offset_delta,
        header.attributes,
        header.base_timestamp,
        header.max_timestamp,
        header.record_count,
    )


def _outcome(status: int, position: int, state: Any) -> tuple[Reason, int, int, str]:
    """The fields of a `Stop`."""
    size = state[at.HEAD_SIZE]
    if status >= at.FAULT_MAGIC:
        return Reason.CORRUPT, position, size, FAULTS[status]
    return Reason(status), position, size, ""
