"""Files by partition and by day or hour, however many there are."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from drumlin.spark.landing.rows import record_files
from drumlin.spark.landing.rows.mode import Period
from drumlin.spark.landing.rows.record_files import ArrowFolder, period_numbers, write_files
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.rows.times import period_values

HOUR_US = 3_600_000_000


def _written(folder: Path, period: Period | None, times_us: list[int]) -> list[dict[str, object]]:
    rows = pa.Table.from_pylist(
        [
            {"partition": number % 2, "offset": number // 2, "timestamp": time, "headers": []}
            for number, time in enumerate(times_us)
        ],
        Rows.of("append").schema,
    )
    where = ArrowFolder(fs.LocalFileSystem(), f"{folder}/")
    batches = iter(rows.to_batches(max_chunksize=7))
    return [row for each in write_files(lambda: where, period, batches) for row in each.to_pylist()]


@pytest.mark.parametrize("period", ["day", "hour"])
def test_each_period_has_files_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, period: Period
) -> None:
    """More of them at a time than may be open."""
    monkeypatch.setattr(record_files, "_OPEN_MAX", 3)
    monkeypatch.setattr(record_files, "_BUFFERED_BYTES", 1000)
    chance = random.Random(1)
    times_us = [chance.randrange(-50, 50) * HOUR_US + chance.randrange(HOUR_US) for _ in range(300)]
    found = _written(tmp_path, period, times_us)
    length = HOUR_US if period == "hour" else 24 * HOUR_US
    places = []
    for row in found:
        table = pq.ParquetFile(str(row["path"])).read()
        times = table["timestamp"].cast(pa.int64()).to_pylist()
        assert {time // length for time in times} == {row["period"]}
        assert set(table["partition"].to_pylist()) == {row["partition"]}
        assert table["offset"][0].as_py() == row["first_offset"]
        assert table["offset"][-1].as_py() + 1 == row["end_offset"]
        assert len(table) == row["records"]
        places += zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)
    assert sorted(places) == [(each, offset) for each in (0, 1) for offset in range(150)]


def test_without_periods_a_partition_is_a_file(tmp_path: Path) -> None:
    found = _written(tmp_path, None, [0, 1, 2, HOUR_US * 30])
    assert [(row["partition"], row["period"], row["records"]) for row in found] == [
        (0, None, 2),
        (1, None, 2),
    ]


def test_a_large_file_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "_BUFFERED_BYTES", 1)  # seven records
    monkeypatch.setattr(record_files, "_LARGE_BYTES", 1)
    found = _written(tmp_path, None, [*range(14)])
    ranges = [(row["partition"], row["first_offset"], row["end_offset"]) for row in found]
    assert sorted(ranges) == [(0, 0, 4), (0, 4, 7), (1, 0, 3), (1, 3, 7)]


def test_days_and_hours_as_columns() -> None:
    times = pa.chunked_array([pa.array([-1, 0, 25 * HOUR_US], pa.timestamp("us", "UTC"))])
    assert period_numbers(times, "day").to_pylist() == [-1, 0, 1]
    assert period_numbers(times, "hour").to_pylist() == [-1, 0, 25]
    assert period_values(-1, "day") == {"day": "1969-12-31"}
    assert period_values(25, "hour") == {"day": "1970-01-02", "hour": "1"}
    assert period_values(-1, "hour") == {"day": "1969-12-31", "hour": "23"}
    assert period_values(10**7, "hour") == {"day": "3110-10-18", "hour": "16"}
    assert period_values(10**9, "hour") == {"day": None, "hour": None}
    assert period_values(None, None) == {}
