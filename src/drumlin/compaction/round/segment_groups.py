"""Grouping of neighbouring segments, which a cleaning merges into one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: The largest offset that an index can hold, relative to its segment's base offset.
RELATIVE_OFFSET_MAX = 2**31 - 1


class Size(NamedTuple):
    """The size of a segment. `end_offset` is the base offset of the next one."""

    base_offset: int
    end_offset: int
    log_bytes: int
    offset_index_bytes: int
    time_index_bytes: int


#: The maximum number of segments in a group. A group is swapped in one step of the loop, which
#: blocks changes of other logs.
_SEGMENTS_MAX = 100


def group_segments(
    segments: Sequence[Size], segment_bytes: int, segment_index_bytes: int
) -> list[range]:
    """Groups of segments, by index, that fit into one segment even if no record is removed.

    A segment that is already too large forms a separate group.
    """
    groups: list[range] = []
    start = 0
    while start < len(segments):
        end = start + 1
        first, total = segments[start], segments[start]
        while end < min(len(segments), start + _SEGMENTS_MAX):
            each = segments[end]
            total = Size(
                first.base_offset,
                each.end_offset,
                total.log_bytes + each.log_bytes,
                total.offset_index_bytes + each.offset_index_bytes,
                total.time_index_bytes + each.time_index_bytes,
            )
            if not _fits(total, segment_bytes, segment_index_bytes):
                break
            end += 1
        groups.append(range(start, end))
        start = end
    return groups


def _fits(total: Size, segment_bytes: int, segment_index_bytes: int) -> bool:
    return (
        total.log_bytes <= segment_bytes
        and total.offset_index_bytes <= segment_index_bytes
        and total.time_index_bytes <= segment_index_bytes
        and total.end_offset - 1 - total.base_offset <= RELATIVE_OFFSET_MAX
    )
