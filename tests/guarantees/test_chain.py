"""From the tables of a database to a store, a lake and a count, while everything is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from guarantees.chain import Chain
from rig.depth import so_many
from rig.servers.postgres import running_postgres


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(3))
def test_equal_to_the_tables(tmp_path: Path, seed: int) -> None:
    with running_postgres() as server:
        chain = Chain(tmp_path, server, seed)
        try:
            chain.begin()
            with chain.load():
                for _ in range(so_many(10, 25)):
                    chain.harm()
            chain.await_ends()
            chain.check()
        finally:
            chain.close()
        chain.broker.check_output()
