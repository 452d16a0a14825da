"""Commands of ours that are forked from a process which has imported what they need: a start takes
half a second of processor time less.

A user starts a program. A test that is about this, and whatever needs an environment of its own,
starts one, too (`BrokerProcess.is_program`).
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

#: The longest message: a command line, with its environment.
MESSAGE_BYTES_MAX: Final = 180_000
_TESTS: Final = Path(__file__).parents[1]
_MODULE: Final = "rig.forked"
#: Command -> what it imports, besides what these import.
IMPORTED: Final = {
    "server": ("drumlin.cli.server", "drumlin.broker.start.process", "drumlin.broker.start.server"),
    "capture": (
        *("drumlin.cli.captures.capture", "drumlin.client.client", "drumlin.capture.forms.choice"),
        *("drumlin.capture.binlog.connections", "drumlin.capture.database.connections"),
    ),
}
_START_S: Final = 120.0


class ForkedProcess:
    """The part of `subprocess.Popen` that tests use, for a child of another process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = threading.Event()

    def end(self, code: int) -> None:
        self.returncode = code
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(f"forked {self.pid}", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # its end has not been told yet
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Parent:
    """The process that forks; a thread of ours hears from it of each end."""

    def __init__(self, name: str) -> None:
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, str(other.fileno()), name],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(_TESTS)},
            )
        self._socket = own
        self._lock = threading.Lock()
        self._started: queue.Queue[ForkedProcess] = queue.Queue()
        self._running: dict[int, ForkedProcess] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, arguments: Sequence[str], output: int, cwd: Path | None) -> ForkedProcess:
        request = {
            "arguments": list(arguments),
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(os.environ),
        }
        message = json.dumps(request).encode()
        assert len(message) <= MESSAGE_BYTES_MAX, "too long for one message"
        with self._lock:  # answers come in the order of requests
            socket.send_fds(self._socket, [message], [output])
            return self._started.get(timeout=_START_S)

    def _listen(self) -> None:
        while message := self._socket.recv(MESSAGE_BYTES_MAX):
            told: dict[str, Any] = json.loads(message)
            if "started" in told:
                process = ForkedProcess(told["started"])
                self._running[process.pid] = process
                self._started.put(process)
            else:
                self._running.pop(told["ended"]).end(told["code"])


@functools.cache
def _parent(_: int, name: str) -> _Parent:
    return _Parent(name)


def can_be_forked(command: Sequence[str]) -> bool:
    """Whether it is `python -m drumlin …`, of a command that is forked."""
    return list(command[:3]) == [sys.executable, "-m", "drumlin"] and command[3] in IMPORTED


def fork(command: Sequence[str], output: int, cwd: Path | None = None) -> ForkedProcess:
    """Start a command that can be forked; `output` is the descriptor of what it writes."""
    assert can_be_forked(command)
    return _parent(os.getpid(), command[3]).start(command[3:], output, cwd)
