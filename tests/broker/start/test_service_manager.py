"""What a service manager such as systemd is told: ready once, stopping once, by one process."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.brokers.drumlin_server import DrumlinServer
from rig.brokers.machine_server import MachineServer

UNIT = Path(__file__).parents[3] / "deploy" / "drumlin.service"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The service manager's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.setblocking(False)
        yield sock


def told(manager: socket.socket) -> list[bytes]:
    """All that it was told since it was asked last."""
    messages = []
    while True:
        try:
            messages.append(manager.recv(1000))
        except BlockingIOError:
            return messages


def test_ready_and_stopping(tmp_path: Path, manager: socket.socket) -> None:
    server = DrumlinServer(tmp_path)
    server.environment = {"NOTIFY_SOCKET": manager.getsockname()}
    try:
        server.launch(server.command())
        server.await_ready_line(str(server.port))
        # The line comes first: who reads it next must find the message there before long.
        manager.settimeout(60)
        assert manager.recv(1000) == b"READY=1"
        manager.setblocking(False)
        server.stop()
        assert told(manager) == [b"STOPPING=1"]
    finally:
        server.close()


def test_an_abstract_address(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{tmp_path}")
        manager.settimeout(60)
        server = DrumlinServer(tmp_path)
        server.environment = {"NOTIFY_SOCKET": f"@{tmp_path}"}
        try:
            server.start()
            assert manager.recv(1000) == b"READY=1"
        finally:
            server.close()


def test_a_manager_that_is_not_there_keeps_no_server_from_starting(tmp_path: Path) -> None:
    server = DrumlinServer(tmp_path)
    server.environment = {"NOTIFY_SOCKET": str(tmp_path / "nothing")}
    try:
        server.start()
        server.stop()
        assert server.said().count("could not be told") == 2
    finally:
        server.close()


def test_of_several_brokers_the_process_that_starts_them_speaks(
    tmp_path: Path, manager: socket.socket
) -> None:
    server = MachineServer(tmp_path)
    server.environment = {"NOTIFY_SOCKET": manager.getsockname()}
    try:
        server.start_brokers(2)
        server.kill_workers([1])()
        manager.settimeout(60)
        assert manager.recv(1000) == b"READY=1"
        manager.setblocking(False)
        assert told(manager) == []
        server.stop()
        assert told(manager) == [b"STOPPING=1"]
    finally:
        server.close()


@pytest.mark.deep
def test_the_unit_is_what_systemd_understands(tmp_path: Path) -> None:
    text = UNIT.read_text()
    program = Path(sys.executable).with_name("drumlin")
    unit = tmp_path / UNIT.name
    unit.write_text(text.replace("/opt/drumlin/bin/drumlin", str(program)))
    verdict = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60
    )
    assert (verdict.returncode, verdict.stdout + verdict.stderr) == (0, "")
