"""Every row once, whatever dies, sleeps and wakes: some hundred seeds; `play` takes thousands."""

from __future__ import annotations

import os

import pytest

from spark.sink_twin.play import play

SEEDS = int(os.environ.get("DRUMLIN_SINK_SEEDS", "300"))


@pytest.mark.parametrize("share", range(4))
def test_every_row_is_written_once(share: int) -> None:
    for seed in range(share, SEEDS, 4):
        try:
            play(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
