"""A broker as a subprocess: its output in a file, and an end that is always reached."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rig.forking import ForkedProcess, can_be_forked, fork
from rig.waiting import wait_until


class BrokerProcess:
    """Starts and stops one program; a subclass knows when it is ready."""

    #: Whether a server is started as a program, as a user does, and not forked. Tests fork.
    is_program = True

    def __init__(self, output: Path) -> None:
        self.output = output
        #: What it has in its environment besides.
        self.environment: Mapping[str, str] = {}
        self.process: subprocess.Popen[bytes] | ForkedProcess | None = None

    def launch(self, command: Sequence[str], cwd: Path | None = None) -> None:
        assert self.process is None, "already running"
        with self.output.open("ab") as sink, _whole():
            if not self.is_program and not self.environment and can_be_forked(command):
                self.process = fork(command, sink.fileno(), cwd)
                return
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                cwd=cwd,
                env={**os.environ, **self.environment},
            )

    @property
    def pid(self) -> int:
        assert self.process is not None, "not running"
        return self.process.pid

    def said(self) -> str:
        """Everything the program has written so far."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def fail_if_ended(self) -> None:
        if self.process is not None and self.process.poll() is not None:
            code = self.process.returncode
            raise AssertionError(f"the broker ended with {code}:\n{self.said()[-4000:]}")

    def wait_until_ended(self, timeout_s: float = 60.0) -> int:
        """The exit code, once there is one."""
        process = self.process
        assert process is not None, "not running"
        wait_until(lambda: process.poll() is not None, f"the end of {self.pid}", timeout_s)
        self.process = None
        return process.returncode

    def terminate(self, timeout_s: float = 60.0) -> int:
        """Ask it to end, and wait; the exit code."""
        return self._signal(signal.SIGTERM, timeout_s)

    def kill(self) -> None:
        """`kill -9`: nothing is flushed, nothing is said."""
        self._signal(signal.SIGKILL, 10.0)

    def close(self) -> None:
        """Leave nothing running, whatever happened before."""
        if self.process is not None:
            self.kill()

    def _signal(self, number: signal.Signals, timeout_s: float) -> int:
        assert self.process is not None, "not running"
        self.process.send_signal(number)
        try:
            return self.wait_until_ended(timeout_s)
        except AssertionError:
            self.process.kill()
            self.process.wait()
            self.process = None
            raise


@contextmanager
def _whole() -> Iterator[None]:
    """Keep SIGTERM until the end: raised within a start, it would lose what was started."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread
        return
    kept: list[int] = []
    handler = signal.signal(signal.SIGTERM, lambda number, _: kept.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
        if kept:
            os.kill(os.getpid(), signal.SIGTERM)
