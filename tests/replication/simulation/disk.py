"""A log in memory, with what of it is on the disk for good.

It answers as `storage.PartitionLog` does, as far as replication asks it. What was not flushed may be
lost with the power, not with the process.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from drumlin.storage.leader_epochs import EpochEnd, EpochEntry, LeaderEpochs


class Record(NamedTuple):
    offset: int
    epoch: int
    key: int
    value: int

    def __str__(self) -> str:
        return f"{self.offset}@{self.epoch}:k{self.key}=v{self.value}"


_OFFSET = attrgetter("offset")


class _Flushed(NamedTuple):
    """What would be found after the power had failed."""

    records: tuple[Record, ...]
    log_start_offset: int
    log_end_offset: int
    entries: tuple[EpochEntry, ...]


class SimulatedLog:
    """One replica of the partition."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.high_watermark_checkpoint = 0
        #: What is below is on the disk, as it is.
        self.recovery_point = 0
        self.leader_epochs = LeaderEpochs()
        #: Below it, keys may have lost all but their last record.
        self.cleaned_to = 0
        #: The last process that had it stopped cleanly.
        self.was_clean = True
        self._flushed = _Flushed((), 0, 0, ())

    # -- appending and reading -----------------------------------------------------------

    def append_as_leader(self, key: int, value: int, epoch: int) -> Record:
        record = Record(self.log_end_offset, epoch, key, value)
        self.leader_epochs.assign(epoch, record.offset)
        self._append(record)
        return record

    def append_as_follower(self, records: Iterable[Record]) -> None:
        for record in records:
            assert record.offset >= self.log_end_offset, "out of order"
            # Not where the record is: the first ones of the epoch may have been cleaned away.
            self.leader_epochs.assign(record.epoch, self.log_end_offset)
            self._append(record)

    def _append(self, record: Record) -> None:
        self.records.append(record)
        self.log_end_offset = record.offset + 1

    def start_leader_epoch(self, epoch: int) -> None:
        if epoch > self.leader_epochs.latest_epoch:
            self.leader_epochs.assign(epoch, self.log_end_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def read(self, start_offset: int, end_offset: int, most: int) -> list[Record]:
        first = self._index(start_offset)
        return self.records[first : min(first + most, self._index(end_offset))]

    def _index(self, offset: int) -> int:
        return bisect_left(self.records, offset, key=_OFFSET)

    def at(self, offset: int) -> Record | None:
        index = self._index(offset)
        found = self.records[index : index + 1]
        return found[0] if found and found[0].offset == offset else None

    # -- removing ------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        if offset >= self.log_end_offset:
            return
        if offset <= self.log_start_offset:
            self.truncate_fully_and_start_at(offset)
            return
        del self.records[self._index(offset) :]
        self.log_end_offset = offset
        self.leader_epochs.truncate_from_end(offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.cleaned_to = min(self.cleaned_to, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.records.clear()
        self.leader_epochs.clear()
        self.log_start_offset = self.log_end_offset = self.high_watermark = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.cleaned_to = 0

    def delete_records_before(self, offset: int) -> None:
        if offset > self.log_start_offset:
            assert offset <= self.high_watermark
            self.log_start_offset = offset
            del self.records[: self._index(offset)]
            self.leader_epochs.truncate_from_start(offset)

    def clean(self) -> None:
        """Drop what is superseded below the high watermark; the last record there stays."""
        end = self._index(self.high_watermark)
        latest = {record.key: record.offset for record in self.records[:end]}
        if end:
            latest[-1] = self.records[end - 1].offset
        kept = [
            each
            for each in self.records[:end]
            if latest[each.key] == each.offset or latest[-1] == each.offset
        ]
        self.records[:end] = kept
        self.cleaned_to = self.high_watermark

    # -- the disk ------------------------------------------------------------------------

    def flush(self) -> None:
        self.recovery_point = self.log_end_offset
        self._flushed = _Flushed(
            tuple(self.records),
            self.log_start_offset,
            self.log_end_offset,
            self.leader_epochs.entries,
        )

    def checkpoint(self) -> None:
        self.high_watermark_checkpoint = self.high_watermark

    def lose_tail(self, choice: float) -> None:
        """The power fails: something between all and nothing is left of what was not flushed."""
        flushed = self._flushed
        if choice < 0.3:  # not even what was truncated is gone
            self.records = list(flushed.records)
            self.log_start_offset = flushed.log_start_offset
            self.log_end_offset = flushed.log_end_offset
            self.leader_epochs = LeaderEpochs(flushed.entries)
            self.cleaned_to = min(self.cleaned_to, self.recovery_point)
        else:
            self.lose_from(self.recovery_point, (choice - 0.3) / 0.7)

    def lose_from(self, offset: int, choice: float) -> None:
        """As above, where everything below `offset` is left."""
        start = max(offset, self.recovery_point, self.log_start_offset)
        left = start + int(choice * (self.log_end_offset - start + 1))
        if left < self.log_end_offset:
            self.truncate_to(left)

    def reopen(self) -> None:
        """The next process finds the log: the high watermark is the one written down last.

        What was truncated may be there again after a power failure, so that counts for no more than
        what had been flushed.
        """
        mark = min(self.high_watermark_checkpoint, self.log_end_offset)
        if not self.was_clean:
            mark = min(mark, self.recovery_point)
        self.high_watermark = max(mark, self.log_start_offset)
        self.leader_epochs.truncate_from_end(self.log_end_offset)
