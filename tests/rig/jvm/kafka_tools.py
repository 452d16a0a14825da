"""Kafka's command line tools, run one after the other by one JVM.

It starts with the first of them, and ends with this process, which closes its input.
"""

from __future__ import annotations

import selectors
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

_SOURCE = Path(__file__).with_name("KafkaTools.java")
_BETWEEN, _ANSWER = "\x1f", b"\x1e"


class KafkaTools:
    """The JVM, and the folder in which the tools leave what they print."""

    def __init__(self, java: Sequence[str], jars: Path) -> None:
        """`java` is the launcher with its options, `jars` the folder of Kafka's jars."""
        every = sorted(jars.glob("*.jar"))
        (own,) = (
            jar for jar in every if jar.name.startswith("kafka-tools-") and "api" not in jar.name
        )
        classpath = ":".join(str(jar) for jar in every if jar != own)
        self._command = [*java, "-cp", classpath, str(_SOURCE), str(own)]
        self._folder = tempfile.TemporaryDirectory(prefix="kafka-tools-")
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, main_class: str, arguments: Sequence[str], timeout_s: float
    ) -> tuple[int, str, str]:
        """Exit code, output, and errors of one tool."""
        files = [Path(self._folder.name, name) for name in ("out", "err")]
        words = [*map(str, files), main_class, *arguments]
        with self._turn:
            try:
                self._ask(_BETWEEN.join(words).encode() + b"\n")
                code = self._answer(time.monotonic() + timeout_s, main_class)
            except BaseException:
                self._end()  # what runs there does not answer the next one
                raise
            output, errors = (path.read_text("utf-8", "replace") for path in files)
        return code, output, errors

    def close(self) -> None:
        self._end()
        self._folder.cleanup()

    def _ask(self, request: bytes) -> None:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        assert self._process.stdin is not None
        self._process.stdin.write(request)

    def _answer(self, deadline: float, what: str) -> int:
        assert self._process is not None
        stdout = self._process.stdout
        assert stdout is not None
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while not (said.startswith(_ANSWER) and said.endswith(b"\n")):
                left_s = max(0, deadline - time.monotonic())
                assert selector.select(left_s), f"{what} does not end"
                more = stdout.read(4096)
                assert more, f"the JVM of the tools ended while it ran {what}"
                said += more
        return int(said[1:])

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
