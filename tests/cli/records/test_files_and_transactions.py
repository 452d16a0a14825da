"""Configurations of files, records into files of CSV, and all lines in one transaction."""

from __future__ import annotations

import io
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from cli.conftest import Run
from rig.brokers.drumlin_server import DrumlinServer


@pytest.fixture
def topic(cluster: DrumlinServer, run: Run) -> str:
    name = f"files-{uuid.uuid4().hex[:8]}"
    assert run("topics", "create", name, "-p", "1").code == 0
    return name


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Standard input."""
    source = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", source)


def test_configurations_of_a_file(cluster: DrumlinServer, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "topic.properties"
    file.write_text("# days\nretention.ms = 86400000\nsegment.bytes=1048576\n")
    name = f"configured-{uuid.uuid4().hex[:8]}"
    more = ("-c", "segment.bytes=2097152")  # the command line before the file
    assert run("topics", "create", name, "--config-file", str(file), *more).code == 0

    def configs() -> dict[str, str]:
        rows = run("configs", "describe", "topic", name, "--json").json
        return {row["key"]: row["value"] for row in rows if row["source"] == "topic"}

    assert configs() == {"retention.ms": "86400000", "segment.bytes": "2097152"}
    alter = ("configs", "alter", "topic", name, "--from-file", str(file))
    assert run(*alter, "--set", "retention.ms=1000").code == 0
    assert configs() == {"retention.ms": "1000", "segment.bytes": "1048576"}
    assert run(*alter, "--unset", "retention.ms").code == 0
    assert configs() == {"segment.bytes": "1048576"}
    missing = run("configs", "alter", "topic", name, "--from-file", str(tmp_path / "none"))
    assert missing.code == 1
    assert missing.err.endswith("none: cannot be read: No such file or directory\n")


def test_csv_comes_back(
    topic: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(monkeypatch, b'k:one, "1"\nl:two\n')
    assert run("produce", topic, "-k", ":", "--timestamp", "@1234").code == 0
    file = tmp_path / "records.csv"
    assert run("consume", topic, "-o", str(file)).code == 0
    assert file.read_text().startswith('"partition","offset","timestamp"')
    assert run("produce", topic, str(file)).code == 0
    rows = run("consume", topic, "--json").json_lines
    kept = [(each["key"], each["value"], each["timestamp"]) for each in rows]
    assert kept == [("k", 'one, "1"', 1234), ("l", "two", 1234)] * 2
    refused = run("consume", topic, "-o", str(file), "--headers")
    assert (refused.code, "leave out --headers" in refused.err) == (1, True)


def test_lines_in_one_transaction(topic: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    how = ("--transactional-id", f"import-{topic}", "-k", ":")
    feed(monkeypatch, b"a:1\nb:2\n")
    assert run("produce", topic, *how).code == 0
    feed(monkeypatch, b"c:3\nno key\n")
    failed = run("produce", topic, *how)
    assert failed.code == 1
    assert failed.err.endswith("1 record was written, and aborted with the transaction\n")
    assert run("consume", topic, "--committed").out == "1\n2\n"
    assert run("consume", topic).out == "1\n2\n3\n"
    assert run("produce", topic, *how, "--acks", "leader").code == 2


def test_a_missing_topic_is_told_with_the_one_that_was_meant(topic: str, run: Run) -> None:
    commands = (
        ("consume", topic[:-1]),
        ("topics", "add-partitions", topic[:-1], "4", "--yes"),
        ("topics", "delete-records", topic[:-1], "--before", "end", "--yes"),
    )
    for command in commands:
        wrong = run(*command)
        said = f"drumlin: there is no topic {topic[:-1]!r}; did you mean {topic!r}?\n"
        assert (wrong.code, wrong.err) == (1, said)


def test_why_a_record_is_refused_is_said_once(
    cluster: DrumlinServer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"compacted-{uuid.uuid4().hex[:8]}"
    assert run("topics", "create", name, "-p", "1", "-c", "cleanup.policy=compact").code == 0
    feed(monkeypatch, b"v\n")
    result = run("produce", name)
    assert result.code == 1
    assert result.err.count("each record needs a key") == 1
