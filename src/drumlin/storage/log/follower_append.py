"""Appending a leader's batches to a follower's log, unchanged and with the leader's offsets.

Owns the checks before anything is written. A bad batch and everything after it is not appended; the
batches before it are. One call writes several ordinary batches. A call of `append_next` takes a
small part of a turn of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from drumlin.records.batch.batch import (
    CONTROL_MASK,
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    crc_matches,
    parse_header,
)
from drumlin.records.batch.varint import INT64_MAX
from drumlin.storage.log.log_state import LogState
from drumlin.storage.producers.control_records import parse_marker
from drumlin.storage.producers.producer_state import TransactionMarker
from drumlin.storage.segment.segment import Segment
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The size of batches written with one call, unless a single batch is larger.
_GROUP_BYTES_MAX: Final = 512 * 1024
_GROUP_BATCHES_MAX: Final = 64

#: Begins a segment at an offset.
Roll = Callable[[int, int], Segment]


def append_next(
    log: LogState, records: memoryview, position: int, now_ms: int, leader_epoch: int, roll: Roll
) -> int:
    """Append one or several of the batches that begin at `position`.

    Batches of later leader epochs than `leader_epoch` are left out: the answer to an older request
    may contain them, and it is not known whether this log agrees with the leader's up to there.

    Returns:
        The position of the rest, which is `position` if no whole batch to append is left.

    Raises:
        KafkaError: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE.
        OSError: nothing was appended.
    """
    offset = log.log_end_offset
    first = _next_sound(log, records, position, offset, leader_epoch)
    if first is None:
        return position
    segment, config = log.segments.active, log.config
    if log.roll_rule.applies(segment, first.size, first.last_offset, first.max_timestamp, now_ms):
        segment = roll(first.base_offset, now_ms)
    if first.attributes & CONTROL_MASK:
        return _append_control(log, segment, records, position, first)
    headers, end = [first], position + first.size
    while (
        len(headers) < _GROUP_BATCHES_MAX and end - position < _GROUP_BYTES_MAX and segment.size > 0
    ):
        try:
            header = _next_sound(log, records, end, headers[-1].end_offset, leader_epoch)
        except KafkaError:
            break  # the next call raises the error
        if header is None or header.attributes & CONTROL_MASK:
            break
        after = end + header.size
        if log.roll_rule.applies(
            segment,
            after - position,
            header.last_offset,
            header.max_timestamp,
            now_ms,
            len(headers),
        ):
            break
        headers.append(header)
        end = after
    segment.append_all(records[position:end], headers, config.index_interval_bytes)
    _count(log, headers, None)
    return end


def _next_sound(
    log: LogState, records: memoryview, position: int, offset: int, leader_epoch: int
) -> BatchHeader | None:
    """The header of the batch at `position`, after checking that it may be appended at `offset`.

    None if no whole batch is left, or it is of a later leader epoch.
    """
    left = len(records) - position
    if left < HEADER_SIZE:
        if left and not position:
            raise _corrupt(log, offset, f"{left} bytes are not a batch")
        return None
    header = parse_header(records, position)
    size = header.size
    if header.magic != MAGIC or size < HEADER_SIZE:
        raise _corrupt(log, offset, f"no batch begins at position {position}")
    if size > left:
        if not position:
            raise _corrupt(
                log, offset, f"a batch of {size} bytes, of which only {left} were received"
            )
        return None
    if not crc_matches(records, position, header):
        raise _corrupt(log, offset, f"the checksum of the batch at position {position} is wrong")
    base_offset, last_offset = header.base_offset, header.last_offset
    if not base_offset <= last_offset < INT64_MAX:
        raise _corrupt(log, offset, f"a batch with the offsets {base_offset} to {last_offset}")
    if base_offset < offset:
        raise KafkaError(
            ErrorCode.offset_out_of_range,
            f"a batch at {base_offset} for {log.name}, where {offset} comes next",
        )
    return header if header.leader_epoch <= leader_epoch else None


def _corrupt(log: LogState, offset: int, what: str) -> KafkaError:
    return KafkaError(
        ErrorCode.corrupt_message, f"for {log.name} at offset {offset} the leader sent: {what}"
    )


def _append_control(
    log: LogState, segment: Segment, records: memoryview, position: int, header: BatchHeader
) -> int:
    """Append a control batch by itself, as its effect depends on all batches before it."""
    end = position + header.size
    batch = records[position:end]
    try:
        marker = parse_marker(batch, header)
    except ValueError as error:
        raise _corrupt(log, header.base_offset, f"an invalid marker: {error}") from error
    aborted = None
    if marker is not None:
        aborted = log.producer_state.aborted_by(header, marker, header.base_offset)
    if aborted is not None:  # before the marker, at which readers expect it
        segment.transaction_index.append(aborted)
        log.durability.note_new_names()  # the first entry creates the file
    try:
        segment.append_all(batch, (header,), log.config.index_interval_bytes)
    except OSError:
        if aborted is not None:
            segment.transaction_index.forget_last(aborted)
        raise
    _count(log, (header,), marker)
    return end


def _count(
    log: LogState,
    headers: list[BatchHeader] | tuple[BatchHeader],
    marker: TransactionMarker | None,
) -> None:
    """Update offsets, leader epochs and producers after batches were written."""
    epochs, state, end_offset = log.leader_epochs, log.producer_state, log.log_end_offset
    try:
        for header in headers:
            if header.leader_epoch > epochs.latest_epoch:
                # The epoch starts at the previous end: its first batches may be cleaned away.
                epochs.assign(header.leader_epoch, end_offset)
            if header.record_count < header.end_offset - end_offset:  # the leader has compacted it
                log.note_deletions_dropped(header.end_offset)
                log.note_states_lost()
            end_offset = header.end_offset
            if header.producer_id >= 0:
                state.follow(header, marker)
    finally:  # in any case, since the batches are in the file
        log.log_end_offset = headers[-1].end_offset
