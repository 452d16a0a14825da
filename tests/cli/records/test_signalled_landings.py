"""`drumlin land` that is told to end: one line, the exit code of Ctrl-C, and no process left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import drumlin
from rig.brokers.drumlin_server import DrumlinServer
from rig.jvm.java import spark_environment
from rig.waiting import wait_until

pytestmark = pytest.mark.spark

_INTERRUPTED = 130


class Landing:
    """A command in a process group of its own, and what it says."""

    def __init__(self, address: str, topic: str, folder: Path, *options: str) -> None:
        self.target = folder / "target"
        self._output = folder / "output"
        self._command = [sys.executable, "-m", "drumlin", "land", "--topics", topic]
        self._command += ["--to", f"parquet:{self.target}", "--bootstrap", address, *options]
        self.jvm: Path | None = None

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        environment = {**os.environ, **spark_environment()}
        with (
            self._output.open("wb") as sink,
            subprocess.Popen(
                self._command, env=environment, start_new_session=True, stderr=sink
            ) as process,
        ):
            try:
                wait_until(lambda: self._has_jvm(process.pid), "a JVM", 60)
                yield process
                process.wait(60)
            finally:
                process.kill()

    @property
    def said(self) -> str:
        return self._output.read_text()

    @property
    def has_jvm(self) -> bool:
        assert self.jvm is not None
        return self.jvm.exists()

    def has_landed(self) -> bool:
        return "offsets landed" in self.said

    def _has_jvm(self, process: int) -> bool:
        for each in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            if b"java\0" in Path(f"/proc/{each}/cmdline").read_bytes():
                self.jvm = Path(f"/proc/{each}")
        return self.jvm is not None


@pytest.fixture(scope="module")
def topic(server: DrumlinServer) -> str:
    name = "signalled"
    with drumlin.connect(server.address) as client:
        client.create_topic(name, 1)
        client.append(pa.table({"key": ["a"] * 5000, "value": ["b"] * 5000}), name)
    return name


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_spark_starts(
    number: signal.Signals, topic: str, server: DrumlinServer, tmp_path: Path
) -> None:
    landing = Landing(server.address, topic, tmp_path)
    with landing.running() as process:
        process.send_signal(number)
    assert process.returncode == _INTERRUPTED, landing.said
    told = f"drumlin land: {number.name}: ended before anything was landed"
    assert landing.said.splitlines()[-1] == told
    assert "Traceback" not in landing.said
    assert not landing.has_jvm
    assert not landing.target.exists()


@pytest.mark.deep
def test_a_service_whose_processes_all_end(
    topic: str, server: DrumlinServer, tmp_path: Path
) -> None:
    """As systemd ends it: Spark is told to end as well, in the middle of a batch."""
    landing = Landing(server.address, topic, tmp_path, "--batch-offsets", "10")
    with landing.running() as process:
        wait_until(landing.has_landed, "a batch", 120)
        os.killpg(process.pid, signal.SIGTERM)
    assert process.returncode == _INTERRUPTED, landing.said
    last = landing.said.splitlines()[-1]
    assert last == "drumlin: ended in the middle of a batch, which the next run lands"
    assert "Traceback" not in landing.said
    assert not landing.has_jvm


@pytest.mark.deep
@pytest.mark.parametrize("count", [1, 2])
def test_ctrl_c(count: int, topic: str, server: DrumlinServer, tmp_path: Path) -> None:
    landing = Landing(server.address, topic, tmp_path, "--batch-offsets", "10")
    with landing.running() as process:
        wait_until(landing.has_landed, "a batch", 120)
        os.killpg(process.pid, signal.SIGINT)
        wait_until(lambda: "SIGINT: stopping after this batch" in landing.said, "the note", 60)
        if count == 2:
            os.killpg(process.pid, signal.SIGINT)
    assert process.returncode == _INTERRUPTED, landing.said
    assert "Traceback" not in landing.said
    assert not landing.has_jvm
    rows = pq.read_table(landing.target, columns=["offset"])["offset"].to_pylist()
    assert rows == list(range(len(rows)))
    assert 0 < len(rows) < 5000
