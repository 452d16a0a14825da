"""A Drumlin broker of your own for as long as a `with` block lasts."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_START_TIMEOUT_S = 30
_STOP_TIMEOUT_S = 30


class LocalBroker(NamedTuple):
    """Where it is: for clients, and for questions about its cleaner."""

    address: str
    cleaner_status_url: str


@contextlib.contextmanager
def local_broker(folder: Path, settings: Mapping[str, str]) -> Iterator[LocalBroker]:
    """Start `drumlin server` on free ports of this machine, say where it is, stop it."""
    address, metrics = (f"127.0.0.1:{port}" for port in free_ports(2))
    command = [sys.executable, "-m", "drumlin", "server", "--data", str(folder / "data")]
    for key, value in {**settings, "drumlin.metrics.listener": metrics}.items():
        command += ["--set", f"{key}={value}"]
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(  # noqa: S603 - our own server
            [*command, "--listen", address], stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _wait_until_ready(server, log)
        yield LocalBroker(address, f"http://{metrics}/compaction")
    finally:
        server.terminate()
        server.wait(_STOP_TIMEOUT_S)


def _wait_until_ready(server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while "ready" not in log.read_text():
        if server.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the broker did not start:\n{log.read_text()}")
        time.sleep(0.02)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
