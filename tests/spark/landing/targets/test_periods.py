"""Tables by day and hour, and the merging of their small files; without Spark."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from drumlin.spark.landing.rows import small_files
from drumlin.spark.landing.rows.mode import Period
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.targets import delta, iceberg
from drumlin.spark.landing.targets.delta import Table
from drumlin.spark.landing.targets.iceberg import IcebergTable
from drumlin.spark.landing.targets.target import LandingRefused, Position, Target
from spark.landing.targets.local_batch import LocalBatch, records

FEW = 3
ROWS = Rows.of("append")


class Kind:
    """A table of this kind, below a folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder

    def run(self, period: Period | None) -> Target:
        target: Target
        if self.name == "delta":
            target = Table(f"{self.folder}/table", "append", period)
        else:
            target = IcebergTable("lake", ("kept", "t"), "append", 1, period)
        target.position([0, 1])
        return target

    def land(self, target: Target, first: int) -> None:
        """Four records more in each of two partitions, of two days."""
        end = first + 4
        batch = LocalBatch(ROWS, records(0, range(first, end)), records(1, range(first, end)))
        target.add(batch, Position("t", "id", {0: end, 1: end}))

    def rows(self) -> pa.Table:
        if self.name == "delta":
            return DeltaTable(f"{self.folder}/table").to_pyarrow_table()
        return self._iceberg().scan().to_arrow()

    def files(self) -> int:
        if self.name == "delta":
            return len(DeltaTable(f"{self.folder}/table").file_uris())
        return len(list(self._iceberg().scan().plan_files()))

    def files_of_a_day(self) -> int:
        if self.name == "delta":
            actions = DeltaTable(f"{self.folder}/table").get_add_actions(flatten=True)
            return pa.table(actions)["partition.day"].to_pylist().count(date(1970, 1, 2))
        wanted = "timestamp >= '1970-01-02T00:00:00+00:00'"
        return len(list(self._iceberg().scan(row_filter=wanted).plan_files()))

    def places(self) -> list[tuple[int, int]]:
        found = self.rows()
        return sorted(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True))

    def _iceberg(self) -> Any:
        return iceberg.load_catalog("lake").load_table(("kept", "t"))


@pytest.fixture
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kind:
    where = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/warehouse"}
    monkeypatch.setattr(iceberg, "load_catalog", lambda name: load_catalog(name, **where))
    monkeypatch.setattr(delta, "FEW", FEW)
    monkeypatch.setattr(small_files, "FEW", FEW)
    return Kind(request.param, tmp_path)


KINDS = pytest.mark.parametrize("kind", ["delta", "iceberg"], indirect=True)


@KINDS
@pytest.mark.parametrize("period", ["day", "hour"])
def test_a_day_has_files_of_its_own(kind: Kind, period: Period) -> None:
    kind.land(kind.run(period), 0)
    kind.land(kind.run(None), 4)  # it goes on as it was begun
    assert kind.places() == [(each, offset) for each in (0, 1) for offset in range(8)]
    assert (kind.files(), kind.files_of_a_day()) == (8, 4)
    other: Period = "day" if period == "hour" else "hour"
    with pytest.raises(
        LandingRefused, match=f"partitioned by {period}, and is to go on by {other}"
    ):
        kind.run(other)


@KINDS
@pytest.mark.parametrize("period", [None, "day"])
def test_small_files_become_one(kind: Kind, period: Period | None) -> None:
    for first in range(0, 8, 4):
        kind.land(kind.run(period), first)
    target = kind.run(period)
    kind.land(target, 8)
    position = kind.run(None).position([0, 1])
    target.compact()
    assert kind.files() == (1 if period is None else 2)
    assert kind.places() == [(each, offset) for each in (0, 1) for offset in range(12)]
    assert kind.run(None).position([0, 1]) == position
    kind.land(kind.run(period), 12)
    assert kind.places() == [(each, offset) for each in (0, 1) for offset in range(16)]


@KINDS
def test_few_files_stay(kind: Kind) -> None:
    target = kind.run(None)
    kind.land(target, 0)
    target.compact()
    assert kind.files() == 2
