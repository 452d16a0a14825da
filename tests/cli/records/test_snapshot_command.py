"""`drumlin snapshot`: the state of a topic as text, and as files that are whole or not there."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import drumlin
from cli.conftest import Run
from drumlin.cli.terminal import record_files
from rig.brokers.drumlin_server import DrumlinServer

START_MS = 1_600_000_000_000
#: Key, value, partition; a second after the other.
HISTORY = [
    ("a", "1", 0),
    ("b", "2", 1),
    ("a", "3", 0),
    ("c", "4", 0),
    ("b", None, 1),
    ("d", "5", 1),
]


@pytest.fixture
def topic(cluster: DrumlinServer) -> str:
    name = f"states-{uuid.uuid4().hex[:8]}"
    with drumlin.connect(cluster.address) as client:
        client.create_topic(name, 2, configs={"cleanup.policy": "compact"})
        keys, values, partitions = zip(*HISTORY, strict=True)
        times = [START_MS + 1000 * row for row in range(len(HISTORY))]
        rows = {
            "key": pa.array(keys),
            "value": pa.array(values),
            "timestamp": pa.array(times, pa.timestamp("ms", "UTC")),
        }
        client.append(pa.table(rows), topic=name, partition=lambda *_: list(partitions))
    return name


def test_a_state_as_text(topic: str, run: Run) -> None:
    assert run("snapshot", topic).out == "a\t3\nc\t4\nd\t5\n"
    assert run("snapshot", topic, "--format", "{partition}/{offset}").out == "0/1\n0/2\n1/2\n"
    found = run("snapshot", topic, "-p", "1", "--json").json_lines
    assert [(row["key"], row["value"], row["headers"]) for row in found] == [("d", "5", [])]


@pytest.mark.parametrize(
    ("at", "state"),
    [
        ("end", "a\t3\nc\t4\nd\t5\n"),
        ("0:1,1:1", "a\t1\nb\t2\n"),
        ("2", "a\t3\n"),
        ("-1", "a\t3\n"),
        (f"@{START_MS + 3000}", "a\t3\nc\t4\nb\t2\n"),
        ("2020-09-13T12:26:40Z", "a\t1\n"),
        ("beginning", ""),
    ],
)
def test_a_state_of_the_past(topic: str, run: Run, at: str, state: str) -> None:
    assert run("snapshot", topic, "--at", at).out == state


def test_a_state_as_a_file(topic: str, run: Run, tmp_path: Path) -> None:
    parquet = tmp_path / "state.parquet"
    result = run("snapshot", topic, "-o", str(parquet), "--json")
    assert result.json == {
        "file": str(parquet),
        "records": 3,
        "size_bytes": parquet.stat().st_size,
    }
    table = pq.read_table(parquet)
    assert table.column_names == ["key", "value", "partition", "offset", "timestamp"]
    assert table["key"].to_pylist() == [b"a", b"c", b"d"]
    csv = tmp_path / "state.csv"
    options = ("--columns", "value,key", "--decode", "utf8")
    assert run("snapshot", topic, "-o", str(csv), *options).code == 0
    assert csv.read_text() == '"value","key"\n"3","a"\n"4","c"\n"5","d"\n'
    assert run("snapshot", topic, "-o", str(parquet), "--decode", "json", "--at", "2").code == 0
    assert pq.read_table(parquet, columns=["key", "value"]).to_pylist() == [
        {"key": "a", "value": 3}
    ]
    assert sorted(tmp_path.iterdir()) == [csv, parquet]


def test_a_file_is_replaced_as_a_whole_or_not_at_all(
    topic: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "state.arrow"
    file.write_text("what was there")
    seen: list[str] = []
    opened = pa.ipc.new_file

    def watched(*arguments: Any) -> Any:
        seen.append(file.read_text())
        return opened(*arguments)

    monkeypatch.setattr(record_files.pyarrow.ipc, "new_file", watched)
    failed = run("snapshot", topic, "-o", str(file), "--columns", "key,nothing")
    assert (failed.code, "no such columns: ['nothing']" in failed.err) == (1, True)
    assert run("snapshot", topic, "-o", str(file)).code == 0
    assert seen == ["what was there"]
    assert pa.ipc.open_file(str(file)).read_all().num_rows == 3
    assert list(tmp_path.iterdir()) == [file]


def test_what_is_refused(topic: str, run: Run, tmp_path: Path) -> None:
    for wrong in (("--at", "0:1,0:2"), ("--at", "noon"), ("--columns", "key"), ("--decode", "x")):
        assert run("snapshot", topic, *wrong).code == 2
    missing = run("snapshot", topic[:-1])
    assert missing.err == f"drumlin: there is no topic {topic[:-1]!r}; did you mean {topic!r}?\n"
    beyond = run("snapshot", topic, "--at", "0:9,1:1")
    assert (beyond.code, "9" in beyond.err) == (1, True)
    partly = run("snapshot", topic, "--at", "0:1")
    assert (partly.code, "[0, 1] are read" in partly.err) == (1, True)
    nowhere = run("snapshot", topic, "-o", str(tmp_path / "none" / "x.csv"))
    assert (nowhere.code, "No such file or directory" in nowhere.err) == (1, True)
    assert run("snapshot", topic, "-o", str(tmp_path / "x.txt")).code == 1
