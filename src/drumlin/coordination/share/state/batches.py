"""Combines batches of a share partition's state: sorted, without overlaps, and few. Pure.

If two batches cover the same record, the one with the higher delivery count takes precedence, and
among equals the one with the higher delivery state, as both only grow.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Final

from drumlin.coordination.share.state.state import UNINITIALIZED_OFFSET, StateBatch
from drumlin.turns import give_way

Batches = tuple[StateBatch, ...]

#: The batches examined in one turn.
_AT_ONCE: Final = 500
_FIRST: Final = attrgetter("first_offset")
_LAST: Final = attrgetter("last_offset")


async def combine(
    current: Sequence[StateBatch], news: Sequence[StateBatch], start_offset: int
) -> Batches:
    """Combine `current`, a former result of this function, with `news`, from `start_offset` on.

    The `news` may overlap. Without a start offset, nothing is cut off. Yields to the event loop in
    between.
    """
    kept = _from(current, start_offset)
    wanted: list[StateBatch] = []
    for first in range(0, len(news), _AT_ONCE):
        wanted += _clipped(news[first : first + _AT_ONCE], start_offset)
        await give_way()
    if not wanted:
        return tuple(kept)
    # Only batches next to new ones can change.
    low = min(map(_FIRST, wanted)) - 1
    high = max(map(_LAST, wanted)) + 1
    begin = bisect_left(kept, low, key=_LAST)
    end = bisect_right(kept, high, key=_FIRST)
    coming = await _sorted([*kept[begin:end], *wanted])
    changed = await _flatten(coming)
    return (*kept[:begin], *changed, *kept[end:])


def _from(batches: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    """The batches from the start offset on; as they are sorted, only the first may have to be
    clipped.
    """
    first = bisect_left(batches, start_offset, key=_LAST)
    kept = list(batches[first:])
    kept[:1] = _clipped(kept[:1], start_offset)
    return kept


def _clipped(batches: Iterable[StateBatch], start_offset: int) -> Iterator[StateBatch]:
    """The parts of the batches from the start offset on; reversed batches are omitted."""
    for batch in batches:
        if start_offset != UNINITIALIZED_OFFSET and batch.first_offset < start_offset:
            batch = batch._replace(first_offset=start_offset)
        if batch.first_offset <= batch.last_offset:
            yield batch


async def _sorted(batches: list[StateBatch]) -> list[StateBatch]:
    pieces = []
    for first in range(0, len(batches), _AT_ONCE):
        pieces.append(sorted(batches[first : first + _AT_ONCE]))
        await give_way()
    if len(pieces) == 1:
        return pieces[0]
    result: list[StateBatch] = []
    merging = heapq.merge(*pieces)
    while some := list(islice(merging, _AT_ONCE)):
        result += some
        await give_way()
    return result


async def _flatten(coming: Sequence[StateBatch]) -> list[StateBatch]:
    """Remove overlaps: for each offset, keep the batch that takes precedence there."""
    covering: list[tuple[int, int, int]] = []  # by precedence: -count, -state, last offset
    result: list[StateBatch] = []
    position, index = coming[0].first_offset, 0
    while index < len(coming) or covering:
        await give_way()
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
    """Append a batch, or join it with the last batch if it continues that batch."""
    before = result[-1] if result else None
    if (
        before is not None
        and before.last_offset + 1 == batch.first_offset
        and before[2:] == batch[2:]
    ):
        result[-1] = before._replace(last_offset=batch.last_offset)
    else:
        result.append(batch)
