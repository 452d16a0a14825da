"""A lake in S3, and one who lands a topic of two partitions in it, without Spark."""

from __future__ import annotations

import io

import pyarrow.parquet as pq

from drumlin.spark.landing.lake_files import lake_files
from drumlin.spark.landing.rows.mode import Period
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.s3_account import S3Account
from drumlin.spark.landing.targets.s3_lake.folder import S3Folder
from drumlin.spark.landing.targets.s3_lake.lake import S3Lake
from drumlin.spark.landing.targets.target import Position
from spark.landing.targets.local_batch import LocalBatch, records


class Loads:
    """The lake at a URL."""

    def __init__(self, url: str, period: Period | None = None) -> None:
        self.url, self.period = url, period
        self.end = 0

    @property
    def folder(self) -> S3Folder:
        return S3Folder(self.url, S3Account())

    def lake(self) -> S3Lake:
        lake = S3Lake(self.url, S3Account(), self.period)
        lake.position()
        return lake

    def land(self) -> None:
        """What a run lands: two records in each of two partitions, on two days."""
        lake = self.lake()
        found = lake.position()
        begin = 0 if found is None else found.offsets[0]
        batch = LocalBatch(
            Rows.of("append"), *(records(each, range(begin, begin + 2)) for each in (0, 1))
        )
        lake.add(batch, Position("t", "id", {0: begin + 2, 1: begin + 2}))

    def check(self) -> None:
        """Every row that the position tells of is there once."""
        found = self.lake().position()
        self.end = 0 if found is None else found.offsets[0]
        assert self.listed() == self.expected()
        assert self.exact() == self.expected()

    def expected(self) -> list[tuple[int, int]]:
        return [(each, offset) for each in (0, 1) for offset in range(self.end)]

    def names(self) -> list[str]:
        """All objects."""
        return sorted(each.name for each in self.folder.objects())

    def listed(self) -> list[tuple[int, int]]:
        """The rows that one finds who lists the folder, as readers of Parquet do."""
        return self._places([each for each in self.names() if each.endswith(".parquet")])

    def files(self) -> list[str]:
        """What counts, relative to the lake."""
        return [each.removeprefix(f"{self.url}/") for each in lake_files(self.url)]

    def exact(self) -> list[tuple[int, int]]:
        return self._places(self.files())

    def _places(self, names: list[str]) -> list[tuple[int, int]]:
        tables = [pq.read_table(self.read(each)).to_pylist() for each in names]
        return sorted((row["partition"], row["offset"]) for found in tables for row in found)

    def read(self, name: str) -> io.BytesIO:
        return io.BytesIO(self.folder.read(name))
