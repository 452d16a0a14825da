"""Batches put together, against a twin that asks each offset by itself."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from drumlin.coordination.share.state.batches import combine
from drumlin.coordination.share.state.state import StateBatch
from drumlin.turns import to_end

_ROUNDS = 1_500
_OFFSETS = 40


def _slowly(batches: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    """For each offset the strongest word about it; then neighbours that agree are one."""
    words: dict[int, tuple[int, int]] = {}
    for first, last, state, count in batches:
        for offset in range(max(first, start_offset), last + 1):
            words[offset] = max(words.get(offset, (-1, -1)), (count, state))
    result: list[StateBatch] = []
    for offset, (count, state) in sorted(words.items()):
        before = result[-1] if result else None
        if before and before.last_offset == offset - 1 and before[2:] == (state, count):
            result[-1] = before._replace(last_offset=offset)
        else:
            result.append(StateBatch(offset, offset, state, count))
    return result


def _random_batches(rng: random.Random, count: int) -> list[StateBatch]:
    batches = []
    for _ in range(rng.randrange(count + 1)):
        first = rng.randrange(_OFFSETS)
        last = first + rng.randrange(8)
        batches.append(StateBatch(first, last, rng.choice((0, 2, 3, 4)), rng.randrange(1, 4)))
    return batches


def test_as_the_twin() -> None:
    rng = random.Random(4242)
    for number in range(_ROUNDS):
        current = to_end(combine((), _random_batches(rng, 8), -1))
        news = _random_batches(rng, 5)
        start_offset = rng.choice((-1, rng.randrange(_OFFSETS)))
        combined = to_end(combine(current, news, start_offset))
        assert list(combined) == _slowly([*current, *news], start_offset), number


@pytest.mark.parametrize(
    ("current", "news", "start_offset", "expected"),
    [
        ([(0, 9, 0, 1)], [(3, 5, 2, 1)], -1, [(0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1)]),
        ([(0, 9, 2, 1)], [(3, 5, 0, 1)], -1, [(0, 9, 2, 1)]),
        ([(0, 4, 2, 1)], [(5, 9, 2, 1)], -1, [(0, 9, 2, 1)]),
        ([(0, 4, 2, 1)], [(5, 9, 2, 2)], -1, [(0, 4, 2, 1), (5, 9, 2, 2)]),
        ([(0, 4, 2, 1), (8, 9, 0, 1)], [], 4, [(4, 4, 2, 1), (8, 9, 0, 1)]),
        ([(0, 4, 2, 1)], [(2, 7, 0, 2)], 6, [(6, 7, 0, 2)]),
        ([], [(9, 3, 0, 1)], -1, []),
    ],
)
def test_single_cases(
    current: list[tuple[int, int, int, int]],
    news: list[tuple[int, int, int, int]],
    start_offset: int,
    expected: list[tuple[int, int, int, int]],
) -> None:
    combined = to_end(
        combine(
            [StateBatch(*each) for each in current],
            [StateBatch(*each) for each in news],
            start_offset,
        )
    )
    assert [tuple(each) for each in combined] == expected
