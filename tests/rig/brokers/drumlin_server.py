"""`drumlin server` as a subprocess: what a user starts, started as a user does."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from rig.brokers.process import BrokerProcess
from rig.data.raw import RawClient
from rig.ports import free_ports
from rig.waiting import wait_until

#: What whoever comes from Apache Kafka has.
SERVER_PROPERTIES = Path(__file__).with_name("server.properties")


def server_command(data: Path, port: int, settings: Mapping[str, str] | None = None) -> list[str]:
    """The command line of one server."""
    command = [sys.executable, "-m", "drumlin", "server"]
    command += ["--data", str(data), "--listen", f"127.0.0.1:{port}"]
    for key, value in (settings or {}).items():
        command += ["--set", f"{key}={value}"]
    return command


class DrumlinServer(BrokerProcess):
    """One server on one data directory; it keeps its port when it is started again."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        properties_file: Path | None = None,
    ) -> None:
        super().__init__(directory / "drumlin.out")
        self.data = directory / "data"
        self.port = free_ports(1)[0]
        self.settings = dict(settings or {})
        self.properties_file = properties_file

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        command = server_command(self.data, self.port, self.settings)
        return command + ([str(self.properties_file)] if self.properties_file else [])

    def start(self, timeout_s: float = 180.0) -> None:
        """Start, and wait for the line that says it is ready."""
        said_before = len(self.said())
        self.launch(self.command())
        self.await_ready_line(re.escape(self.address), said_before, timeout_s)

    def await_ready_line(
        self, address_pattern: str, said_before: int = 0, timeout_s: float = 60.0
    ) -> None:
        """Wait until it says that it is ready on an address like this."""

        def is_ready() -> bool:
            self.fail_if_ended()
            new_lines = self.said()[said_before:].splitlines()
            return any("ready" in line and re.search(address_pattern, line) for line in new_lines)

        wait_until(is_ready, "drumlin server to be ready", timeout_s)

    def stop(self) -> None:
        """SIGTERM, and a clean end."""
        code = self.terminate()
        assert code == 0, f"SIGTERM ended with {code}:\n{self.said()[-4000:]}"

    def restart(self) -> None:
        self.stop()
        self.start()

    def connect(self, client_id: str = "raw", timeout_s: float = 20.0) -> RawClient:
        return RawClient(self.port, client_id, timeout_s)

    def check_output(self) -> None:
        """Nothing that a client does may show as a traceback."""
        said = self.said()
        position = said.find("Traceback (most recent call last)")
        assert position < 0, f"a traceback in the server's output:\n{said[position:][:6000]}"


@contextlib.contextmanager
def running_server(
    directory: Path, settings: Mapping[str, str] | None = None
) -> Iterator[DrumlinServer]:
    """One that runs meanwhile, and must show no traceback."""
    server = DrumlinServer(directory, settings)
    try:
        server.start()
        yield server
    finally:
        server.close()
    server.check_output()
