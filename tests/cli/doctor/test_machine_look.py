"""What the doctor finds on this machine: files, limits, ports, certificates, a broker's report."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from cli.conftest import Result, Run
from drumlin.cli.doctor.gathering.machine import look_at_machine
from drumlin.securing.authority import Authority
from drumlin.securing.client_files import CA
from rig.brokers.drumlin_server import DrumlinServer


def checks(result: Result) -> set[str]:
    return {each["check"] for each in result.json}


def test_beside_a_running_broker(run: Run, server: DrumlinServer) -> None:
    result = run("doctor", "--data", str(server.data), "--json")
    assert result.code in (0, 3, 4)
    # Its report is taken through its socket: nothing is left unsaid.
    assert not checks(result) & {"not-looked-at", "unreachable", "uncleanable"}
    host = look_at_machine([server.data])
    assert host.broker_pid == server.process.pid
    (disk,) = host.file_systems
    assert disk.total_bytes == shutil.disk_usage(server.data).total
    assert server.data.is_relative_to(disk.mount_point)


def test_folders_of_logs_are_counted(tmp_path: Path) -> None:
    for name in ("t-0", "with-dashes-11", "t-1.0123456789abcdef-delete", "other"):
        (tmp_path / name).mkdir()
    assert look_at_machine([tmp_path]).partitions == 2


def test_a_configuration(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file.write_text(
            f"listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={tmp_path}\n"
            "num.network.threads=8\nunclean.leader.election.enable=true\n"
        )
        result = run("doctor", str(file), "--json")
    found = {each["check"]: each for each in result.json}
    assert result.code == 4
    assert "Address already in use" in found["port"]["what"]
    assert found["key-without-effect"]["what"] == "without effect: num.network.threads"
    assert "unclean-election" in found
    file.write_text(f"listeners=PLAINTEXT://:0\nlog.dirs={tmp_path}\n")
    found = {each["check"]: each for each in run("doctor", str(file), "--json").json}
    assert "PLAINTEXT://*:0 asks no client who it is" in found["open-listener"]["what"]
    assert not found.keys() & {"port", "key-without-effect", "unclean-election"}


def test_a_configuration_that_no_broker_starts_with(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.segment.byte=1\n")
    result = run("doctor", str(file), "--json")
    assert result.code == 4
    assert "log.segment.byte" in result.json[0]["what"]
    missing = run("doctor", str(tmp_path / "none"), "--json")
    assert missing.code == 1


def test_certificates(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / CA).write_text(Authority.make("here").certificate_pem())
    assert "certificate-end" not in checks(run("doctor", "--data", str(tmp_path), "--json"))
    monkeypatch.setattr("time.time_ns", lambda: 4_000_000_000 * 10**9)  # in 2096
    assert "certificate-end" in checks(run("doctor", "--data", str(tmp_path), "--json"))


def test_what_it_cannot_take(run: Run, tmp_path: Path) -> None:
    assert run("doctor", "--data", str(tmp_path / "none")).code == 1
    assert run("doctor", "--http", "nonsense").code == 1
    assert run("doctor", "--seconds", "-1").code == 2


def test_lines_for_a_pipe(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"listeners=PLAINTEXT://:0\nlog.dirs={tmp_path}\n")
    result = run("doctor", str(file))
    assert result.code == 3
    row = next(each for each in result.rows if each[1] == "open-listener")
    assert row[0] == "warning"
    assert len(row) == 6
    assert "warning" in result.err
