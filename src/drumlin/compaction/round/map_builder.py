"""The first pass of a cleaning: the last offset of each key in the dirty part.

It goes segment by segment until the map is full; the offset it has reached is the end of the round.
Aborted records and control records are left out.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple

from drumlin.compaction.failures import CleaningFailed
from drumlin.compaction.passes.batches import marker_in, records_of, sound_header, special_size
from drumlin.compaction.passes.kernel_passes import MapPass
from drumlin.compaction.passes.passes import Reason
from drumlin.compaction.passes.stretches import Stretch, Taken, Unfolded
from drumlin.compaction.passes.transactions import TransactionFilter
from drumlin.compaction.round.crew import Crew, InOrder
from drumlin.compaction.round.pieces import Piece, PieceReader
from drumlin.records.batch.batch import BatchHeader
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.storage.segment.segment import Segment
from drumlin.storage.segment.transaction_index import AbortedTransaction


class _Filled(NamedTuple):
    """A stretch with its first `taken` batches unfolded; `passed_over` put nothing into the map."""

    batches: Sequence[Taken]
    passed_over: Sequence[BatchHeader]
    unfolded: Unfolded
    taken: int


class MapBuilder:
    """Fills the map of one `MapPass`."""

    def __init__(
        self,
        map_pass: MapPass,
        aborted: Iterable[AbortedTransaction],
        reader: PieceReader,
        crew: Crew,
    ) -> None:
        self._pass = map_pass
        self._reader = reader
        self._crew = crew
        self._transactions = TransactionFilter()
        self._transactions.add_aborted(aborted)
        self._free: list[Unfolded] = []
        self.bytes_read = 0

    def add(self, segment: Segment, end_offset: int) -> bool:
        """Add a segment, which ends at `end_offset`; False if the round ends in it.

        Raises:
            CleaningFailed, CleaningStopped, OSError
        """
        self._pass.end_offset = end_offset
        for piece in self._reader.pieces(segment):
            reason = self._take(piece)
            self.bytes_read += piece.used
            if reason is Reason.DONE:
                raise CleaningFailed(f"{piece.where}: a batch after the end of its segment")
            if reason is Reason.FULL:
                return False
        return True

    def _take(self, piece: Piece) -> Reason:
        """Take all whole batches of a piece."""
        while True:
            stop = self._pass.run(piece.view, len(piece.view), piece.used)
            piece.used = stop.position
            if stop.reason is Reason.CORRUPT:
                raise CleaningFailed(f"{piece.where}: {stop.fault}")
            if stop.reason is not Reason.SPECIAL:
                return stop.reason
            reason = self._take_specials(piece, stop.batch_size)
            if reason is not Reason.END:
                return reason

    def _take_specials(self, piece: Piece, size: int) -> Reason:
        """Take the batches up to the first one that is ordinary."""
        with contextlib.closing(self._filled(piece, size)) as stretches:
            for filled in stretches:
                reason = self._put(filled)
                if reason is not Reason.END:
                    return reason
        return Reason.END

    def _filled(self, piece: Piece, size: int) -> Generator[_Filled]:
        stretch: Stretch[BatchHeader] = Stretch()
        with InOrder[_Filled](self._crew) as steps:
            while size:
                where = piece.where
                batch = piece.view[piece.used :][:size]
                header = sound_header(batch, where)
                if self._follow(batch, header, where):
                    stretch.add(Taken(batch, header, where))
                else:
                    stretch.decided.append(header)
                piece.used += size
                size = special_size(piece.view, piece.used)
                if stretch.is_full:
                    yield from steps.add_task(functools.partial(self._unfold, stretch))
                    stretch = Stretch()
            yield from steps.finish(functools.partial(self._unfold, stretch))

    def _follow(self, batch: memoryview, header: BatchHeader, where: str) -> bool:
        """Show a batch to the transactions; False if none of its keys goes into the map."""
        if header.is_control:
            self._transactions.take_marker(header, marker_in(batch, header, where))
            return False
        is_aborted = self._transactions.take_batch(header)
        return not is_aborted

    def _unfold(self, stretch: Stretch[BatchHeader]) -> _Filled:
        """Runs in any thread."""
        try:
            unfolded = self._free.pop()
        except IndexError:
            unfolded = Unfolded()
        count = unfolded.fill(stretch.batches)
        return _Filled(stretch.batches, stretch.decided, unfolded, count)

    def _put(self, filled: _Filled) -> Reason:
        batches, passed_over, unfolded, count = filled
        while batches:
            if count:
                reason = self._put_unfolded(batches, unfolded)
            else:
                count, reason = 1, self._put_alone(batches[0])
            if reason is not Reason.END:
                return reason
            batches = batches[count:]
            count = unfolded.fill(batches)
        self._free.append(unfolded)
        for header in passed_over:
            reason = self._pass.pass_over(header)
            if reason is not Reason.END:
                return reason
        return Reason.END

    def _put_unfolded(self, batches: Sequence[Taken], unfolded: Unfolded) -> Reason:
        stop = self._pass.run(unfolded.chunk, unfolded.size)
        if stop.reason is Reason.CORRUPT:
            raise batches[unfolded.index_of(stop.position)].failed(stop.fault)
        return stop.reason

    def _put_alone(self, taken: Taken) -> Reason:
        """Put a batch that decompresses to more than a stretch may hold."""
        batch, header, where = taken
        try:
            return self._pass.map_body(records_of(batch, header, where), header)
        except CorruptRecord as error:
            raise taken.failed(error) from None
