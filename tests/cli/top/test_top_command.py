"""`drumlin top` on a broker: once, as a stream, and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from fcntl import ioctl

import pyarrow as pa
import pytest

import drumlin
from cli.conftest import Run
from drumlin.client.client import Client
from rig.brokers.drumlin_server import DrumlinServer
from rig.waiting import wait_until

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture(scope="module")
def client(server: DrumlinServer) -> Iterator[Client]:
    with drumlin.connect(server.address) as client:
        client.create_topic("top-read", 2, if_not_exists=True)
        client.append(pa.table({"value": ["a"] * 30}), "top-read")
        client.commit_offsets("top-group", {("top-read", 0): 0, ("top-read", 1): 0})
        yield client
        client.delete_group("top-group")
        client.delete_topic("top-read")


def test_once(run: Run, cluster: DrumlinServer, client: Client) -> None:
    result = run("top", "--once", "--interval", "0.2", "--json", "--data", str(cluster.data))
    assert result.code == 0, result.err
    found = result.json
    (topic,) = (each for each in found["topics"] if each["topic"] == "top-read")
    assert (topic["records_in_per_s"], topic["partitions"], topic["offline"]) == (0, 2, 0)
    assert topic["size_bytes"] > 0
    assert topic["bytes_out_per_s"] == 0
    (group,) = (each for each in found["groups"] if each["group"] == "top-group")
    assert (group["lag"], group["state"], group["read_per_s"]) == (30, "Empty", 0)
    assert found["totals"]["brokers"] == 1
    assert found["own"][0]["busy_ratio"] >= 0
    assert any(each["topic"] == "__consumer_offsets" for each in found["cleaner"])
    assert 0.2 <= found["seconds"] < 30


def test_once_as_lines(run: Run, cluster: DrumlinServer, client: Client) -> None:
    view = ("--once", "--interval", "0.2", "--view", "groups", "--filter", "top-g*")
    (row,) = run("top", *view).rows
    assert row[:4] == ["top-group", "Empty", "1", "30"]


def test_what_it_cannot_do(run: Run, cluster: DrumlinServer) -> None:
    assert run("top").code == 2  # there is no terminal
    assert run("top", "--once", "--view", "cleaner").code == 1
    assert run("top", "--once", "-b", "127.0.0.1:1").code == 1
    assert run("top", "--once", "--interval", "-1").code == 2


def test_a_stream(cluster: DrumlinServer, client: Client) -> None:
    command = [sys.executable, "-m", "drumlin", "top", "--json", "--interval", "0.2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | here(cluster)) as top:
        assert top.stdout is not None
        first = json.loads(top.stdout.readline())
        client.append(pa.table({"value": ["a"] * 70}), "top-read")
        rates = []
        while not rates or not rates[-1]:
            rows = json.loads(top.stdout.readline())["topics"]
            rates += [each["records_in_per_s"] for each in rows if each["topic"] == "top-read"]
        top.send_signal(signal.SIGINT)
        top.stdout.read()
        assert top.wait(30) == 130
    assert first["seconds"] > 0
    assert rates[-1] > 0


def here(server: DrumlinServer) -> dict[str, str]:
    return {"DRUMLIN_BOOTSTRAP": server.address}


class Terminal:
    """`drumlin top` on a terminal of 24 lines."""

    def __init__(self, server: DrumlinServer, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        self.theirs = theirs
        self.before = termios.tcgetattr(theirs)
        command = [sys.executable, "-m", "drumlin", "top", "--interval", "0.2", *arguments]
        environment = os.environ | here(server) | {"TERM": "xterm", "LINES": "24", "COLUMNS": "120"}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
        )
        os.set_blocking(self._ours, False)
        self.text = ""

    def press(self, keys: str) -> None:
        self.text = ""
        os.write(self._ours, keys.encode())

    def wait_for(self, wanted: str) -> None:
        def is_there() -> bool:
            self._read()
            return re.search(wanted, self.text) is not None

        wait_until(is_there, f"{wanted!r} on the terminal", 60)

    def _read(self) -> None:
        try:
            while content := os.read(self._ours, 65536):
                self.text += _ESCAPES.sub("", content.decode(errors="replace"))
        except (BlockingIOError, OSError):
            return

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self.theirs)


@pytest.fixture
def terminal(server: DrumlinServer, client: Client) -> Iterator[Terminal]:
    terminal = Terminal(server)
    try:
        yield terminal
    finally:
        terminal.close()


def test_on_a_terminal(terminal: Terminal) -> None:
    terminal.wait_for("records in/s")
    terminal.press("/top-read\r")  # of many topics, few are on the terminal
    terminal.wait_for(r"top-read +\d")
    terminal.press("\x1b")
    terminal.press("3/top-group\r")
    terminal.wait_for(r"top-group +Empty")
    terminal.press("1/nothing-like-it\r")
    terminal.wait_for("like nothing-like-it")
    terminal.press("\x1b/top-read\r")
    terminal.wait_for(r"top-read +\d")
    terminal.press("?")
    terminal.wait_for("another view")
    terminal.press("\x1bp")
    terminal.wait_for("PAUSED")
    terminal.press("q")
    wait_until(lambda: terminal.process.poll() is not None, "the end", 60)
    assert terminal.process.returncode == 0
    assert termios.tcgetattr(terminal.theirs) == terminal.before


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_terminal_is_left_as_it_was(terminal: Terminal, number: signal.Signals) -> None:
    terminal.wait_for("records in/s")
    terminal.process.send_signal(number)
    wait_until(lambda: terminal.process.poll() is not None, "the end", 60)
    assert termios.tcgetattr(terminal.theirs) == terminal.before
