"""Starts that cannot work end with one clear line; those that can keep within their means."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from crash.conftest import MakeServer
from rig.brokers.drumlin_server import DrumlinServer, server_command
from rig.ports import free_ports

_IDLE_BYTES_MAX = 120 * 1024 * 1024


def _refused(command: list[str]) -> str:
    """The one line that says why a server does not start."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    said = (done.stdout + done.stderr).strip()
    assert done.returncode != 0, said
    assert "Traceback" not in said, said
    assert len(said.splitlines()) == 1, said
    return said


def test_second_server_on_the_same_data(make_server: MakeServer) -> None:
    first = make_server()
    said = _refused(server_command(first.data, free_ports(1)[0]))
    assert str(first.data) in said
    with first.connect() as client:
        assert client.ask("metadata", 12, topics=[]).brokers


def test_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert str(port) in _refused(server_command(tmp_path / "data", port))


def _is_a_file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("in the way")
    return tmp_path / "file"


def _is_below_a_file(tmp_path: Path) -> Path:
    return _is_a_file(tmp_path) / "data"


def _is_read_only(tmp_path: Path) -> Path:
    return Path("/proc/sys/drumlin")  # no user may create anything there, not even root


@pytest.mark.parametrize("directory", [_is_a_file, _is_below_a_file, _is_read_only])
def test_unwritable_directory(tmp_path: Path, directory: Callable[[Path], Path]) -> None:
    data = directory(tmp_path)
    assert str(data) in _refused(server_command(data, free_ports(1)[0]))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num.partitions", "many"),
        ("listeners", "nonsense"),
        *(
            pytest.param(*each, marks=pytest.mark.deep)
            for each in (
                *(("log.retention.ms", "0"), ("compression.type", "brotli")),
                ("no.such.key.anywhere", "1"),
            )
        ),
    ],
)
def test_invalid_configuration(tmp_path: Path, key: str, value: str) -> None:
    said = _refused(server_command(tmp_path / "data", free_ports(1)[0], {key: value}))
    assert key in said
    assert not (tmp_path / "data").exists() or not any((tmp_path / "data").iterdir())


def test_memory_when_idle(make_server: MakeServer) -> None:
    server = make_server()
    process = psutil.Process(server.pid)
    everything = [process, *process.children(recursive=True)]
    assert process.memory_info().rss < _IDLE_BYTES_MAX, everything


def test_ready_line(make_server: MakeServer) -> None:
    """Address, data directory and cluster id; and nothing else where nothing is to be said."""
    server = make_server()
    lines = [line for line in server.said().splitlines() if "is ready" in line]
    assert len(lines) == 1
    with server.connect() as client:
        cluster_id = client.ask("metadata", 12, topics=[]).cluster_id
    for part in (server.address, str(server.data), cluster_id):
        assert part in lines[0]


def test_ports_are_free_again_after_a_stop(make_server: MakeServer) -> None:
    server = make_server()
    for _ in range(2):
        with server.connect():
            server.restart()
    assert not re.search(r"\bERROR\b", server.said())


def test_port_of_its_own_choice(tmp_path: Path) -> None:
    """`--listen 127.0.0.1:0` says in the ready line which port it took."""
    server = DrumlinServer(tmp_path)
    server.port = 0
    try:
        server.launch(server_command(server.data, 0))
        server.await_ready_line(r"127\.0\.0\.1:\d+")
        found = re.search(r"127\.0\.0\.1:(\d+)", server.said())
        assert found
        server.port = int(found[1])
        with server.connect() as client:
            answer = client.ask("metadata", 12, topics=[])
        assert [each.port for each in answer.brokers] == [server.port]
        server.stop()
    finally:
        server.close()


def test_an_interrupt_is_a_clean_stop(make_server: MakeServer) -> None:
    """Ctrl-C in a terminal: as SIGTERM."""
    server = make_server()
    assert server.process is not None
    server.process.send_signal(signal.SIGINT)
    assert server.wait_until_ended() == 0
    server.check_output()
    assert (server.data / ".kafka_cleanshutdown").exists()
