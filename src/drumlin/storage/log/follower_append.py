"""Appending what a leader sent: its batches as they are, with the offsets that it gave them.

Owns what is checked before any of it gets into the log. Nothing of a batch that is not sound is
appended, and nothing after it; those before it count. Batches that need nothing in between are
written with one call. One call of `append_next` is a small part of a turn of the loop.
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

#: Written with one call, unless a single batch is larger.
_GROUP_BYTES_MAX: Final = 512 * 1024
_GROUP_BATCHES_MAX: Final = 64

#: Begins a segment at an offset.
Roll = Callable[[int, int], Segment]


def append_next(
    log: LogState, records: memoryview, position: int, now_ms: int, leader_epoch: int, roll: Roll
) -> int:
    """Append the batches that begin at `position`: some, or one.

    Those written in a later leader epoch than `leader_epoch` stay out: an answer to a request of
    before may have them, and it is unknown whether the log agrees with them.

    Returns:
        Where the rest begins. That is `position` where no whole batch to append is left.

    Raises:
        KafkaError: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE.
        OSError: nothing is appended.
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
            break  # the next call meets it first
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
    """The header of the batch at `position`, which is sound and may be appended at `offset`.

    None if there is none that is whole, or it is of a later leader epoch.
    """
    left = len(records) - position
    if left < HEADER_SIZE:
        if left and not position:
            raise _corrupt(log, offset, f"{left} bytes are no batch")
        return None
    header = parse_header(records, position)
    size = header.size
    if header.magic != MAGIC or size < HEADER_SIZE:
        raise _corrupt(log, offset, f"no batch begins at position {position}")
    if size > left:
        if not position:
            raise _corrupt(log, offset, f"a batch of {size} bytes, of which {left} came")
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
    """Append a control batch by itself: what it ends depends on all batches before it."""
    end = position + header.size
    batch = records[position:end]
    try:
        marker = parse_marker(batch, header)
    except ValueError as error:
        raise _corrupt(log, header.base_offset, f"a marker that is none: {error}") from error
    aborted = None
    if marker is not None:
        aborted = log.producer_state.aborted_by(header, marker, header.base_offset)
    if aborted is not None:  # before the marker: readers go by the marker
        segment.transaction_index.append(aborted)
        log.durability.note_new_names()  # it has no file before the first one
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
    """Count batches that were written, and take over what they say of epochs and producers."""
    epochs, state, end_offset = log.leader_epochs, log.producer_state, log.log_end_offset
    try:
        for header in headers:
            if header.leader_epoch > epochs.latest_epoch:
                # Not at its base offset: the first batches of the epoch may have been cleaned away.
                epochs.assign(header.leader_epoch, end_offset)
            if header.record_count < header.end_offset - end_offset:  # the leader has cleaned there
                log.note_deletions_dropped(header.end_offset)
                log.note_states_lost()
            end_offset = header.end_offset
            if header.producer_id >= 0:
                state.follow(header, marker)
    finally:  # whatever happens: they are in the file
        log.log_end_offset = headers[-1].end_offset
