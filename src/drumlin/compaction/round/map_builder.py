"""Pass 1 of a cleaning: building the map of the last offset of each key in the dirty part.

Reads segment by segment until the map is full; the offset reached is the end of the round. Skips
aborted records and control records.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple

from drumlin.compaction.failures import CleaningFailed
from drumlin.compaction.passes.batch_runs import BatchRun, CheckedBatch, UncompressedRun
from drumlin.compaction.passes.batches import marker_in, records_of, sound_header, special_size
from drumlin.compaction.passes.kernel_passes import MapPass
from drumlin.compaction.passes.passes import Reason
from drumlin.compaction.passes.transactions import TransactionFilter
from drumlin.compaction.round.executor import Executor, OrderedResults
from drumlin.compaction.round.segment_reader import SegmentChunk, SegmentReader
from drumlin.records.batch.batch import BatchHeader
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.storage.segment.segment import Segment
from drumlin.storage.segment.transaction_index import AbortedTransaction


class _Filled(NamedTuple):
    """A run with its first `filled_count` batches decompressed.

    passed_over: batches without keys for the map.
    """

    batches: Sequence[CheckedBatch]
    passed_over: Sequence[BatchHeader]
    uncompressed: UncompressedRun
    filled_count: int


class MapBuilder:
    """Fills the map of one `MapPass`."""

    def __init__(
        self,
        map_pass: MapPass,
        aborted: Iterable[AbortedTransaction],
        reader: SegmentReader,
        executor: Executor,
    ) -> None:
        self._pass = map_pass
        self._reader = reader
        self._executor = executor
        self._transactions = TransactionFilter()
        self._transactions.add_aborted(aborted)
        self._free: list[UncompressedRun] = []
        self.bytes_read = 0

    def add(self, segment: Segment, end_offset: int) -> bool:
        """Add a segment that ends at `end_offset`; False if the map is full, which ends the round.

        Raises:
            CleaningFailed, CleaningStopped, OSError
        """
        self._pass.end_offset = end_offset
        for chunk in self._reader.chunks(segment):
            reason = self._take(chunk)
            self.bytes_read += chunk.used
            if reason is Reason.DONE:
                raise CleaningFailed(f"{chunk.where}: a batch after the end of its segment")
            if reason is Reason.FULL:
                return False
        return True

    def _take(self, chunk: SegmentChunk) -> Reason:
        """Put all whole batches of a chunk into the map."""
        while True:
            stop = self._pass.run(chunk.view, len(chunk.view), chunk.used)
            chunk.used = stop.position
            if stop.reason is Reason.CORRUPT:
                raise CleaningFailed(f"{chunk.where}: {stop.fault}")
            if stop.reason is not Reason.SPECIAL:
                return stop.reason
            reason = self._take_specials(chunk, stop.batch_size)
            if reason is not Reason.END:
                return reason

    def _take_specials(self, chunk: SegmentChunk, size: int) -> Reason:
        """Put the batches up to the first ordinary one into the map."""
        with contextlib.closing(self._filled(chunk, size)) as runs:
            for filled in runs:
                reason = self._put(filled)
                if reason is not Reason.END:
                    return reason
        return Reason.END

    def _filled(self, chunk: SegmentChunk, size: int) -> Generator[_Filled]:
        run: BatchRun[BatchHeader] = BatchRun()
        with OrderedResults[_Filled](self._executor) as steps:
            while size:
                where = chunk.where
                batch = chunk.view[chunk.used :][:size]
                header = sound_header(batch, where)
                if self._follow(batch, header, where):
                    run.add(CheckedBatch(batch, header, where))
                else:
                    run.decided.append(header)
                chunk.used += size
                size = special_size(chunk.view, chunk.used)
                if run.is_full:
                    yield from steps.add_task(functools.partial(self._decompress, run))
                    run = BatchRun()
            yield from steps.finish(functools.partial(self._decompress, run))

    def _follow(self, batch: memoryview, header: BatchHeader, where: str) -> bool:
        """Update the transactions; False if no key of the batch belongs in the map."""
        if header.is_control:
            self._transactions.take_marker(header, marker_in(batch, header, where))
            return False
        is_aborted = self._transactions.take_batch(header)
        return not is_aborted

    def _decompress(self, run: BatchRun[BatchHeader]) -> _Filled:
        """Decompress a run. Thread-safe."""
        try:
            uncompressed = self._free.pop()
        except IndexError:
            uncompressed = UncompressedRun()
        count = uncompressed.fill(run.batches)
        return _Filled(run.batches, run.decided, uncompressed, count)

    def _put(self, filled: _Filled) -> Reason:
        batches, uncompressed, count = filled.batches, filled.uncompressed, filled.filled_count
        while batches:
            if count:
                reason = self._put_uncompressed(batches, uncompressed)
            else:
                count, reason = 1, self._put_alone(batches[0])
            if reason is not Reason.END:
                return reason
            batches = batches[count:]
            count = uncompressed.fill(batches)
        self._free.append(uncompressed)
        for header in filled.passed_over:
            reason = self._pass.pass_over(header)
            if reason is not Reason.END:
                return reason
        return Reason.END

    def _put_uncompressed(
        self, batches: Sequence[CheckedBatch], uncompressed: UncompressedRun
    ) -> Reason:
        stop = self._pass.run(uncompressed.chunk, uncompressed.size)
        if stop.reason is Reason.CORRUPT:
            raise batches[uncompressed.index_of(stop.position)].failed(stop.fault)
        return stop.reason

    def _put_alone(self, checked: CheckedBatch) -> Reason:
        """Put a batch that is too large for a run when decompressed."""
        batch, header, where = checked
        try:
            return self._pass.map_body(records_of(batch, header, where), header)
        except CorruptRecord as error:
            raise checked.failed(error) from None
