"""`drumlin server`: where its properties come from, and how it refuses to start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from drumlin.broker.start import process
from drumlin.cli import app
from rig.brokers.drumlin_server import DrumlinServer
from rig.ports import free_ports


@pytest.fixture
def started_with(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The properties that a broker would be started with, filled in by the command."""
    properties: dict[str, str] = {}

    def run(given: dict[str, str], *_: str) -> int:
        properties.update(given)
        return 0

    monkeypatch.setattr(process, "run", run)
    return properties


def test_command_line_before_environment_before_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started_with: dict[str, str]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=1\nlog.retention.hours=1\nlog.dirs=/from/file\nnode.id=4\n")
    monkeypatch.setenv("DRUMLIN_NUM_PARTITIONS", "2")
    monkeypatch.setenv("DRUMLIN_LOG_RETENTION_HOURS", "2")
    arguments = [str(file), "--data", "here", "--listen", "127.0.0.1:9999"]
    assert app.main(["server", *arguments, "--set", "num.partitions=3", "message.max.bytes=5"]) == 0
    assert started_with == {
        "num.partitions": "3",
        "log.retention.hours": "2",
        "log.dirs": str(Path("here").absolute()),
        "node.id": "4",
        "listeners": "PLAINTEXT://127.0.0.1:9999",
        "message.max.bytes": "5",
    }


def test_a_variable_that_is_no_key_is_named_but_no_error(
    monkeypatch: pytest.MonkeyPatch,
    started_with: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DRUMLIN_NUM_PARTITONS", "2")
    monkeypatch.setenv("DRUMLIN_BOOTSTRAP", "127.0.0.1:9092")
    assert app.main(["server"]) == 0
    assert started_with == {}
    assert capsys.readouterr().err == (
        "drumlin server: DRUMLIN_NUM_PARTITONS names no configuration key "
        "(did you mean DRUMLIN_NUM_PARTITIONS?)\n"
    )


def test_variables_of_kafkas_images_are_named(
    monkeypatch: pytest.MonkeyPatch,
    started_with: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever comes from docker-compose has them."""
    monkeypatch.setenv("KAFKA_LOG_RETENTION_HOURS", "24")
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "2")
    monkeypatch.setenv("DRUMLIN_NUM_PARTITIONS", "3")
    monkeypatch.setenv("KAFKA_HEAP_OPTS", "-Xmx1g")
    assert app.main(["server"]) == 0
    assert started_with == {"num.partitions": "3"}
    said = capsys.readouterr().err
    assert said.startswith("drumlin server: KAFKA_LOG_RETENTION_HOURS has no effect: ")
    assert said.endswith(": it is DRUMLIN_LOG_RETENTION_HOURS here\n")
    assert said.count("\n") == 1


def refusal(*arguments: str) -> str:
    """What a server says that does not start: one line, and no exit code 0."""
    done = subprocess.run(
        [sys.executable, "-m", "drumlin", "server", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    complaints = [line for line in done.stderr.splitlines() if line.startswith("drumlin server: ")]
    assert len(complaints) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return complaints[0]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere.properties"], "nowhere.properties: cannot be read: No such file or directory"),
        (["--set", "num.partitions"], "key=value"),
        (["--set", "num.partitions=none"], "num.partitions"),
        (["--set", "num.partitons=1"], "did you mean num.partitions"),
        (["--listen", "127.0.0.1"], "must be HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "must be HOST:PORT"),
        (["--listen", "not a host:1"], "listeners"),
    ],
)
def test_a_wrong_configuration(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    assert complaint in refusal("--data", str(tmp_path / "data"), *arguments)


def test_a_port_or_a_directory_that_another_server_has(
    tmp_path: Path, server: DrumlinServer
) -> None:
    assert str(server.port) in refusal("--data", str(tmp_path), "--listen", server.address)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    assert str(server.data) in refusal("--data", str(server.data), "--listen", address)


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    directory = tmp_path / "file" / "data"
    assert str(directory) in refusal("--data", str(directory), "--listen", "127.0.0.1:0")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert str(tmp_path) in refusal("--data", str(tmp_path), "--listen", "127.0.0.1:0")
