"""The first pass of a cleaning: of each key in the dirty part, where it was seen last.

Goes segment by segment until the map is full; how far it came is the end of the round. What is
aborted, or is no record, does not count.
"""

from __future__ import annotations

from collections.abc import Iterable

from drumlin.compaction.batches import Unfolding, marker_in, sound_header, special_size
from drumlin.compaction.errors import CleaningFailed
from drumlin.compaction.passes import MapPass, Reason
from drumlin.compaction.pieces import Piece, PieceReader
from drumlin.compaction.transactions import TransactionFilter
from drumlin.records.errors import CorruptRecord
from drumlin.storage.segment import Segment
from drumlin.storage.transaction_index import AbortedTransaction


class MapBuilding:
    """Fills the map of one `MapPass`."""

    def __init__(
        self, map_pass: MapPass, aborted: Iterable[AbortedTransaction], reader: PieceReader
    ) -> None:
        self._pass = map_pass
        self._reader = reader
        self._transactions = TransactionFilter()
        self._transactions.add_aborted(aborted)
        self._unfolding = Unfolding()
        self.bytes_read = 0

    def add(self, segment: Segment, end_offset: int) -> bool:
        """Take a segment in, which ends at `end_offset`; False when the round ends in it.

        Raises:
            CleaningFailed, CleaningStopped, OSError
        """
        self._pass.end_offset = end_offset
        for piece in self._reader.pieces(segment):
            reason = self._take(piece)
            self.bytes_read += piece.used
            if reason is Reason.DONE:
                raise CleaningFailed(f"{piece.where}: a batch behind the end of its segment")
            if reason is Reason.FULL:
                return False
        return True

    def _take(self, piece: Piece) -> Reason:
        """All whole batches of a piece."""
        while True:
            stop = self._pass.run(piece.view, len(piece.view), piece.used)
            piece.used = stop.position
            if stop.reason is Reason.CORRUPT:
                raise CleaningFailed(f"{piece.where}: {stop.fault}")
            if stop.reason is not Reason.SPECIAL:
                return stop.reason
            size = stop.batch_size
            while size:
                reason = self._take_special(piece.view[piece.used :][:size], piece.where)
                if reason is not Reason.END:
                    return reason
                piece.used += size
                size = special_size(piece.view, piece.used)

    def _take_special(self, batch: memoryview, where: str) -> Reason:
        header = sound_header(batch, where)
        if header.is_control:
            self._transactions.is_marker_obsolete(header, marker_in(batch, header, where))
            return self._pass.pass_over(header)
        if self._transactions.is_aborted(header):
            return self._pass.pass_over(header)
        try:
            return self._pass.map_body(self._unfolding.records_of(batch, header, where), header)
        except CorruptRecord as error:
            raise CleaningFailed(f"{where}: {error}") from None
