"""Loading a log from a partition folder: checking it, and repairing it.

After a clean shutdown only the end of the active segment is checked. Otherwise everything from the
recovery point on is read and checked by CRC: indexes, leader epochs and producer state are rebuilt
from it, and the log is cut off at the first invalid batch.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from typing import NamedTuple

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import MAGIC
from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.storage.directory.partition_metadata import read_topic_id
from drumlin.storage.log import leader_epochs
from drumlin.storage.log.file_names import offset_of
from drumlin.storage.log.leader_epochs import LeaderEpochs
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.log.producer_replay import (
    OFFSET_MAX,
    follow_batch,
    follow_segment,
    load_latest_snapshot,
    load_snapshot_up_to,
    remove_stray_snapshots,
)
from drumlin.storage.log.truncation import settle
from drumlin.storage.producers.producer_state import ProducerState
from drumlin.storage.recovery.leftovers import sort_out_leftovers
from drumlin.storage.recovery.losses import find_losses
from drumlin.storage.recovery.segment_recovery import recover_segment
from drumlin.storage.segment.segment import RELATIVE_OFFSET_MAX, Segment
from drumlin.storage.segment.segment_files import LOG_SUFFIX
from drumlin.storage.segment.segment_list import SegmentList
from drumlin.wire.exact_from import UNKNOWN_YET

_logger = logging.getLogger(__name__)


class LoadRequest(NamedTuple):
    """The facts about a log, from the checkpoints, before its folder is read."""

    topic: str
    partition: int
    path: str
    config: LogConfig
    recovery_point: int
    log_start_offset: int
    high_watermark: int
    #: None if not known.
    deletions_kept_from: int | None
    #: None if not known; a 0 is not always stored.
    exact_from: int | None
    was_clean: bool


def load_log(directory: LogDirectory, request: LoadRequest, now_ms: int) -> PartitionLog:
    """Load the log in a partition folder.

    Raises:
        OSError: the folder can't be read or repaired.
        UnsupportedFormat: its batches are of an old format.
    """
    segments, unindexed = _open_segments(directory, request, now_ms)
    log = PartitionLog(
        directory,
        request.path,
        request.topic,
        request.partition,
        read_topic_id(request.path, directory.files),
        request.config,
        SegmentList(segments),
    )
    log.leader_epochs = _read_leader_epochs(directory, request.path) or _found_epochs(log)
    if not request.was_clean or unindexed or not segments[0].was_loaded:
        log.durability.note_new_names()
    _recover(log, request, unindexed)
    high_watermark = request.high_watermark
    if not request.was_clean:
        # Above the recovery point there may be records that had been truncated before the crash.
        high_watermark = min(high_watermark, request.recovery_point)
    log.load_high_watermark(high_watermark)
    log.is_high_watermark_old = not request.was_clean
    _find_what_was_cleaned(log, request)
    with contextlib.suppress(OSError):  # the append will raise and report the error
        _prepare_appends(log.segments.active)
    return log


def _find_what_was_cleaned(log: PartitionLog, request: LoadRequest) -> None:
    exact_from = request.exact_from
    clean_up_to = log.log_directory.cleaner_offsets.get((log.topic, log.partition))
    is_cleaned = log.config.is_compacted or clean_up_to is not None
    if is_cleaned or request.deletions_kept_from:
        log.deletions_kept_from = min(_find_kept_deletions(log, request), log.log_end_offset)
    if exact_from is None or not request.was_clean:
        # If it was noted, even as 0, the log was compacted: it may have been cleaned since.
        has_lost = is_cleaned or exact_from is not None or log.log_start_offset
        exact_from = UNKNOWN_YET if has_lost else 0
    # If Apache Kafka has used the folder since, its checkpoint covers its own cleanings. Losses
    # found by recovery remain.
    log.exact_from = max(log.exact_from, exact_from, clean_up_to or 0)


def _find_kept_deletions(log: PartitionLog, request: LoadRequest) -> int:
    """The offset from which no tombstone or marker has been removed.

    The checkpoint covers the log below the recovery point. Above it there may be batches with gaps,
    fetched from a leader. A log entirely above its recovery point may have no checkpoint yet.
    """
    known = request.deletions_kept_from
    if known is None:
        if request.was_clean or request.recovery_point > log.log_start_offset:
            return log.log_end_offset
        known = 0
    return known if request.was_clean else max(known, _end_of_gaps(log, request.recovery_point))


def _end_of_gaps(log: PartitionLog, from_offset: int) -> int:
    """The end offset of the last batch that lacks records or follows a gap; 0 without one."""
    segments = log.segments.from_offset(from_offset)
    found, end_offset = 0, segments[0].base_offset
    for segment in segments:
        for _, header in segment.walk(0):
            if header.record_count < header.end_offset - end_offset:
                found = header.end_offset
            end_offset = header.end_offset
    return found


def _prepare_appends(segment: Segment) -> None:
    """Read the facts that the first append needs, as it must not read files on the loop."""
    segment.offset_index.load()
    segment.time_index.load()
    segment.transaction_index.load()
    _ = segment.first_timestamp, segment.largest_timestamp


def reload_log(log: PartitionLog) -> None:
    """Load a log again from the device, as after a crash.

    Raises:
        OSError: the device still fails.
        UnsupportedFormat: the batches on the device have an old format.
    """
    for segment in log.segments.from_offset(log.recovery_point):
        with segment.log_file as descriptor:
            log.log_directory.files.forget_cached(descriptor)
    request = LoadRequest(
        log.topic,
        log.partition,
        log.path,
        log.config,
        log.recovery_point,
        log.log_start_offset,
        log.high_watermark,
        log.deletions_kept_after_crash,
        log.exact_from,
        was_clean=False,
    )
    with log.swaps.lock:
        fresh = load_log(log.log_directory, request, log.log_directory.clock.wall_ms())
        if fresh.log_end_offset < log.log_end_offset:
            _logger.error("%s has lost its records from offset %d on", log, fresh.log_end_offset)
        take_over(log, fresh)
        log.truncations += 1  # all segments are new objects
        log.swaps.pending = None


def take_over(log: PartitionLog, fresh: PartitionLog) -> None:
    """Replace the state of a log by that of `fresh`, which then owns the folder."""
    before = log.segments
    log.durability.give_up()
    log.segments = fresh.segments
    log.log_start_offset = fresh.log_start_offset
    log.log_end_offset = fresh.log_end_offset
    log.high_watermark_is_at_most(fresh.log_end_offset)
    log.deletions_kept_from = fresh.deletions_kept_from
    log.exact_from = fresh.exact_from
    log.deletion_drops = fresh.deletion_drops
    log.epoch_due_at = fresh.epoch_due_at
    log.leader_epochs = fresh.leader_epochs
    log.producer_state = fresh.producer_state
    log.durability = fresh.durability
    log.awaits_flush |= fresh.awaits_flush
    log.is_being_cut = False
    for segment in before:
        segment.discard()


# -- reading the folder ------------------------------------------------------------------------


def _open_segments(
    directory: LogDirectory, request: LoadRequest, now_ms: int
) -> tuple[list[Segment], list[Segment]]:
    """All segments, and those without one of their indexes."""
    files, segments, unindexed = directory.files, [], []
    names = set(sort_out_leftovers(request.path, files))
    for name in names:
        base_offset = offset_of(name, LOG_SUFFIX)
        if base_offset is None:
            continue
        segment = Segment(request.path, base_offset, directory.open_files, now_ms)
        segment.size = files.size_of(segment.log_file.path)
        if segment.transaction_index.file.path.rpartition("/")[2] not in names:
            segment.transaction_index.know(())
        indexes = (segment.offset_index, segment.time_index)
        if any(index.file.path.rpartition("/")[2] not in names for index in indexes):
            unindexed.append(segment)
        segments.append(segment)
    if not segments:
        base_offset = request.log_start_offset
        segments = [Segment.create(request.path, base_offset, directory.open_files, now_ms)]
    return segments, unindexed


def _read_leader_epochs(directory: LogDirectory, path: str) -> LeaderEpochs | None:
    try:
        content = directory.files.read_file(f"{path}/{leader_epochs.FILE_NAME}")
        # Kafka's file is empty as long as it has no entry.
        return LeaderEpochs.decode(content) if content else None
    except FileNotFoundError:
        return None
    except ValueError as error:
        _logger.warning("%s/%s is ignored: %s", path, leader_epochs.FILE_NAME, error)
        return None


def _found_epochs(log: PartitionLog) -> LeaderEpochs:
    """The leader epochs in the batches, by which a follower truncates."""
    epochs, end_offset = LeaderEpochs(), log.segments.first.base_offset
    for segment in log.segments:
        for _, header in segment.walk(0):
            if header.magic == MAGIC and header.leader_epoch > epochs.latest_epoch:
                # The epoch's first batches may be compacted away: it begins at the previous end.
                epochs.assign(header.leader_epoch, end_offset)
            end_offset = header.end_offset
    return epochs


# -- recovery ----------------------------------------------------------------------------------


def _recover(log: PartitionLog, request: LoadRequest, unindexed: Sequence[Segment]) -> None:
    """Find the log end offset and the producer state; repair the damage of a crash."""
    segments = log.segments
    log.log_start_offset = max(request.log_start_offset, segments.first.base_offset)
    if request.was_clean:
        is_indexed = segments.active not in unindexed
        end_offset = segments.active.sound_end_offset() if is_indexed else None
        recover_from = segments.active.base_offset if end_offset is None else OFFSET_MAX
    else:
        end_offset = None
        recover_from = segments.from_offset(request.recovery_point)[0].base_offset
    for segment in sorted(unindexed, key=lambda each: each.base_offset):
        is_recovered = segment.base_offset >= recover_from  # it is indexed anew anyway
        if request.was_clean or not is_recovered:
            _logger.warning("%s: an index is missing and is rebuilt", segment.log_file.path)
        if not is_recovered:
            _index_anew(log, segment)
    load_latest_snapshot(
        log.producer_state,
        log.path,
        log.log_directory.files,
        log.log_start_offset,
        recover_from if end_offset is None else end_offset,
    )
    log.leader_epochs.truncate_from_end(recover_from)  # later epochs are read from the batches
    if log.producer_state.end_offset != end_offset:
        replay(log, recover_from)
    if end_offset is None:
        _note_repaired(log, recover_from)
        end_offset = segments.active.sound_end_offset()
        assert end_offset is not None
        # Not the requested recovery point: transaction indexes below it were rebuilt, too.
        recovery_point = min(request.recovery_point, recover_from)
    else:
        recovery_point = end_offset
    settle(log, end_offset, recovery_point)
    find_losses(log, request.recovery_point)
    bases = {segment.base_offset for segment in log.segments}
    remove_stray_snapshots(log.path, log.log_directory.files, bases)


def _note_repaired(log: PartitionLog, recovered_from: int) -> None:
    """Note sealed segments whose indexes were rebuilt, to be flushed again."""
    active = log.segments.active
    for segment in log.segments.from_offset(recovered_from):
        if segment is not active and segment.base_offset >= recovered_from:
            _request_flush(log, segment)


def _request_flush(log: PartitionLog, sealed: Segment) -> None:
    sealed.seal()
    log.durability.note_sealed(sealed)
    log.awaits_flush = True


def _index_anew(log: PartitionLog, segment: Segment) -> None:
    """Rebuild all indexes of a sealed segment from its headers and markers.

    Aborted transactions are found by replaying the producer state before the segment.
    """
    state = ProducerState()
    load_snapshot_up_to(
        segment.base_offset, state, log.path, log.log_directory.files, log.log_start_offset
    )
    for earlier in log.segments.from_offset(state.end_offset):
        if earlier.base_offset < segment.base_offset:
            follow_segment(state, earlier)
    # The transaction index first, durably: once the other indexes exist, this is not run again.
    segment.transaction_index.clear()
    for place in segment.walk(0):
        follow_batch(state, segment, place, writes_index=True)
    segment.transaction_index.sync()
    log.log_directory.files.sync_directory(log.path)
    segment.start_indexes_anew()
    for place in segment.walk(0):
        segment.index_batch(place, place.header.size, log.config.index_interval_bytes)
    segment.rest()
    _request_flush(log, segment)


def replay(log: PartitionLog, recover_from: int) -> None:
    """Replay the log from the end of the producer state; recover it from `recover_from` on."""
    segments = log.segments.from_offset(min(log.producer_state.end_offset, recover_from))
    end_offset = recover_from
    for number, segment in enumerate(segments):
        if segment.base_offset < recover_from:
            follow_segment(log.producer_state, segment)
            continue
        recovered = recover_segment(log, segment, _end_offset_max(segments, number), end_offset)
        if recovered is None:
            behind = segments[number + 1 :]
            log.segments.replace(behind, ())
            for lost in behind:
                _logger.warning("%s: %d bytes removed", lost.log_file.path, lost.size)
                lost.remove_files()
            return
        end_offset = recovered


def _end_offset_max(segments: Sequence[Segment], number: int) -> int:
    """The limit of offsets in a segment, which no CRC covers: the next segment's base offset."""
    if number + 1 < len(segments):
        return segments[number + 1].base_offset
    return segments[number].base_offset + RELATIVE_OFFSET_MAX + 1
