"""A lake whose small loads are merged: every row once, whoever dies, reads or merges meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyspark.sql import Row

from drumlin.spark.landing.lake_files import lake_files
from drumlin.spark.landing.rows.mode import Period
from drumlin.spark.landing.rows.record_files import ArrowFolder, write_files
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.targets import lake_loads
from drumlin.spark.landing.targets.lake_loads import visible_loads
from drumlin.spark.landing.targets.parquet import Lake
from drumlin.spark.landing.targets.target import LandingRefused, OtherRun, Position
from rig.depth import IS_DEEP

#: The number of loads that are worth merging, here.
FEW = 3
DAY_US = 86_400_000_000


@pytest.fixture(autouse=True)
def _few_loads_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_loads, "FEW", FEW)


class Died(BaseException):
    """Here the process has ended."""


class Loads:
    """A lake, and one who lands a topic of two partitions in it."""

    rows, is_whole, map = Rows.of("append"), False, None

    def __init__(self, folder: Path, period: Period | None = None) -> None:
        self.folder, self.period = folder, period
        self.end = 0

    def lake(self) -> Lake:
        lake = Lake(str(self.folder), self.period)
        lake.position()
        return lake

    def land(self, lake: Lake | None = None) -> None:
        """A load of two records in each of two partitions, on two days."""
        lake, first = lake or self.lake(), self.end
        self.end += 2
        (self.folder / "written").mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist(
            [
                {"partition": each, "offset": offset, "timestamp": offset % 2 * DAY_US}
                | {"key": b"%d" % offset, "value": b"v", "headers": []}
                for each in (0, 1)
                for offset in range(first, self.end)
            ],
            self.rows.schema,
        )
        folder = ArrowFolder(fs.LocalFileSystem(), f"{self.folder}/written/")
        Path(lake._aside).mkdir(parents=True)
        (written,) = write_files(lambda: folder, self.period, iter(table.to_batches()))
        lake.show([Row(**each) for each in written.to_pylist()], self, self.position())
        lake.tidy()

    def position(self) -> Position:
        return Position("t", "id", {0: self.end, 1: self.end})

    def confirm(self) -> None:
        """The topic is what it was."""

    def check(self) -> list[str]:
        """Every row is there once; returns the names of the loads."""
        loads = visible_loads(fs.LocalFileSystem(), str(self.folder))
        assert self._places(loads) == self.expected()
        files = [pq.ParquetFile(each).read().to_pylist() for each in lake_files(str(self.folder))]
        found = sorted((row["partition"], row["offset"]) for rows in files for row in rows)
        assert found == self.expected()
        assert self.lake().position() == self.position()
        return [Path(each).name for each in loads]

    def expected(self) -> list[tuple[int, int]]:
        return [(each, offset) for each in (0, 1) for offset in range(self.end)]

    def _places(self, loads: list[str]) -> list[tuple[int, int]]:
        files = [each for load in loads for each in Path(load).rglob("*.parquet")]
        tables = [pq.ParquetFile(each).read().to_pylist() for each in files]
        return sorted((row["partition"], row["offset"]) for found in tables for row in found)

    def listed(self) -> list[tuple[int, int]]:
        """The rows that one finds who knows nothing of merging."""
        loads = [str(each) for each in self.folder.glob("load=*")]
        return self._places(loads)


@pytest.mark.parametrize("period", [None, "day"])
def test_small_loads_become_one(tmp_path: Path, period: Period | None) -> None:
    loads = Loads(tmp_path, period)
    for _ in range(FEW):
        loads.land()
    loads.lake().compact()
    assert len(loads.check()) == FEW  # the newest one does not count
    loads.land()
    loads.lake().compact()
    merged, newest, told = loads.check()
    assert merged == f"load={FEW - 1:08}"
    assert not list((tmp_path / "_aside").iterdir())
    files = sorted(
        str(each.relative_to(tmp_path / merged)) for each in tmp_path.glob(f"{merged}/**/*.parquet")
    )
    ends = f"{2 * FEW:020}"
    if period is None:
        assert files == [f"{each}-{0:020}-{ends}.parquet" for each in (0, 1)]
    else:
        assert files[-1] == f"day=1970-01-02/1-{1:020}-{ends}.parquet"
    file = pq.ParquetFile(tmp_path / merged / files[0])
    assert file.read()["offset"].to_pylist() == sorted(file.read()["offset"].to_pylist())
    for _ in range(FEW):
        loads.land()
    loads.lake().compact()
    assert len(loads.check()) == 3
    assert loads.listed() == loads.expected()
    assert (newest, told) == (f"load={FEW:08}", f"load={FEW + 1:08}")


def test_a_run_that_comes_when_its_number_is_merged(tmp_path: Path) -> None:
    loads = Loads(tmp_path)
    loads.land()
    late = loads.lake()
    for _ in range(FEW + 1):
        loads.land()
    loads.lake().compact()
    end = loads.end
    with pytest.raises(OtherRun, match="another run has made load=00000001"):
        loads.land(late)
    loads.end = end
    loads.check()


class Steps:
    """A file system that calls a function before each step that changes something."""

    def __init__(self, before: Callable[[int], None]) -> None:
        self._files, self._before = fs.LocalFileSystem(), before
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._files, name)
        if name not in ("move", "delete_dir", "create_dir", "open_output_stream"):
            return found

        def step(*arguments: Any) -> Any:
            self._before(self._count)
            self._count += 1
            return found(*arguments)

        return step


class LostAnswers:
    """A file system over a network: it publishes a load, and the answer does not arrive."""

    def __init__(self) -> None:
        self._files = fs.LocalFileSystem()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def move(self, source: str, target: str) -> None:
        self._files.move(source, target)
        if Path(target).name.startswith("load="):
            raise OSError("timed out")


def test_a_load_whose_answer_is_lost_is_known_as_ones_own(tmp_path: Path) -> None:
    loads = Loads(tmp_path)
    for _ in range(FEW + 1):
        lake = loads.lake()
        lake._files = LostAnswers()  # type: ignore[assignment]
        loads.land(lake)
    lake = loads.lake()
    lake._files = LostAnswers()  # type: ignore[assignment]
    lake.compact()
    assert len(loads.check()) == 3  # the merged one, the newest, and the one that tells


def _compact(loads: Loads, before: Callable[[int], None]) -> None:
    lake = loads.lake()
    lake._files = Steps(before)  # type: ignore[assignment]
    lake.compact()


def _many(folder: Path) -> Loads:
    loads = Loads(folder)
    for _ in range(FEW + 1):
        loads.land()
    return loads


def test_a_merge_that_is_killed_at_any_step(tmp_path: Path) -> None:
    """Nothing is missing or there twice: then, when it is completed, and when another begins."""
    number, is_killed = 0, True
    while is_killed:
        loads = _many(tmp_path / str(number))
        is_killed = False

        def die(step: int, at: int = number) -> None:
            if step == at:
                raise Died

        try:
            _compact(loads, die)
        except Died:
            is_killed = True
        loads.check()
        if number % 2:
            loads.land()
        else:
            loads.lake().compact()
        loads.check()
        loads.land()
        loads.lake().compact()
        assert len(loads.check()) <= FEW
        assert loads.listed() == loads.expected()
        number += 1
    assert number > 3 * FEW


def test_a_reader_at_any_moment_of_a_merge(tmp_path: Path) -> None:
    loads = _many(tmp_path)
    moments = list[int]()

    def look(_: int = 0) -> None:
        loads.check()
        listed = loads.listed()
        assert len(listed) == len(set(listed))  # too few for a moment, and nothing twice
        moments.append(len(listed))

    _compact(loads, look)
    look()
    assert min(moments) < len(loads.expected())
    assert moments[-1] == len(loads.expected())


@pytest.mark.parametrize("does", ["compact", "land"])
def test_another_run_at_any_step_of_a_merge(tmp_path: Path, does: str) -> None:
    """The first one goes on from what it has read long ago."""
    for number in range(0, 20, 1 if IS_DEEP else 3):
        loads = _many(tmp_path / str(number))

        def meanwhile(step: int, at: int = number, loads: Loads = loads) -> None:
            if step == at:
                loads.lake().compact() if does == "compact" else loads.land()

        _compact(loads, meanwhile)
        loads.check()
        loads.land()
        loads.check()
        assert loads.listed() == loads.expected()


def test_loads_that_are_missing_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_loads, "_PAUSE_S", 0)
    loads = _many(tmp_path)
    (tmp_path / "load=00000000").rename(tmp_path / "gone")
    assert len(visible_loads(fs.LocalFileSystem(), str(tmp_path))) == FEW  # its owner may do so
    (tmp_path / "load=00000002").rename(tmp_path / "gone/two")
    with pytest.raises(LandingRefused, match="loads are missing"):
        visible_loads(fs.LocalFileSystem(), str(tmp_path))
    loads.lake().compact()


def test_a_lake_stays_as_it_was_begun(tmp_path: Path) -> None:
    loads = Loads(tmp_path)
    loads.land()
    loads.period = "day"
    with pytest.raises(LandingRefused, match="partitioned by None, and is to go on by day"):
        loads.lake()
    told = json.loads((tmp_path / "load=00000000/_offsets.json").read_text())
    assert "columns" not in told
