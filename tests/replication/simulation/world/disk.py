"""What a broker has of the partition on its disk, and what of that survives when the power fails.

Owns what outlives a process. What was not flushed may be lost with the power, not with the process.
"""

from __future__ import annotations

from typing import NamedTuple

from drumlin.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from replication.simulation.world.batches import Batch


class _Flushed(NamedTuple):
    batches: tuple[Batch, ...]
    log_end_offset: int
    entries: tuple[EpochEntry, ...]


class _Copy(NamedTuple):
    """All that there was after a clean stop, in that broker epoch."""

    flushed: _Flushed
    base_offset: int
    log_start_offset: int
    high_watermark: int
    was_cleaned: bool
    marker: int


class Disk:
    """One replica."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        #: Where the first segment begins.
        self.base_offset = 0
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.leader_epochs = LeaderEpochs()
        #: Everything below is on the disk for good, as it is.
        self.recovery_point = 0
        self.high_watermark_checkpoint = 0
        self.log_start_checkpoint = 0
        #: The last process that had it has stopped cleanly.
        self.was_clean = True
        #: Another, empty disk has taken its place, and no broker has found that out yet.
        self.is_lost = False
        #: Or an older copy has: until a broker has said so.
        self.is_replaced = False
        #: The broker epoch that the marker of a clean stop names; None: there is no marker.
        self.marker: int | None = None
        self.copy: _Copy | None = None
        #: Batches were cleaned away, by some process.
        self.was_cleaned = False
        self._flushed = _Flushed((), 0, ())
        #: What it had when it was damaged.
        self.had: set[Batch] = set()

    def lose_all(self) -> None:
        """Another disk takes its place."""
        self.had.update(self.batches)
        self.batches.clear()
        self.base_offset = self.log_start_offset = self.log_end_offset = 0
        self.leader_epochs = LeaderEpochs()
        self.recovery_point = self.high_watermark_checkpoint = self.log_start_checkpoint = 0
        self._flushed = _Flushed((), 0, ())
        self.was_cleaned = False
        self.marker = None
        self.is_lost = self.is_replaced = True

    def take_over(self, other: Disk) -> None:
        """What another one has takes the place of all that is here, for good."""
        self.batches[:] = other.batches
        self.base_offset, self.log_start_offset = other.base_offset, other.log_start_offset
        self.log_end_offset, self.leader_epochs = other.log_end_offset, other.leader_epochs
        self.high_watermark_checkpoint = min(self.high_watermark_checkpoint, self.log_end_offset)
        self.log_start_checkpoint = self.log_start_offset
        self.flush()

    def close(self, broker_epoch: int) -> None:
        """A process stops cleanly, in that epoch; somebody makes a copy of what it leaves."""
        self.was_clean, self.marker = True, broker_epoch
        self.copy = _Copy(
            self._flushed,
            self.base_offset,
            self.log_start_offset,
            self.high_watermark_checkpoint,
            self.was_cleaned,
            broker_epoch,
        )

    def put_back(self) -> None:
        """The copy takes the place of what there is."""
        assert self.copy is not None
        self.had.update(self.batches)
        self._flushed, self.base_offset, self.log_start_offset, *rest = self.copy
        self.high_watermark_checkpoint, self.was_cleaned, self.marker = rest
        self.batches[:] = self._flushed.batches
        self.log_end_offset = self.recovery_point = self._flushed.log_end_offset
        self.leader_epochs = LeaderEpochs(self._flushed.entries)
        self.log_start_checkpoint = self.log_start_offset
        self.was_clean, self.is_lost, self.is_replaced = True, False, True

    def flush(self) -> None:
        self.sync()
        self._flushed = self._flushed._replace(entries=self.leader_epochs.entries)
        self.recovery_point = self.log_end_offset

    def sync(self) -> None:
        """Have the batches on the disk as they are now, without a recovery point that says so."""
        self._flushed = self._flushed._replace(
            batches=tuple(self.batches), log_end_offset=self.log_end_offset
        )

    def lose_tail(self, choice: float) -> None:
        """The power fails: something between all and nothing is left of what was not flushed."""
        self.had.update(self.batches)
        if choice < 0.3:  # what was truncated may be there again
            self.batches[:] = self._flushed.batches
            self.log_end_offset = self._flushed.log_end_offset
        else:
            self.lose_from(0, (choice - 0.3) / 0.7)

    def lose_from(self, offset: int, choice: float) -> None:
        """As above, where everything below `offset` is left."""
        self.had.update(self.batches)
        kept = [each for each in self.batches if each.offset < max(offset, self.recovery_point)]
        may_go = self.batches[len(kept) :]
        self.batches[:] = kept + may_go[: int(choice * (len(may_go) + 1))]
        if len(self.batches) < len(kept) + len(may_go):
            last = self.batches[-1].last_offset + 1 if self.batches else 0
            self.log_end_offset = max(last, self.recovery_point, self.base_offset)

    def recover(self) -> None:
        """A process starts, and finds the log as the last one has left it.

        After an unclean stop the batches from the recovery point on tell the leader epochs again.
        """
        if self.batches and self.batches[0].offset < self.base_offset:
            self.base_offset = self.batches[0].offset  # what was removed is there again
        self.log_start_offset = max(
            min(self.log_start_checkpoint, self.log_end_offset), self.base_offset
        )
        if self.was_clean:
            return
        epochs = LeaderEpochs(self._flushed.entries)
        epochs.truncate_from_end(self.recovery_point)
        end_offset = max(min(self.recovery_point, self.log_end_offset), self.base_offset)
        for batch in self.batches:
            if batch.offset >= self.recovery_point:
                if batch.epoch > epochs.latest_epoch:
                    epochs.assign(batch.epoch, end_offset)
                end_offset = batch.last_offset + 1
        epochs.truncate_from_end(self.log_end_offset)
        self.leader_epochs = epochs
