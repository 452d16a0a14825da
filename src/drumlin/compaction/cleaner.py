"""One cleaning of one log, from looking at it to the new checkpoint; and one that only counts.

    look -> map of the dirty part -> groups of segments -> rewritten -> swapped, group by group

Groups are swapped in ascending order, and one is durable before the next: a tombstone never
goes before what it has deleted. A crash, a full disk or a stop at any point leaves the log with
some groups cleaned and others not, which is a log like any other.

Runs in a thread of the pool. It reads sealed segments, which never change, and asks for the
swap where logs may be changed.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from drumlin.clock import Clock
from drumlin.compaction.cleanable import Cleanable, LogFacts, SegmentFacts, cleanable
from drumlin.compaction.crew import Crew, helpers_for
from drumlin.compaction.errors import CleaningFailed, CleaningPostponed, SegmentGone
from drumlin.compaction.map_builder import MapBuilder
from drumlin.compaction.offset_map import OffsetMap, capacity_within
from drumlin.compaction.outputs import Counting, SegmentFiles
from drumlin.compaction.pass_selection import filter_pass, map_pass
from drumlin.compaction.passes import FilterPass, FilterRules
from drumlin.compaction.pieces import PieceReader
from drumlin.compaction.rewriter import LiveProducers, Output, Rewriter
from drumlin.compaction.segment_groups import Size, group_segments
from drumlin.compaction.settings import CleanerSettings
from drumlin.compaction.statistics import CleaningStatistics
from drumlin.compaction.survivor_bitmap import SurvivorBitmap
from drumlin.compaction.throttle import Throttle
from drumlin.config.topic import LogConfig
from drumlin.storage.cleaning_view import CleaningView, cleaning_view, note_cleaned
from drumlin.storage.partition_log import PartitionLog
from drumlin.storage.segment import Segment
from drumlin.storage.segment_swap import SegmentsChanged, SegmentSwap
from drumlin.storage.transaction_index import AbortedTransaction

_log = logging.getLogger(__name__)
T = TypeVar("T")
#: With less of a map a cleaning would hardly come forward.
_MAP_BYTES_MIN: Final = 1 << 20
_FOR_EVER: Final = 2**63 - 1


class Call(Protocol):
    """Calls a function where logs may be changed, and returns what it has returned."""

    def __call__(self, function: Callable[[], T], /) -> T: ...


class Outline(NamedTuple):
    """What must be known of a log to see whether to clean it. Any thread may make one."""

    segments: tuple[Segment, ...]
    log_start_offset: int
    last_stable_offset: int
    config: LogConfig


def outline(log: PartitionLog) -> Outline:
    """A log as it is about now: a cleaning begins with a view that is true."""
    end_offset = log.log_end_offset  # first: what is undecided below is noted by then
    first_undecided = log.producer_state.first_undecided_offset
    return Outline(
        log.segments.snapshot(),
        log.log_start_offset,
        end_offset if first_undecided is None else first_undecided,
        log.config,
    )


def find_cleanable(log: PartitionLog, view: Outline | CleaningView, now_ms: int) -> Cleanable:
    """What of a log can be cleaned.

    Raises:
        OSError, KafkaError: its files cannot be looked at.
    """
    config = view.config
    needs_times = config.min_compaction_lag_ms > 0
    has_deadline = config.max_compaction_lag_ms < _FOR_EVER
    facts = [
        SegmentFacts(
            segment.base_offset,
            segment.size,
            max(segment.largest_timestamp.timestamp, segment.modified_ms()) if needs_times else 0,
            _begun_ms(segment, previous) if has_deadline else -1,
        )
        for previous, segment in zip((None, *view.segments), view.segments, strict=False)
    ]
    checkpoint = log.log_directory.cleaner_offsets.get((log.topic, log.partition))
    return cleanable(
        LogFacts(view.log_start_offset, view.last_stable_offset, checkpoint, facts),
        now_ms,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
    )


def _begun_ms(segment: Segment, previous: Segment | None) -> int:
    """When a segment's first record was written, as far as one can tell.

    Its timestamp is the producer's word, and may be of last year or of tomorrow: it counts within
    the times at which the segment before it, and it itself, were written last.
    """
    modified_ms, timestamp = segment.modified_ms(), segment.first_timestamp
    begun_ms = timestamp if 0 <= timestamp <= modified_ms else modified_ms
    if previous is None:
        return begun_ms
    return max(begun_ms, min(previous.modified_ms(), modified_ms))


class Cleaner:
    """Cleans one log after the other, in one thread."""

    def __init__(
        self,
        settings: CleanerSettings,
        throttle: Throttle,
        call: Call,
        clock: Clock,
        stopping: threading.Event,
    ) -> None:
        self._settings = settings
        self._throttle = throttle
        self._call = call
        self._clock = clock
        self._stopping = stopping

    def clean(
        self, log: PartitionLog, swap_segments: Callable[[SegmentSwap], None]
    ) -> CleaningStatistics | None:
        """Clean what of a log can be cleaned; None if there is nothing.

        `swap_segments` swaps them in the log, and is called where logs may be changed.

        Raises:
            CleaningFailed: something in it cannot be read as records.
            CleaningStopped, CleaningPostponed, SegmentsChanged: the rest of it will be cleaned
                another time.
            OSError: a disk is full, or fails.
            KafkaError: the log dir is offline, the log deleted.
        """
        view = self._call(lambda: cleaning_view(log))
        ours: set[Segment] = set()
        with _changes_told(log, view, ours), contextlib.closing(self._round(log, view)) as cleaning:
            if not view.config.is_compacted or not cleaning.begin():
                return None
            # What the map says is the last record of its key must outlive those before it.
            # Not by `flush`: what a cleaning has no room for takes no log dir offline.
            log.log_directory.check_writable()
            with log.durability.lock:
                end_offset = cleaning.statistics.round_end_offset
                log.durability.sync(log.segments, log.leader_epochs, end_offset)
            for group in cleaning.groups():
                try:
                    dropped = cleaning.deletions_dropped
                    new = self._rewrite(log, cleaning, group)
                    drops = cleaning.deletions_dropped > dropped
                    with SegmentSwap(
                        log,
                        view,
                        group,
                        new,
                        drops_deletions=drops,
                        round_end_offset=end_offset,
                    ) as swap:
                        self._call(partial(swap_segments, swap))
                except (SegmentGone, SegmentsChanged):
                    if not _is_gone(log, group):
                        raise
                    cleaning.forget_group()
                    continue  # to retention: the rest can be cleaned all the same
                ours.update(group)
                cleaning.statistics.segments_after += len(new)
            done = cleaning.done()
            try:
                note_cleaned(log, view, done.round_end_offset)
            except OSError as error:
                # Known in memory, and written with the next checkpoint; after a crash before
                # that, all of it is read once more.
                _log.warning("%s is clean, but that can't be noted: %s", log.name, error)
        return done

    def _rewrite(
        self, log: PartitionLog, cleaning: Round, group: Sequence[Segment]
    ) -> Sequence[Segment]:
        """What takes a group's place, durable as `.cleaned`; after an error there is nothing."""
        is_first = group[0] is cleaning.view.segments[0]
        files = SegmentFiles(log, group, self._throttle, keeps_empty=is_first)
        try:
            cleaning.rewrite(group, files)
            return files.finish()
        except BaseException:
            files.abandon()
            raise

    def simulate(self, log: PartitionLog) -> CleaningStatistics | None:
        """What `clean` would do now, without a change; it reads as much. Raises the same."""
        view = self._call(lambda: cleaning_view(log))
        with _changes_told(log, view), contextlib.closing(self._round(log, view)) as cleaning:
            if not cleaning.begin():
                return None
            for group in cleaning.groups():
                try:
                    cleaning.rewrite(group, Counting())
                except SegmentGone:
                    cleaning.forget_group()
                    continue
                cleaning.statistics.segments_after += 1
            return cleaning.done()

    def _round(self, log: PartitionLog, view: CleaningView) -> Round:
        files = log.log_directory.files
        reader = PieceReader(files, self._throttle, self._stopping)
        return Round(log, view, self._settings, reader, self._clock)


def _is_gone(log: PartitionLog, group: Sequence[Segment]) -> bool:
    """Whether retention has taken all of these, and nothing else has happened to the log.

    If it has taken only some of them, the rest must be looked at again.
    """
    current = log.segments.snapshot()
    return not log.is_deleted and all(segment not in current for segment in group)


@contextlib.contextmanager
def _changes_told(
    log: PartitionLog, view: CleaningView, ours: Container[Segment] = ()
) -> Iterator[None]:
    """Report read errors as SegmentsChanged if segments were truncated or removed meanwhile.

    `ours` are segments that this cleaning has removed itself.

    Raises:
        SegmentsChanged: in the place of what was raised inside.
    """
    try:
        yield
    except (CleaningFailed, FileNotFoundError) as error:
        if (
            log.is_deleted
            or log.truncations != view.truncations
            or any(segment.is_deleted for segment in view.segments if segment not in ours)
        ):
            raise SegmentsChanged(f"{log.name} was changed meanwhile: {error}") from error
        raise


class Round:
    """What one cleaning knows on its way: the map, and what has been done."""

    def __init__(
        self,
        log: PartitionLog,
        view: CleaningView,
        settings: CleanerSettings,
        reader: PieceReader,
        clock: Clock,
    ) -> None:
        self.view = view
        self._log = log
        self._settings = settings
        self._reader = reader
        self._clock = clock
        self._now_ms = clock.expiry.now_ms()
        self._found = find_cleanable(log, view, self._now_ms)
        self._map: OffsetMap | None = None
        self._rewriting: Rewriter | None = None
        self._crew = Crew(helpers_for(settings.threads * settings.brokers))
        self._began_s = time.perf_counter()
        self.statistics = CleaningStatistics(
            log.topic,
            log.partition,
            clock.wall_ms(),
            first_dirty_offset=self._found.first_dirty_offset,
        )

    def close(self) -> None:
        """Give the memory back."""
        self._crew.close()  # before what it reads and writes
        self._reader.close()
        if self._map is not None:
            self._map.close()

    # -- the first pass ------------------------------------------------------------------

    def begin(self) -> bool:
        """Build the map; False if nothing is dirty."""
        found, done = self._found, self.statistics
        if not found.cleanable_bytes:
            return False
        start_s = time.perf_counter()
        offset_map = self._map = self._new_map(found)
        first_pass = map_pass(
            offset_map,
            first_offset=found.first_dirty_offset,
            end_offset=found.first_uncleanable_offset,
        )
        building = MapBuilder(
            first_pass,
            self._aborted(found.first_dirty_offset, found.first_uncleanable_offset),
            self._reader,
            self._crew,
        )
        is_complete = all(
            self._add(building, segment, end_offset)
            for segment, end_offset in self._sealed()
            if end_offset > found.first_dirty_offset
            and segment.base_offset < found.first_uncleanable_offset
        )
        done.round_end_offset = offset_map.latest_offset + 1
        if is_complete:
            done.round_end_offset = found.first_uncleanable_offset
        # Of a map with all the memory that is allowed, not of one for a small log.
        settings = self._settings
        allowed_keys = capacity_within(settings.map_bytes, settings.io_buffer_load_factor)
        done.map_capacity = max(offset_map.capacity, allowed_keys)
        done.map_count = offset_map.count
        done.map_bytes_read = building.bytes_read
        done.map_seconds = time.perf_counter() - start_s
        if done.round_end_offset <= found.first_dirty_offset:
            return False
        self._rewriting = self._begin_rewriting(
            offset_map, all_have_keys=not first_pass.facts.keyless
        )
        return True

    def _new_map(self, found: Cleanable) -> OffsetMap:
        """A map for what is dirty, or as much of it as there is memory for."""
        memory_bytes = self._settings.map_bytes
        while True:
            try:
                return OffsetMap(
                    memory_bytes,
                    found.first_dirty_offset,
                    load_factor=self._settings.io_buffer_load_factor,
                    expected_keys=found.first_uncleanable_offset - found.first_dirty_offset,
                )
            except (MemoryError, OSError) as error:
                memory_bytes //= 2
                if memory_bytes < _MAP_BYTES_MIN:
                    needed = f"{self._settings.map_bytes} bytes for an offset map"
                    raise CleaningPostponed(needed) from error

    def _add(self, building: MapBuilder, segment: Segment, end_offset: int) -> bool:
        try:
            return building.add(segment, end_offset)
        except SegmentGone:
            return True  # and with it all before it, of which its keys would have told

    def _begin_rewriting(self, offset_map: OffsetMap, *, all_have_keys: bool) -> Rewriter:
        config, view = self.view.config, self.view
        start_offset, end_offset = self._found.first_dirty_offset, offset_map.latest_offset + 1
        bitmap = None
        if end_offset > start_offset:
            bitmap = offset_map.survivors_bitmap(start_offset, end_offset)
        rules = FilterRules(
            self._now_ms,
            config.delete_retention_ms,
            # The last batch of the round shows how far it came, whatever is left of it.
            kept_empty=sorted({*view.last_data_offsets.values(), offset_map.latest_offset}),
            bitmap=bitmap,
            bitmap_start=start_offset,
            keeps_deletions=view.keeps_deletions,
        )
        survivors = None
        if bitmap is not None and all_have_keys:
            survivors = SurvivorBitmap(bitmap, start_offset, end_offset)

        def new_pass(interval: int) -> FilterPass:
            return filter_pass(offset_map, rules, index_interval_bytes=interval)

        return Rewriter(
            new_pass,
            rules,
            LiveProducers(view.last_data_offsets, view.epochs_without_data),
            survivors,
            self._reader,
            self._crew,
            config.index_interval_bytes,
        )

    def _sealed(self) -> Iterator[tuple[Segment, int]]:
        """Segments but the active one, with their end offset."""
        segments = self.view.segments
        for segment, following in itertools.pairwise(segments):
            yield segment, following.base_offset

    def _aborted(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        return self._log.aborted_transactions(start_offset, end_offset)

    # -- the second pass -----------------------------------------------------------------

    def groups(self) -> Iterator[Sequence[Segment]]:
        """The segments up to the end of the round, in groups that become one."""
        start_offset, end_offset = self.view.log_start_offset, self.statistics.round_end_offset
        chosen = [
            (segment, segment_end)
            for segment, segment_end in self._sealed()
            if segment_end > start_offset
            and segment.base_offset < end_offset
            and not segment.is_deleted
        ]
        self.statistics.segments_before = len(chosen)
        config = self.view.config
        sizes = [_size(*each) for each in chosen]
        for group in group_segments(sizes, config.segment_bytes, config.segment_index_bytes):
            yield [segment for segment, _ in chosen[group.start : group.stop]]

    def rewrite(self, group: Sequence[Segment], output: Output) -> None:
        """Have what survives of a group written."""
        assert self._rewriting is not None
        start_s = time.perf_counter()
        self._rewriting.begin_file()
        ends = {id(segment): end_offset for segment, end_offset in self._sealed()}
        aborted = self._aborted(group[0].base_offset, ends[id(group[-1])])
        for segment in group:
            self._rewriting.rewrite(segment, ends[id(segment)], aborted, output)
        self.statistics.rewrite_seconds += time.perf_counter() - start_s

    def forget_group(self) -> None:
        """Discard what was rewritten last: it is gone from the log."""
        assert self._rewriting is not None
        self._rewriting.forget_file()

    @property
    def deletions_dropped(self) -> int:
        """How many tombstones and markers are left out so far."""
        return 0 if self._rewriting is None else self._rewriting.deletions_dropped

    def done(self) -> CleaningStatistics:
        """What was done, all in all."""
        assert self._rewriting is not None
        self._rewriting.count(self.statistics)
        self.statistics.ended_ms = self._clock.wall_ms()
        self.statistics.seconds = time.perf_counter() - self._began_s
        return self.statistics


def _size(segment: Segment, end_offset: int) -> Size:
    return Size(
        segment.base_offset,
        end_offset,
        segment.size,
        segment.offset_index.size_bytes,
        segment.time_index.size_bytes,
    )
