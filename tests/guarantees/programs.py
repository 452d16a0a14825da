"""Programs that are killed with `kill -9`, and started again when they end with an error."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

_TESTS = Path(__file__).parents[1]


class Program:
    """One command, with its output in a file."""

    def __init__(self, command: Sequence[str], output: Path) -> None:
        #: How often it has ended with an error by itself.
        self.restarts = 0
        self._command = command
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
        with self._output.open("ab") as sink:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env={**os.environ, "PYTHONPATH": path},
            )

    def kill(self) -> bool:
        """Whether it was running."""
        process, self._process = self._process, None
        if process is None:
            return False
        was_running = process.poll() is None
        process.kill()
        process.wait()
        return was_running

    def look_after(self) -> None:
        """One that has ended without an error is done."""
        if self._process is not None and self._process.poll() not in (None, 0):
            self.restarts += 1
            self.start()
