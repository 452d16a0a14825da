"""The start offset of each leader epoch in a log, from which a follower finds where to truncate.

Entries ascend in both epoch and start offset. The file `leader-epoch-checkpoint` is Kafka's
text: version 0, the number of entries, then `epoch start_offset` line by line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from drumlin.storage.segment.sync_count import SyncCount

UNDEFINED: Final = -1
FILE_NAME: Final = "leader-epoch-checkpoint"
_VERSION: Final = 0


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The end offset of an epoch; (-1, -1) if it is not known."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """The epochs with records in this log, and the latest one even without records."""

    __slots__ = ("_entries", "latest_epoch", "unsaved")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries = tuple(entries)
        self.latest_epoch = self._entries[-1].epoch if self._entries else UNDEFINED
        self.unsaved = SyncCount()

    def reaches_back_to(self, epoch: int) -> bool:
        """Whether an epoch or an earlier one is known."""
        entries = self._entries  # read once, as the log may change concurrently
        return bool(entries) and entries[0].epoch <= epoch

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return self._entries

    def assign(self, epoch: int, start_offset: int) -> None:
        """Assign records from `start_offset` on to `epoch`; contradicting entries are dropped."""
        last = self._entries[-1] if self._entries else None
        if last is not None and epoch == last.epoch and start_offset >= last.start_offset:
            return
        kept = [
            entry
            for entry in self._entries
            if entry.epoch <= epoch and entry.start_offset <= start_offset
        ]
        while kept and kept[-1].start_offset == start_offset and kept[-1].epoch < epoch:
            kept.pop()  # an epoch without records
        if not kept or kept[-1].epoch < epoch:
            kept.append(EpochEntry(epoch, start_offset))
        self._change(tuple(kept))

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch up to `epoch`, with its end offset.

        A follower whose last epoch is `epoch` has to truncate there.
        """
        entries = self._entries  # read once, as the log may change concurrently
        latest_epoch = entries[-1].epoch if entries else UNDEFINED
        if epoch == UNDEFINED or epoch > latest_epoch:
            return EpochEnd(UNDEFINED, UNDEFINED)
        if epoch == latest_epoch:
            return EpochEnd(epoch, log_end_offset)
        at_or_below = [entry for entry in entries if entry.epoch <= epoch]
        above = entries[len(at_or_below)]
        floor = at_or_below[-1].epoch if at_or_below else epoch
        return EpochEnd(floor, above.start_offset)

    def epoch_for(self, offset: int) -> int:
        """The epoch of the record at `offset`; -1 if it is not known."""
        epoch = UNDEFINED
        for entry in self._entries:
            if entry.start_offset > offset:
                break
            epoch = entry.epoch
        return epoch

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop epochs at or after `end_offset`, after a truncation."""
        self._change(tuple(e for e in self._entries if e.start_offset < end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop epochs before `start_offset`, after records were deleted."""
        gone = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if gone:
            first = EpochEntry(gone[-1].epoch, start_offset)
            self._change((first, *self._entries[len(gone) :]))

    def clear(self) -> None:
        self._change(())

    def _change(self, entries: tuple[EpochEntry, ...]) -> None:
        if entries != self._entries:
            self._entries = entries
            self.latest_epoch = entries[-1].epoch if entries else UNDEFINED
            self.unsaved.note()

    # -- the file ----------------------------------------------------------------------

    def encode(self) -> bytes:
        entries = self._entries  # read once, as the log may change concurrently
        lines = [str(_VERSION), str(len(entries))]
        lines += [f"{entry.epoch} {entry.start_offset}" for entry in entries]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, content: bytes) -> LeaderEpochs:
        """Decode a checkpoint file.

        Raises:
            ValueError: the file is not a leader epoch checkpoint.
        """
        lines = content.decode("ascii").split("\n")
        if len(lines) < 2 or int(lines[0]) != _VERSION:
            raise ValueError("not a leader epoch checkpoint of version 0")
        rows = [line.split() for line in lines[2:] if line]
        if len(rows) != int(lines[1]):
            raise ValueError(f"{lines[1]} entries announced, {len(rows)} found")
        return cls(EpochEntry(int(epoch), int(start_offset)) for epoch, start_offset in rows)
