"""The state of one cleaning: the offset map, the groups of segments, and the statistics.

Must never change the log: that is up to `cleaner.py`.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Final

from drumlin.clock import Clock
from drumlin.compaction.dirty.cleanable import Cleanable
from drumlin.compaction.dirty.outline import find_cleanable
from drumlin.compaction.dirty.round_progress import RoundProgress, checkpoint_of
from drumlin.compaction.failures import CleaningFailed, CleaningPostponed, SegmentGone
from drumlin.compaction.passes.kernel_passes import FilterPass, MapPass
from drumlin.compaction.passes.offset_map import OffsetMap, capacity_within
from drumlin.compaction.passes.passes import FilterRules
from drumlin.compaction.passes.survivor_bitmap import SurvivorBitmap
from drumlin.compaction.passes.transactions import NOTHING_OPEN
from drumlin.compaction.round.executor import Executor, helpers_for
from drumlin.compaction.round.map_builder import MapBuilder
from drumlin.compaction.round.rewriter import LiveProducers, Output, Rewriter
from drumlin.compaction.round.segment_groups import Size, group_segments
from drumlin.compaction.round.segment_reader import SegmentReader
from drumlin.compaction.settings import CleanerSettings
from drumlin.compaction.statistics import CleaningStatistics
from drumlin.records.kernels import NoKernels, compaction_kernels
from drumlin.storage.log.cleaning_view import CleaningView
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.segment.segment import Segment
from drumlin.storage.segment.transaction_index import AbortedTransaction

#: The smallest useful map; with a smaller map, a cleaning would make hardly any progress.
_MAP_BYTES_MIN: Final = 1 << 20


class Round:
    """One cleaning: `begin` builds the map, and then each group is rewritten."""

    def __init__(
        self,
        log: PartitionLog,
        view: CleaningView,
        settings: CleanerSettings,
        reader: SegmentReader,
        clock: Clock,
        begun: RoundProgress | None = None,
        *,
        is_requested: bool = False,
    ) -> None:
        """Prepare to clean the segments in `view`.

        Args:
            begun: the progress of an earlier round, which is continued if the view still matches.
            is_requested: whether to look for removable tombstones even if it is unknown whether any
                exist.
        """
        self._is_requested = is_requested
        self.view = view
        self._log = log
        self._settings = settings
        self._reader = reader
        self._clock = clock
        self._now_ms = clock.expiry.now_ms()
        self._found = find_cleanable(log, view, self._now_ms)
        self._begun = begun if begun is not None and begun.is_of(log, view) else None
        self._end_offset = self._found.first_uncleanable_offset
        if self._begun is not None:
            self._end_offset = min(self._end_offset, self._begun.round_end_offset)
        self._map: OffsetMap | None = None
        self._rewriting: Rewriter | None = None
        self._executor = Executor(helpers_for(settings.threads * settings.brokers))
        self._began_s = time.perf_counter()
        self.statistics = CleaningStatistics(
            log.topic,
            log.partition,
            clock.wall_ms(),
            first_dirty_offset=self._found.first_dirty_offset,
        )

    def close(self) -> None:
        """Free the memory."""
        self._executor.close()  # first, as its tasks use the memory
        self._reader.close()
        if self._map is not None:
            self._map.close()

    # -- the first pass ------------------------------------------------------------------

    def begin(self) -> bool:
        """Build the map; False if there is nothing to clean.

        The map stays empty if nothing is dirty, but tombstones or markers can be removed.

        Raises:
            CleaningFailed, CleaningStopped, CleaningPostponed, OSError, KafkaError
        """
        found = self._found
        is_dirty = found.cleanable_bytes and self._end_offset > found.first_dirty_offset
        if not is_dirty and not self._may_drop_deletions():
            return False
        try:
            self._kernels = compaction_kernels.required()
        except NoKernels as error:
            raise CleaningFailed(f"a cleaning needs kernels: {error}") from None
        if is_dirty:
            return self._build_map(found)
        self._end_offset = self.statistics.round_end_offset = found.first_dirty_offset
        self._map = self._new_map(found)
        self._map.latest_offset = found.first_dirty_offset - 1
        self._rewriting = self._begin_rewriting(self._map, all_have_keys=True)
        return True

    def _may_drop_deletions(self) -> bool:
        is_due = self._found.has_deletions_to_drop(self._now_ms, if_unknown=self._is_requested)
        return is_due and not self.view.keeps_deletions

    def _build_map(self, found: Cleanable) -> bool:
        start_s, done = time.perf_counter(), self.statistics
        offset_map = self._map = self._new_map(found)
        first_offset, end_offset = found.first_dirty_offset, self._end_offset
        first_pass = MapPass(self._kernels, offset_map, first_offset, end_offset)
        building = MapBuilder(
            first_pass,
            self._aborted(found.first_dirty_offset, self._end_offset),
            self._reader,
            self._executor,
        )
        is_complete = all(
            self._add(building, segment, end_offset)
            for segment, end_offset in self._sealed()
            if end_offset > found.first_dirty_offset and segment.base_offset < self._end_offset
        )
        done.round_end_offset = self._end_offset if is_complete else offset_map.latest_offset + 1
        # The capacity with all of the allowed memory: a small log gets a smaller map.
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
        """A map for the dirty part, or for as much of it as memory allows."""
        memory_bytes = self._settings.map_bytes
        while True:
            try:
                return OffsetMap(
                    memory_bytes,
                    found.first_dirty_offset,
                    load_factor=self._settings.io_buffer_load_factor,
                    expected_keys=self._end_offset - found.first_dirty_offset,
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
            return True  # its keys only supersede earlier records, which are gone, too

    def _begin_rewriting(self, offset_map: OffsetMap, *, all_have_keys: bool) -> Rewriter:
        config, view = self.view.config, self.view
        start_offset, end_offset = self._found.first_dirty_offset, offset_map.latest_offset + 1
        bitmap = None
        if end_offset > start_offset:
            bitmap = offset_map.survivors_bitmap(start_offset, end_offset)
        rules = FilterRules(
            self._now_ms,
            config.delete_retention_ms,
            # The last batch of the round is kept, even if empty, to mark the end of the round.
            kept_empty=sorted({*view.last_data_offsets.values(), offset_map.latest_offset}),
            bitmap=bitmap,
            bitmap_start=start_offset,
            keeps_deletions=view.keeps_deletions,
        )
        survivors = None
        if bitmap is not None and all_have_keys:
            survivors = SurvivorBitmap(bitmap, start_offset, end_offset)

        def new_pass(interval: int) -> FilterPass:
            return FilterPass(self._kernels, offset_map, rules, interval)

        return Rewriter(
            new_pass,
            rules,
            LiveProducers(view.last_data_offsets, view.epochs_without_data),
            survivors,
            self._reader,
            self._executor,
            config.index_interval_bytes,
            NOTHING_OPEN if self._begun is None else self._begun.transactions,
        )

    def _sealed(self) -> Iterator[tuple[Segment, int]]:
        """The segments except the active one, with their end offsets."""
        segments = self.view.segments
        for segment, following in itertools.pairwise(segments):
            yield segment, following.base_offset

    def _aborted(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        return self._log.aborted_transactions(start_offset, end_offset)

    # -- the second pass -----------------------------------------------------------------

    def groups(self) -> Iterator[Sequence[Segment]]:
        """The groups of segments up to the end of the round; each group becomes one segment."""
        start_offset, end_offset = self.view.log_start_offset, self.statistics.round_end_offset
        if self._begun is not None:
            start_offset = max(start_offset, self._begun.next_offset)
        chosen = [
            (segment, segment_end)
            for segment, segment_end in self._sealed()
            if segment_end > start_offset
            and segment.base_offset < end_offset
            and not segment.is_deleted
        ]
        config = self.view.config
        sizes = [_size(*each) for each in chosen]
        for group in group_segments(sizes, config.segment_bytes, config.segment_index_bytes):
            yield [segment for segment, _ in chosen[group.start : group.stop]]

    def rewrite(self, group: Sequence[Segment], output: Output) -> None:
        """Write the surviving records of a group."""
        assert self._rewriting is not None
        start_s = time.perf_counter()
        self._rewriting.begin_file()
        ends = {id(segment): end_offset for segment, end_offset in self._sealed()}
        aborted = self._aborted(group[0].base_offset, ends[id(group[-1])])
        for segment in group:
            self._rewriting.rewrite(segment, ends[id(segment)], aborted, output)
        self.statistics.rewrite_seconds += time.perf_counter() - start_s

    def forget_group(self) -> None:
        """Discard the group that was rewritten last, as it was removed from the log."""
        assert self._rewriting is not None
        self._rewriting.forget_file()

    def count_group(self, group: Sequence[Segment], new_count: int) -> None:
        """Count a group, and the segments that replace it (in a simulation: would replace it)."""
        self.statistics.segments_before += len(group)
        self.statistics.segments_after += new_count

    def progress_after(self, group: Sequence[Segment]) -> RoundProgress:
        """The progress after a group that was swapped durably."""
        assert self._rewriting is not None
        ends = {id(segment): end_offset for segment, end_offset in self._sealed()}
        return RoundProgress(
            self._log,
            self.view.truncations,
            checkpoint_of(self._log),
            self.statistics.round_end_offset,
            ends[id(group[-1])],
            self._rewriting.open_transactions,
            self._counted(),
        )

    @property
    def deletions_dropped(self) -> int:
        """The number of tombstones and markers dropped so far."""
        return 0 if self._rewriting is None else self._rewriting.deletions_dropped

    def done(self) -> CleaningStatistics:
        """The statistics of the whole round."""
        counted = self._counted()
        counted.ended_ms = self._clock.wall_ms()
        return counted

    def _counted(self) -> CleaningStatistics:
        assert self._rewriting is not None
        seconds = time.perf_counter() - self._began_s
        counted = dataclasses.replace(self.statistics, seconds=seconds)
        self._rewriting.count(counted)
        return counted if self._begun is None else counted.after(self._begun.done)


def _size(segment: Segment, end_offset: int) -> Size:
    return Size(
        segment.base_offset,
        end_offset,
        segment.size,
        segment.offset_index.size_bytes,
        segment.time_index.size_bytes,
    )
