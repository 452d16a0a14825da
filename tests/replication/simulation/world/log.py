"""The real `PartitionLog` over batches in memory, in place of segments.

Appending, leader epochs, producers and the high watermark are the log's own. Reading, truncating
and cleaning are simple here: what they do counts, not how.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import BatchHeader
from drumlin.storage.log.log_state import LogState
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.wire.error_codes import ErrorCode, KafkaError
from replication.simulation.world.batches import Batch, read_batches
from replication.simulation.world.disk import Disk

TOPIC, TOPIC_ID = "t", UUID(int=1)
FETCHED_MOST = 8

_LAST_OFFSET = attrgetter("last_offset")


class Slice(NamedTuple):
    """Part of a log, to be sent."""

    data: bytes
    size: int

    def release(self) -> None: ...


class Read(NamedTuple):
    slices: tuple[Slice, ...]


class _Clock:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic


class _LogDirectory:
    """One whose device never fails; see `Disk` for what it loses."""

    failure = files = open_files = None

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.clock = _Clock(monotonic)

    def check_readable(self) -> None: ...

    def check_writable(self) -> None: ...


class _Segment:
    """The only one there is."""

    def __init__(self, disk: Disk) -> None:
        self._batches = disk.batches
        self.size = 1

    def append(self, batch: memoryview, *_: object) -> None:
        self._batches += read_batches(batch)

    def append_all(self, records: memoryview, headers: Sequence[BatchHeader], _: int) -> None:
        batches = read_batches(records)
        assert len(batches) == len(headers)
        self._batches += batches


class _Segments:
    def __init__(self, disk: Disk) -> None:
        self.active = _Segment(disk)
        self._batches = disk.batches

    @property
    def size_bytes(self) -> int:
        return len(self._batches)


class _NeverRolls:
    def applies(self, *_: object) -> bool:
        return False


class SimulatedLog(PartitionLog):
    """The log of one process. What it changes is on its `disk` at once."""

    _is_loaded = False

    def __init__(self, disk: Disk, config: LogConfig, monotonic: Callable[[], float]) -> None:
        self.disk = disk
        directory: Any = _LogDirectory(monotonic)
        segments: Any = _Segments(disk)
        #: Called with the high watermark before and after it has advanced.
        self.on_advance: Callable[[int, int], None] = lambda *_: None
        super().__init__(directory, "", TOPIC, 0, TOPIC_ID, config, segments)
        rule: Any = _NeverRolls()
        self.roll_rule = rule
        self._is_loaded = True
        disk.recover()
        if disk.was_cleaned:
            self.note_deletions_dropped(disk.log_end_offset)
        self.load_high_watermark(disk.high_watermark_checkpoint)

    # The offsets and epochs live on the disk: the next process has them without a copy.

    @property
    def log_start_offset(self) -> int:  # type: ignore[override]
        return self.disk.log_start_offset

    @log_start_offset.setter
    def log_start_offset(self, offset: int) -> None:
        if self._is_loaded:
            self.disk.log_start_offset = offset

    @property
    def log_end_offset(self) -> int:  # type: ignore[override]
        return self.disk.log_end_offset

    @log_end_offset.setter
    def log_end_offset(self, offset: int) -> None:
        if self._is_loaded:
            self.disk.log_end_offset = offset

    @property
    def leader_epochs(self) -> Any:  # type: ignore[override]
        return self.disk.leader_epochs

    @leader_epochs.setter
    def leader_epochs(self, epochs: Any) -> None: ...

    @property
    def high_watermark(self) -> int:
        known: int = LogState.high_watermark.fget(self)  # type: ignore[attr-defined]
        return known

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        before = self.high_watermark
        self._high_watermark = offset
        if offset > before:
            self.on_advance(before, offset)

    # -- reading -------------------------------------------------------------------------

    def batches_between(self, start_offset: int, end_offset: int) -> list[Batch]:
        """Those that have an offset from `start_offset` on, and all of theirs below the end."""
        batches = self.disk.batches
        first = bisect_left(batches, start_offset, key=_LAST_OFFSET)
        return batches[first : bisect_left(batches, end_offset, key=_LAST_OFFSET)]

    def read(self, start_offset: int, max_bytes: int, end_offset: int, *_: Any, **__: Any) -> Any:
        del max_bytes
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise KafkaError(ErrorCode.offset_out_of_range)
        found = self.batches_between(start_offset, end_offset)[:FETCHED_MOST]
        data = b"".join(each.data for each in found)
        return Read((Slice(data, len(data)),))

    # -- removing ------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        if offset < self.log_end_offset:
            SimulatedTruncation(self, offset).run()
        else:
            self.leader_epochs.truncate_from_end(self.log_end_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        SimulatedTruncation(self, offset, is_full=True).run()

    def clean(self) -> None:
        """Drop what later batches supersede, below the high watermark. The last one stays."""
        batches = self.batches_between(0, self.high_watermark)
        latest = {each.key: each for each in batches}
        kept = [each for each in batches if latest[each.key] is each or each is batches[-1]]
        self.disk.batches[: len(batches)] = kept
        if len(kept) < len(batches):  # as if it were deletions, which all replicas must have got
            self.note_deletions_dropped(batches[-1].last_offset + 1)
            self.disk.was_cleaned = True

    def expire(self) -> None:
        """Remove what was deleted, after the checkpoint says so."""
        self.disk.log_start_checkpoint = self.log_start_offset
        gone = bisect_left(self.disk.batches, self.log_start_offset, key=_LAST_OFFSET)
        if gone:
            del self.disk.batches[:gone]
            first = self.disk.batches[0].offset if self.disk.batches else self.log_end_offset
            self.disk.base_offset = first
            self.leader_epochs.truncate_from_start(first)


class SimulatedTruncation:
    """In the steps of `storage.truncation.Truncation`."""

    def __init__(self, log: SimulatedLog, offset: int, *, is_full: bool = False) -> None:
        self.log = log
        self.is_cut = False
        self._offset = offset
        self._is_asked_for_anew = is_full
        self._is_anew = is_full or offset <= log.log_start_offset

    def run(self) -> None:
        self.prepare()
        self.cut()
        self.finish()

    def prepare(self) -> None:
        disk = self.log.disk
        disk.recovery_point = min(disk.recovery_point, self._cut_at())
        disk.high_watermark_checkpoint = min(disk.high_watermark_checkpoint, self._cut_at())

    def _cut_at(self) -> int:
        """Where the batch begins that has the offset; all goes if that is before the start."""
        if self._is_anew:
            return self._offset
        batches = self.log.disk.batches
        found = batches[bisect_left(batches, self._offset, key=_LAST_OFFSET) :][:1]
        cut_at = min(self._offset, found[0].offset) if found else self._offset
        if cut_at < self.log.log_start_offset:
            self._is_anew, self._offset = True, self.log.log_start_offset
        return max(cut_at, self.log.log_start_offset)

    def abandon(self) -> None: ...

    def cut(self) -> bool:
        self.prepare()  # records may have come since
        log, offset = self.log, self._cut_at()
        self.is_cut = True
        if self._is_anew:
            log.disk.batches.clear()
            log.log_start_offset = log.disk.base_offset = offset
            log.disk.log_start_checkpoint = min(log.disk.log_start_checkpoint, offset)
            log.leader_epochs.clear()
        else:
            del log.disk.batches[bisect_left(log.disk.batches, offset, key=_LAST_OFFSET) :]
        log.log_end_offset = offset
        log.deletions_kept_from = min(log.deletions_kept_from, offset)
        log.high_watermark = max(min(log.high_watermark, offset), log.log_start_offset)
        log.leader_epochs.truncate_from_end(offset)
        if self._is_asked_for_anew:
            log.refetch = None
        return True

    def rebuild(self) -> None:
        """What is gone does not come back from here on, whatever happens."""
        self.log.disk.sync()

    def finish(self) -> None:
        self.rebuild()
