"""What `columns` and `spark` share: a full topic, and reader processes that are asked in turns."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.brokers import Broker, require_no_error
from bench.load import Load, batch_of, first_answer
from bench.produce import produce_frame

_BATCH_BYTES = 64 << 10
_PATIENCE_S = 10


def fill(broker: Broker, topic: str, record_bytes: int, size_bytes: int) -> int:
    """Write about `size_bytes` of records to partition 0; their number."""
    batch = batch_of(_BATCH_BYTES, record_bytes)
    frame = produce_frame(broker, topic, batch)
    answer_bytes, answer = first_answer(broker.port, frame)
    require_no_error(answer.responses[0].partition_responses[0])
    with contextlib.closing(Load(broker.port, [frame], 5, len(answer_bytes))) as load:
        load.run(seconds=3600, requests_max=size_bytes // _BATCH_BYTES)
    return broker.end_offset(topic)


class Reading(NamedTuple):
    """What one read took. The processor time is the Python process's alone."""

    seconds: float
    cpu_seconds: float


class Reader:
    """A reader process (see `readers`), which is asked to read as often as one likes."""

    def __init__(
        self, kind: str, broker: Broker, topic: str, records: int, core: int | None = None
    ) -> None:
        command = [sys.executable, "-m", "bench.readers", kind, broker.address, topic, str(records)]
        if core is not None:
            command = ["taskset", "-c", str(core), *command]
        self._kind = kind
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives with us
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._answer()

    def read(self) -> Reading:
        """Read the whole topic once."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Reading(*map(float, self._answer().split()))

    def close(self) -> None:
        """The end of its input ends it; a read that is under way is given up."""
        try:
            self._process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self._errors.seek(0)
            raise RuntimeError(f"{self._kind} ended with {code}: {self._errors.read()[:4000]}")
        return line.strip()


@contextlib.contextmanager
def pinned(pid: int, core: int) -> Iterator[None]:
    """Keep a process, all its threads, on one core meanwhile."""
    before = os.sched_getaffinity(pid)
    _pin(pid, {core})
    try:
        yield
    finally:
        _pin(pid, before)


def _pin(pid: int, cores: set[int]) -> None:
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), cores)
