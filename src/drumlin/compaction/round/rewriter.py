"""Pass 2 of a cleaning: rewriting segments with their surviving records, in order.

Writes to an `Output`, which need not be a file: a simulation only counts.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from drumlin.compaction.failures import CleaningFailed
from drumlin.compaction.passes.batch_runs import BatchRun, CheckedBatch
from drumlin.compaction.passes.batches import (
    marker_in,
    records_of,
    sound_header,
    special_size,
    with_delete_horizon,
    with_records,
    without_records,
)
from drumlin.compaction.passes.kernel_passes import FilterPass
from drumlin.compaction.passes.pass_outcomes import FAULTS, new_horizon_ms
from drumlin.compaction.passes.passes import NO_HORIZON, FilterRules, IndexEntry, Reason
from drumlin.compaction.passes.run_filter import Filtered, RunFilters
from drumlin.compaction.passes.survivor_bitmap import SurvivorBitmap
from drumlin.compaction.passes.transactions import OpenTransactions, TransactionFilter
from drumlin.compaction.round.executor import Executor, OrderedResults
from drumlin.compaction.round.segment_reader import SegmentChunk, SegmentReader
from drumlin.compaction.statistics import CleaningStatistics
from drumlin.records.batch.batch import (
    BatchHeader,
    Buffer,
    iterate_headers,
    parse_header,
    parse_offset_and_length,
)
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.varint import INT64_MAX
from drumlin.records.kernels.compaction_layout import FAULT_ORDER
from drumlin.storage.segment.segment import IndexProgress, Segment
from drumlin.storage.segment.segment_times import TimestampAndOffset
from drumlin.storage.segment.transaction_index import AbortedTransaction

_OUTPUT_BYTES: Final = 2 << 20
_NOTHING_INDEXED: Final = IndexProgress(TimestampAndOffset(-1, -1), 0)


class Output(Protocol):
    """The destination of surviving batches, in order, in one file after another."""

    @property
    def position(self) -> int:
        """The position of the next byte in the current file."""

    def fits(self, size: int, last_offset: int) -> bool:
        """Whether batches of `size` bytes, up to `last_offset`, still fit into the file."""

    def write(
        self,
        batches: memoryview,
        last_offset: int,
        entries: Sequence[IndexEntry],
        progress: IndexProgress,
    ) -> None:
        """Append whole batches, with their index entries."""

    def next_file(self, base_offset: int) -> None:
        """Begin another file, for batches from `base_offset` on."""

    def keep_aborted(self, transaction: AbortedTransaction) -> None:
        """Add an aborted transaction whose marker is kept to the index."""


class LiveProducers(NamedTuple):
    """The batches that hold the state of producers: at least their headers must survive."""

    last_data_offsets: Mapping[int, int]
    #: Producer id -> epoch, of producers that have only markers in the log.
    epochs_of_markers: Mapping[int, int]

    def need(self, header: BatchHeader) -> bool:
        """Whether a batch holds the state of its producer."""
        if not header.has_producer_id:
            return False
        last_data_offset = self.last_data_offsets.get(header.producer_id)
        if last_data_offset is not None:
            return header.last_offset == last_data_offset
        epoch = self.epochs_of_markers.get(header.producer_id)
        return header.is_control and epoch == header.producer_epoch


class SpecialFacts:
    """Counts of the special batches that no pass has counted."""

    def __init__(self) -> None:
        self.bytes_read = 0
        self.bytes_written = 0
        self.aborted_records = 0
        #: Records of batches that were dropped without being decompressed.
        self.superseded_records = 0
        self.markers_read = 0
        self.markers_removed = 0
        #: The earliest delete horizon of the markers that were kept.
        self.earliest_horizon_ms = NO_HORIZON

    def note_horizon(self, horizon_ms: int) -> None:
        self.earliest_horizon_ms = min(self.earliest_horizon_ms, horizon_ms)


class Rewriter:
    """The second pass over consecutive segments."""

    def __init__(
        self,
        new_pass: Callable[[int], FilterPass],
        rules: FilterRules,
        producers: LiveProducers,
        survivors: SurvivorBitmap | None,
        reader: SegmentReader,
        executor: Executor,
        index_interval_bytes: int,
        transactions: OpenTransactions,
    ) -> None:
        """Start at an offset where `transactions` are open.

        `new_pass` takes the index interval, and must be thread-safe.
        """
        self._pass = new_pass(index_interval_bytes)
        self._filters = RunFilters(lambda: new_pass(INT64_MAX))
        self._rules = rules
        self._producers = producers
        self._survivors = survivors
        self._reader = reader
        self._executor = executor
        self._interval = index_interval_bytes
        self._transactions = TransactionFilter(transactions)
        self._kept_empty = frozenset(rules.kept_empty)
        self._buffer = mmap.mmap(-1, _OUTPUT_BYTES)
        self._filled = 0
        self._entries: list[IndexEntry] = []
        self._last_offset = -1  # at least the last offset in the buffer
        #: The index progress in the file, without the contents of the buffer.
        self._progress = _NOTHING_INDEXED
        self.special = SpecialFacts()

    def count(self, done: CleaningStatistics) -> None:
        """Add the counts of all passes to `done`."""
        own, special = self._pass.facts, self.special
        own_horizon_ms = self._pass.earliest_horizon_ms
        done.bytes_read += own.bytes_read + special.bytes_read
        done.bytes_written += own.bytes_written + special.bytes_written
        done.records_read += special.aborted_records + special.markers_read
        done.records_read += special.superseded_records
        done.records_written += special.markers_read - special.markers_removed
        done.superseded += special.superseded_records
        for facts in (own, *self._filters.facts):
            done.records_read += facts.records_read
            done.records_written += facts.records_written
            done.superseded += facts.superseded
            done.expired_tombstones += facts.tombstones_dropped
            done.tombstones_kept += facts.tombstones_kept
            done.without_key += facts.keyless
        done.aborted += special.aborted_records
        done.markers_removed += special.markers_removed
        done.delete_horizon_ms = min(
            own_horizon_ms, self._filters.earliest_horizon_ms, special.earliest_horizon_ms
        )

    @property
    def deletions_dropped(self) -> int:
        """The number of tombstones and markers that were dropped after their delete horizon."""
        passes = (self._pass.facts, *self._filters.facts)
        return sum(each.tombstones_dropped for each in passes) + self.special.markers_removed

    @property
    def open_transactions(self) -> OpenTransactions:
        """The transactions that are open after the last rewritten segment."""
        return self._transactions.open_transactions

    def begin_file(self) -> None:
        """Begin a new file, with empty indexes."""
        self._continue_from(_NOTHING_INDEXED)

    def forget_file(self) -> None:
        """Drop the rewritten batches since `begin_file`."""
        self._filled = 0
        self._entries = []
        self._transactions.take_kept()

    def _continue_from(self, progress: IndexProgress) -> None:
        self._pass.largest_timestamp, self._pass.unindexed_bytes = progress
        self._progress = progress

    def rewrite(
        self,
        segment: Segment,
        end_offset: int,
        aborted: Iterable[AbortedTransaction],
        output: Output,
    ) -> None:
        """Write the surviving batches of a segment that ends at `end_offset`.

        `aborted` are the aborted transactions that overlap the segment.

        Raises:
            CleaningFailed, CleaningStopped, OSError
        """
        self._pass.end_offset = end_offset
        self._last_offset = end_offset - 1
        self._transactions.add_aborted(aborted)
        for chunk in self._reader.chunks(segment):
            self._take(chunk, output)
        self._flush(output)
        for transaction in self._transactions.take_kept():
            output.keep_aborted(transaction)

    def _take(self, chunk: SegmentChunk, output: Output) -> None:
        while True:
            stop = self._pass.run(
                chunk.view,
                len(chunk.view),
                memoryview(self._buffer),
                position=chunk.used,
                output_size=self._filled,
                file_position=output.position,
            )
            chunk.used = stop.position
            self._filled = stop.output_size
            self._entries += self._pass.entries
            if stop.reason is Reason.END:
                return
            if stop.reason is Reason.CORRUPT:
                raise CleaningFailed(f"{chunk.where}: {stop.fault}")
            if stop.reason is Reason.FULL:
                self._flush(output)
                self._have_room(stop.room_needed)
                continue
            self._take_specials(chunk, stop.batch_size, output)

    # -- special batches -----------------------------------------------------------------

    def _take_specials(self, chunk: SegmentChunk, size: int, output: Output) -> None:
        """Rewrite the batches up to the first ordinary one."""
        with contextlib.closing(self._filtered(chunk, size)) as runs:
            for left, rest in runs:
                for checked in rest:
                    kept = self._rewrite_alone(checked)
                    if kept is not None:
                        left.append(kept)
                for batch in sorted(left, key=_base_offset):
                    self._put(batch, output)

    def _filtered(self, chunk: SegmentChunk, size: int) -> Generator[Filtered]:
        run: BatchRun[Buffer] = BatchRun()
        with OrderedResults[Filtered](self._executor) as steps:
            while size:
                self._decide(chunk.view[chunk.used :][:size], chunk.where, run)
                chunk.used += size
                self.special.bytes_read += size
                size = special_size(chunk.view, chunk.used)
                if run.is_full:
                    yield from steps.add_task(functools.partial(self._filters.filter, run))
                    run = BatchRun()
            yield from steps.finish(functools.partial(self._filters.filter, run))

    def _decide(self, batch: memoryview, where: str, run: BatchRun[Buffer]) -> None:
        """Add a batch to a run, or its result if no pass is needed."""
        header = sound_header(batch, where)
        if header.base_offset < self._pass.next_offset or header.end_offset > self._pass.end_offset:
            raise CleaningFailed(f"{where}: {FAULTS[FAULT_ORDER]}")
        self._pass.next_offset = header.end_offset
        if header.is_control:
            kept = self._rewrite_control(batch, header, where)
        elif self._transactions.take_batch(header):
            self.special.aborted_records += header.record_count
            kept = self._emptied(header)
        elif self._survivors is not None and self._survivors.has_none_of(header):
            self.special.superseded_records += header.record_count
            kept = self._emptied(header)
        else:
            run.add(CheckedBatch(batch, header, where))
            return
        if kept is not None:
            run.decided.append(kept)

    def _rewrite_alone(self, checked: CheckedBatch) -> Buffer | None:
        """Rewrite a batch that is too large for a run; None if nothing is left."""
        batch, header, where = checked
        try:
            kept = self._pass.filter_body(records_of(batch, header, where), header)
        except CorruptRecord as error:
            raise checked.failed(error) from None
        if not kept.record_count:
            return self._emptied(header)
        return batch if kept.is_unchanged else with_records(header, kept, kept.body)

    def _rewrite_control(self, batch: memoryview, header: BatchHeader, where: str) -> Buffer | None:
        marker = marker_in(batch, header, where)
        self.special.markers_read += header.record_count
        if marker is None and header.record_count:
            return batch  # an unknown kind of control batch
        is_obsolete = self._transactions.take_marker(header, marker)
        if not is_obsolete:
            return batch
        if marker is None:
            return self._emptied(header)
        if not header.has_delete_horizon:
            horizon_ms = new_horizon_ms(self._rules)
            self.special.note_horizon(horizon_ms)
            return with_delete_horizon(batch, header, horizon_ms)
        if header.base_timestamp > self._rules.passed_until_ms:
            self.special.note_horizon(header.base_timestamp)
            return batch
        self.special.markers_removed += 1
        return self._emptied(header)

    def _emptied(self, header: BatchHeader) -> bytearray | None:
        """The batch without records, if its header is still needed; else None."""
        if header.last_offset in self._kept_empty or self._producers.need(header):
            return without_records(header)
        return None

    # -- writing -------------------------------------------------------------------------

    def _put(self, batch: Buffer, output: Output) -> None:
        """Append a batch to the buffer."""
        size = len(batch)
        if self._filled + size > len(self._buffer):
            self._flush(output)
            self._have_room(size)
        position = output.position + self._filled
        self._buffer[self._filled : self._filled + size] = batch
        self._filled += size
        self.special.bytes_written += size
        self._index(parse_header(batch), position)

    def _index(self, header: BatchHeader, position: int) -> None:
        """Add an index entry for a batch if one is due, by the same rule as the pass."""
        if header.max_timestamp > self._pass.largest_timestamp[0]:
            self._pass.largest_timestamp = (header.max_timestamp, header.last_offset)
        if self._pass.unindexed_bytes > self._interval:
            largest = self._pass.largest_timestamp
            self._entries.append(IndexEntry(header.last_offset, position, *largest))
            self._pass.unindexed_bytes = 0
        self._pass.unindexed_bytes += header.size

    def _have_room(self, room_needed: int) -> None:
        """Enlarge the buffer, which must be empty, if necessary."""
        if room_needed > len(self._buffer):
            self._buffer = mmap.mmap(-1, 2 * room_needed)

    def _flush(self, output: Output) -> None:
        if not self._filled:
            return
        batches = memoryview(self._buffer)[: self._filled]
        if output.fits(len(batches), self._last_offset):
            self._write(batches, self._last_offset, output)
        else:
            self._write_apart(batches, output)
        self._filled = 0

    def _write(self, batches: memoryview, last_offset: int, output: Output) -> None:
        largest = TimestampAndOffset(*self._pass.largest_timestamp)
        self._progress = IndexProgress(largest, self._pass.unindexed_bytes)
        output.write(batches, last_offset, self._entries, self._progress)
        self._entries = []

    def _write_apart(self, batches: memoryview, output: Output) -> None:
        """Write into as many files as needed, batch by batch.

        A batch that was compressed again, or got a delete horizon, may be larger than before. Or
        the last batch fits into the index, but the segment's end offset, far beyond, does not.
        """
        self._continue_from(self._progress)
        self._entries = []
        start, last_offset = 0, -1
        for position, header in iterate_headers(batches):
            is_empty = output.position == 0 and position == start
            end = position + header.size
            if not is_empty and not output.fits(end - start, header.last_offset):
                if position > start:
                    self._write(batches[start:position], last_offset, output)
                output.next_file(header.base_offset)
                self.begin_file()
                start = position
            self._index(header, output.position + position - start)
            last_offset = header.last_offset
        self._write(batches[start:], last_offset, output)


def _base_offset(batch: Buffer) -> int:
    return parse_offset_and_length(batch, 0)[0]
