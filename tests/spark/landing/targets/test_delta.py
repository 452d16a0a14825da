"""A Delta table over a network: a commit whose answer is lost is known as the run's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.table import TableMerger

from drumlin.spark.landing.rows.mode import Mode
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.targets.delta import Table
from drumlin.spark.landing.targets.target import OtherRun, Position
from spark.landing.targets.local_batch import LocalBatch, records


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_commit_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode, *, is_there: bool
) -> None:
    """As a store says of the second attempt that the version is there already."""
    url = str(tmp_path / "table")
    position = Position("t", "id", {0: 4}, 1)

    def land(position: Position, *offsets: int) -> None:
        table = Table(url, mode)
        table.position([0])
        table.add(LocalBatch(Rows.of(mode), records(0, offsets)), position)

    land(position._replace(offsets={0: 2}), 0, 1)

    def refusing(kind: type, name: str) -> None:
        commit = getattr(kind, name)

        def lost(*arguments: Any, **named: Any) -> None:
            if is_there:
                commit(*arguments, **named)
            raise CommitFailedError("version already exists")

        monkeypatch.setattr(kind, name, lost)

    refusing(DeltaTable, "create_write_transaction")
    refusing(TableMerger, "execute")
    if is_there:
        land(position, 2, 3)
        assert Table(url, mode).position([0]) == position
    else:
        with pytest.raises(OtherRun, match="version already exists"):
            land(position, 2, 3)
    found = sorted(DeltaTable(url).to_pyarrow_table()["offset"].to_pylist())
    assert found == [0, 1, 2, 3][: 4 if is_there else 2]
