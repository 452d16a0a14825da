"""Brokers over the real rules of replication, in a simulated world where everything goes wrong.

A run that fails is repeated with fewer faults, and tells its story. `run(seed)` is the same run
each time: `python -m replication.simulation 7` in `tests` shows it.
"""

from __future__ import annotations

import pytest

from replication.simulation.mistakes import MISTAKES, mistaken
from replication.simulation.runs import run
from replication.simulation.story import story
from rig.depth import so_many

_BLOCKS = 40
#: It takes half a minute to find these.
_RARE = ("a leader fences nobody",)
#: Within so many seeds each mistake must be found.
_SEEDS_TO_FIND = 600


@pytest.mark.parametrize("block", range(_BLOCKS))
def test_promises_are_kept_whatever_goes_wrong(block: int) -> None:
    size = so_many(15, 500)
    for seed in range(block * size, (block + 1) * size):
        if run(seed).violation is not None:
            pytest.fail(story(seed))


def test_a_seed_is_a_run() -> None:
    first, second = (run(7, is_traced=True) for _ in range(2))
    assert first.trace == second.trace
    assert len(first.trace) > 100


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.deep] if name in _RARE else []) for name in MISTAKES],
)
def test_mistakes_are_found(name: str) -> None:
    with mistaken(name):
        assert any(run(seed).violation for seed in range(_SEEDS_TO_FIND))
