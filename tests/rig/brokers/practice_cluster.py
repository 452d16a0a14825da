"""`drumlin cluster up` as a subprocess: what a user starts, started as a user does."""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rig.brokers.process import BrokerProcess
from rig.jvm.jars import java
from rig.ports import free_ports
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

#: Java, a ZooKeeper and the brokers start on machines that do other things.
START_TIMEOUT_S = 120.0
#: A killed broker is missed soon.
_SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "zookeeper.connection.timeout.ms": "60000",
    "offsets.topic.num.partitions": "3",
}


def skip_where_there_is_none() -> None:
    """Skip where this machine lacks Java or PySpark."""
    with skipped_where_unavailable():
        java()
    if find_spec("pyspark") is None:
        pytest.skip("PySpark is not installed")


class PracticeCluster(BrokerProcess):
    """One cluster in one directory; it keeps its ports when it is started again."""

    def __init__(self, directory: Path, brokers: int = 3) -> None:
        super().__init__(directory / "up.out")
        self.data = directory / "practice"
        self.brokers = brokers
        self.port = ports_in_a_row(brokers)

    def command(self, *arguments: str) -> list[str]:
        command = [sys.executable, "-m", "drumlin", "cluster", "up", "--data", str(self.data)]
        command += ["--brokers", str(self.brokers), "--port", str(self.port)]
        for key, value in _SETTINGS.items():
            command += ["--set", f"{key}={value}"]
        return [*command, *arguments]

    def start(self, *arguments: str) -> None:
        """Start, and wait for the line that says that all are ready."""
        said_before = len(self.said())
        self.launch(self.command(*arguments))

        def is_ready() -> bool:
            self.fail_if_ended()
            return "drumlin cluster is ready on " in self.said()[said_before:]

        wait_until(is_ready, "the cluster to be ready", START_TIMEOUT_S)

    def interrupt(self) -> int:
        """Ctrl-C, and wait; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        return self.wait_until_ended(90)

    @property
    def record(self) -> dict[str, Any]:
        """What `cluster.json` says."""
        found: dict[str, Any] = json.loads((self.data / "cluster.json").read_text("utf-8"))
        return found

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.port + each}" for each in range(self.brokers))

    def pid_of(self, member: int | str) -> int:
        record = self.record
        found = record["zookeeper"] if member == "zookeeper" else record["brokers"][int(member) - 1]
        pid = found["pid"]
        assert isinstance(pid, int), found
        return pid

    def pids(self) -> list[int]:
        """Of all members."""
        return [self.pid_of(each) for each in (*range(1, self.brokers + 1), "zookeeper")]


def is_alive(pid: int) -> bool:
    """Whether a process runs: one that has ended, and was not waited for, does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def kill(pid: int) -> None:
    """As somebody from outside does."""
    os.kill(pid, signal.SIGKILL)


def ports_in_a_row(count: int) -> int:
    """The first of free ports in a row."""
    while True:
        ports = free_ports(count)
        if ports == list(range(ports[0], ports[0] + count)):
            return ports[0]
