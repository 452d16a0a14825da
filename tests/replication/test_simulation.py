"""Brokers over the real rules of replication, in a simulated world where everything goes wrong.

A run that fails is repeated with fewer faults, and tells its story. `run(seed, Parts())` is the same
run each time.
"""

from __future__ import annotations

import pytest

from replication.simulation.cluster import Parts, run
from replication.simulation.mistakes import PARTS, RULES, mistaken
from replication.simulation.story import story
from rig.depth import so_many

_RUNS = 40
#: Within so many seeds each mistake must be found.
_SEEDS_TO_FIND = 600


@pytest.mark.parametrize("block", range(_RUNS))
def test_promises_are_kept_whatever_goes_wrong(block: int) -> None:
    size = so_many(25, 500)
    for seed in range(block * size, (block + 1) * size):
        outcome = run(seed, Parts())
        if outcome.violation is not None:
            pytest.fail(story(seed, Parts()))


def test_a_seed_is_a_run() -> None:
    first, second = (run(7, Parts(), is_traced=True) for _ in range(2))
    assert first.trace == second.trace
    assert len(first.trace) > 100


@pytest.mark.parametrize("name", [*PARTS, *RULES])
def test_mistakes_are_found(name: str) -> None:
    with mistaken(name) as parts:
        assert any(run(seed, parts).violation for seed in range(_SEEDS_TO_FIND))
