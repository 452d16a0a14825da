"""Batches of a share partition's state, put together: sorted, none overlapping, few. Pure.

Where two say something about the same record, the one with the higher delivery count is right,
and among equals the one whose delivery state is the higher number: both only ever grow.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from drumlin.coordination.shares.state import UNINITIALIZED_OFFSET, StateBatch

Batches = tuple[StateBatch, ...]


def combine(
    current: Sequence[StateBatch], news: Sequence[StateBatch], start_offset: int
) -> Batches:
    """`current`, which was put together by this function, with `news`, from `start_offset` on.

    `news` may overlap each other. Without a start offset nothing is cut off.
    """
    kept = _from(current, start_offset)
    wanted = [batch for batch in _clipped(news, start_offset) if _is_sound(batch)]
    if not wanted:
        return tuple(kept)
    # Only the neighbourhood of what is new can change.
    low = min(batch.first_offset for batch in wanted) - 1
    high = max(batch.last_offset for batch in wanted) + 1
    begin = bisect_left(kept, low, key=lambda batch: batch.last_offset)
    end = bisect_right(kept, high, key=lambda batch: batch.first_offset)
    return (*kept[:begin], *_flatten([*kept[begin:end], *wanted]), *kept[end:])


def _from(batches: Sequence[StateBatch], start_offset: int) -> Sequence[StateBatch]:
    first = bisect_left(batches, start_offset, key=lambda batch: batch.last_offset)
    return list(_clipped(batches[first:], start_offset))


def _clipped(batches: Iterable[StateBatch], start_offset: int) -> Iterable[StateBatch]:
    for batch in batches:
        if start_offset == UNINITIALIZED_OFFSET or batch.first_offset >= start_offset:
            yield batch
        elif batch.last_offset >= start_offset:
            yield batch._replace(first_offset=start_offset)


def _is_sound(batch: StateBatch) -> bool:
    return batch.first_offset <= batch.last_offset


def _flatten(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """Walk along the offsets; the strongest batch of those that cover an offset has it."""
    coming = sorted(batches)
    covering: list[tuple[int, int, int]] = []  # strongest first: -count, -state, last offset
    result: list[StateBatch] = []
    position, index = coming[0].first_offset, 0
    while index < len(coming) or covering:
        if not covering:
            position = max(position, coming[index].first_offset)
        while index < len(coming) and coming[index].first_offset <= position:
            batch = coming[index]
            heapq.heappush(
                covering, (-batch.delivery_count, -batch.delivery_state, batch.last_offset)
            )
            index += 1
        count, state, last_offset = covering[0]
        if last_offset < position:
            heapq.heappop(covering)
            continue
        if index < len(coming):
            last_offset = min(last_offset, coming[index].first_offset - 1)
        _append(result, StateBatch(position, last_offset, -state, -count))
        position = last_offset + 1
    return result


def _append(result: list[StateBatch], batch: StateBatch) -> None:
    """Add a batch behind the others; where it goes on as the last one was, they become one."""
    before = result[-1] if result else None
    if (
        before is not None
        and before.last_offset + 1 == batch.first_offset
        and before[2:] == batch[2:]
    ):
        result[-1] = before._replace(last_offset=batch.last_offset)
    else:
        result.append(batch)
