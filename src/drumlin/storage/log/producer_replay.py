"""Loading producer state from disk: the latest snapshot, and the batches after it."""

from __future__ import annotations

import logging
from collections.abc import Container
from typing import Final

from drumlin.storage.files.files import Files
from drumlin.storage.log.file_names import offset_of
from drumlin.storage.producers.control_records import parse_marker
from drumlin.storage.producers.producer_snapshot import (
    SUFFIX,
    CorruptSnapshot,
    decode_snapshot,
    snapshot_path,
)
from drumlin.storage.producers.producer_state import ProducerState
from drumlin.storage.segment.segment import BatchPlace, Segment

_logger = logging.getLogger(__name__)

OFFSET_MAX: Final = 2**63 - 1


def snapshot_offsets(path: str, files: Files) -> list[int]:
    """The offsets of the snapshots in a partition folder, ascending."""
    found = (offset_of(name, SUFFIX) for name in files.list_directory(path))
    return sorted(each for each in found if each is not None)


def load_latest_snapshot(
    state: ProducerState, path: str, files: Files, start_offset: int, offset_max: int
) -> None:
    """Load the latest valid snapshot up to `offset_max`, or an empty state at `start_offset`.

    Removes later snapshots and unreadable ones.
    """
    for offset in reversed(snapshot_offsets(path, files)):
        file_path = snapshot_path(path, offset)
        if offset <= offset_max:
            try:
                state.load(decode_snapshot(files.read_file(file_path)), offset)
                return
            except CorruptSnapshot as error:
                _logger.warning("%s is removed: %s", file_path, error)
        files.remove(file_path)
    state.load([], start_offset)


def load_snapshot_up_to(
    offset_max: int, state: ProducerState, path: str, files: Files, start_offset: int
) -> None:
    """Load the latest valid snapshot up to `offset_max`, or an empty state. Removes nothing."""
    for offset in reversed(snapshot_offsets(path, files)):
        if offset <= offset_max:
            try:
                state.load(decode_snapshot(files.read_file(snapshot_path(path, offset))), offset)
                return
            except CorruptSnapshot:
                continue
    state.load([], start_offset)


def remove_stray_snapshots(path: str, files: Files, base_offsets: Container[int]) -> None:
    """Remove snapshots of old clean shutdowns, except the latest and those at base offsets."""
    for offset in snapshot_offsets(path, files)[:-1]:
        if offset not in base_offsets:
            files.remove(snapshot_path(path, offset))


def follow_segment(state: ProducerState, segment: Segment) -> None:
    """Update the state by the headers of the batches in a segment."""
    for place in segment.walk(segment.offset_index.lookup(state.end_offset)):
        follow_batch(state, segment, place)
    state.end_offset = max(state.end_offset, segment.base_offset)


def follow_batch(
    state: ProducerState, segment: Segment, place: BatchPlace, *, writes_index: bool = False
) -> None:
    """Update the state by one batch in the log, unless the state has it already."""
    header = place.header
    if header.last_offset < state.end_offset:
        return
    if header.has_producer_id:
        marker = parse_marker(segment.read_batch(place), header) if header.is_control else None
        if marker is not None and writes_index:
            aborted = state.aborted_by(header, marker, header.base_offset)
            if aborted is not None:
                segment.transaction_index.append(aborted)
        state.follow(header, marker)
    state.end_offset = header.end_offset
