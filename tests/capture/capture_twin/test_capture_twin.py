"""The topics are the tables, whatever is killed and whenever: some seeds; `play` takes more."""

from __future__ import annotations

import pytest

from capture.capture_twin.mutations import FOUND_BY, MUTATIONS
from capture.capture_twin.play import play
from rig.depth import first, so_many

_SEEDS_FOR_A_FAULT = 300


@pytest.mark.parametrize("share", range(4))
def test_the_topics_are_the_tables(share: int) -> None:
    for seed in range(share, so_many(60, 4000), 4):
        try:
            play(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("fault", first(5, MUTATIONS))
def test_a_fault_is_found(fault: str) -> None:
    with pytest.raises(AssertionError):
        for seed in (FOUND_BY.get(fault, 0), *range(_SEEDS_FOR_A_FAULT)):
            play(seed, MUTATIONS[fault])
