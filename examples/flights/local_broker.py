"""A Drumlin broker of one's own for as long as a `with` block lasts."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_START_TIMEOUT_S = 30
_STOP_TIMEOUT_S = 30


@contextlib.contextmanager
def local_broker(folder: Path) -> Iterator[str]:
    """Start `drumlin server` on a free port of this machine, give its address, stop it."""
    address = f"127.0.0.1:{_free_port()}"
    command = [sys.executable, "-m", "drumlin", "server", "--data", str(folder / "data")]
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(  # noqa: S603 - our own server
            [*command, "--listen", address], stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _wait_until_ready(server, log)
        yield address
    finally:
        server.terminate()
        server.wait(_STOP_TIMEOUT_S)


def _wait_until_ready(server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while "ready" not in log.read_text():
        if server.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the broker did not start:\n{log.read_text()}")
        time.sleep(0.02)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
