"""Detection of lost records when a log is loaded: at its end, or between two segments.

Nothing is restored here. A loss is logged with its offsets, and the log needs a new leader epoch,
by which consumers detect it (KIP-320). No offset is assigned twice: a log that ends below its
recovery point continues at that point. The new epoch begins where the records end, so a consumer
that had read further gets that offset. An empty batch, such as compaction leaves, covers the
missing offsets, so that other consumers get past them. An empty batch in a gap between segments
also shows the next start that this loss was already reported.

Missing offsets between segments are normal in a compacted log.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from itertools import pairwise, takewhile

from drumlin.records.batch.batch import NO_TIMESTAMP, encode_empty_batch
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.log.truncation import skip_to
from drumlin.storage.segment.segment import RELATIVE_OFFSET_MAX, Segment

_logger = logging.getLogger(__name__)


def find_losses(log: PartitionLog, recovery_point: int) -> None:
    """Check the ends of all segments; everything below `recovery_point` was durable.

    Raises:
        OSError: the files can't be read or repaired.
    """
    _remove_empty_ends(log)
    for segment, following in pairwise(log.segments.snapshot()):
        if following.base_offset > log.log_start_offset:
            _look_behind(log, segment, following.base_offset)
    end_offset = log.log_end_offset
    if end_offset < recovery_point:
        _logger.error(
            "%s has lost the records from offset %d to %d: its files end before them. "
            "It continues at %d, in a new leader epoch.",
            log.path,
            end_offset,
            recovery_point - 1,
            recovery_point,
        )
        _note_states_lost(log)
        skip_to(log, recovery_point)
        _begin_epoch_at(log, end_offset)


def _begin_epoch_at(log: PartitionLog, offset: int) -> None:
    log.epoch_due_at = offset if log.epoch_due_at is None else min(offset, log.epoch_due_at)


def _note_states_lost(log: PartitionLog) -> None:
    """Record durably that states are not exact, before an empty batch hides the loss."""
    log.note_states_lost()
    key = log.topic, log.partition
    with contextlib.suppress(OSError):  # kept in memory, and written with the next change
        log.log_directory.exact_states.set(key, log.exact_from, only_if=lambda: True)


def _remove_empty_ends(log: PartitionLog) -> None:
    """Remove empty segments at the end except the last one, which has the log end offset."""
    *others, active = log.segments.snapshot()
    if active.size:
        return
    gone = list(takewhile(lambda segment: segment.size == 0, reversed(others[1:])))
    log.segments.replace(gone, ())
    log.durability.forget(gone)
    for segment in gone:
        segment.remove_files()


def close_losses(logs: Iterable[PartitionLog]) -> None:
    """Make new leader epochs durable, and fill lost ends, before the logs are served. Blocks.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR.
    """
    for log in logs:
        try:
            with log.durability.lock:
                log.durability.save_leader_epochs(log.leader_epochs)
                _fill_lost_end(log)
        except OSError as error:
            raise log.log_directory.fail_log(
                error, f"save the leader epochs of {log.path}"
            ) from error


def _fill_lost_end(log: PartitionLog) -> None:
    """Append an empty batch that covers the offsets up to the active segment, which is empty."""
    *_, last, active = (None, *log.segments.snapshot())
    if last is None or active is None or active.size or not log.leader_epochs.entries:
        return
    epoch, end_offset = log.leader_epochs.entries[-1]
    last_offset = active.base_offset - 1
    if not end_offset <= last_offset <= last.base_offset + RELATIVE_OFFSET_MAX:
        return
    if last.end_of_batches(last.offset_index.last_position)[0] == end_offset:
        _append_empty(log, last, end_offset, last_offset, epoch)


def _append_empty(
    log: PartitionLog, segment: Segment, first_offset: int, last_offset: int, epoch: int
) -> None:
    batch = memoryview(encode_empty_batch(first_offset, last_offset, epoch))
    segment.append(batch, last_offset, NO_TIMESTAMP, log.config.index_interval_bytes)
    segment.seal()
    segment.sync()


def _look_behind(log: PartitionLog, segment: Segment, next_offset: int) -> None:
    """Check that the batches of a sealed segment reach the next one, and report a loss."""
    is_cut = _is_cut(segment)
    end_offset, end = _end_of(log, segment)
    rest = segment.size - end
    if end_offset >= next_offset:
        if rest:
            _logger.warning(
                "%s: the last %d bytes, from offset %d on, are not batches, and are ignored",
                segment.log_file.path,
                rest,
                end_offset,
            )
            segment.size = end
    elif rest:
        segment.is_damaged = True
        _logger.error(
            "%s: the last %d bytes are not batches. Fetches of the offsets %d to %d fail with "
            "CORRUPT_MESSAGE.",
            segment.log_file.path,
            rest,
            end_offset,
            next_offset - 1,
        )
        _begin_epoch_at(log, log.log_end_offset)
    elif is_cut or next_offset > _compacted_up_to(log):
        _note_gap(log, segment, end_offset, next_offset)


def _end_of(log: PartitionLog, segment: Segment) -> tuple[int, int]:
    """The offset and position after the last batch. A wrong index is rebuilt."""
    found = segment.end_of_batches(segment.offset_index.last_position)
    if found[1] == segment.size and not _is_cut(segment):
        return found
    anew = segment.end_of_batches(0)
    if anew[1] < segment.size:
        return max(found, anew)
    _logger.warning("%s: its index is wrong and is rebuilt", segment.log_file.path)
    segment.start_indexes_anew()
    for place in segment.walk(0):
        segment.index_batch(place, place.header.size, log.config.index_interval_bytes)
    segment.rest()
    return anew


def _is_cut(segment: Segment) -> bool:
    """Whether the index has batches that the file does not have."""
    entry = segment.offset_index.last_entry
    return entry is not None and entry[1] >= segment.size


def _compacted_up_to(log: PartitionLog) -> int:
    if log.config.is_compacted:
        return log.log_end_offset
    return log.log_directory.cleaner_offsets.get((log.topic, log.partition)) or 0


def _note_gap(log: PartitionLog, segment: Segment, end_offset: int, next_offset: int) -> None:
    is_beginning = end_offset <= log.log_start_offset
    is_end = next_offset == log.log_end_offset  # a crash came before the new leader epoch
    starts = [entry.start_offset for entry in log.leader_epochs.entries]
    if not is_beginning and not is_end and (end_offset in starts or next_offset in starts):
        _logger.info("%s has no records from %d to %d", log.path, end_offset, next_offset - 1)
        return  # a lost end found by an earlier start, whose leader epoch informs consumers
    _logger.error(
        "%s has lost the records from offset %d to %d: no file contains them. Consumers continue "
        "at %d.",
        log.path,
        end_offset,
        next_offset - 1,
        next_offset,
    )
    _note_states_lost(log)
    _begin_epoch_at(log, end_offset if is_end else log.log_end_offset)
    if not is_end and next_offset - 1 <= segment.base_offset + RELATIVE_OFFSET_MAX:
        epoch = log.leader_epochs.epoch_for(end_offset)
        with contextlib.suppress(OSError):  # on a full device the next start reports it again
            _append_empty(log, segment, end_offset, next_offset - 1, epoch)
    if is_beginning:  # the log starts after the gap: consumers get OFFSET_OUT_OF_RANGE
        log.delete_records_before(next_offset)
