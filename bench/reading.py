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

import numpy as np
import pyarrow as pa

from bench.brokers import Broker, require_no_error
from bench.load import Load, batch_of, first_answer
from bench.produce import produce_frame
from drumlin.client.client import connect

_BATCH_BYTES = 64 << 10
_PIECE_RECORDS = 100_000
_RECORD_OVERHEAD = 10
_PATIENCE_S = 10


def fill(broker: Broker, topic: str, record_bytes: int, size_bytes: int) -> int:
    """Write about `size_bytes` of records to partition 0; their number."""
    batch = batch_of(_BATCH_BYTES, record_bytes)
    frame = produce_frame(broker, topic, batch)
    answer_bytes, answer = first_answer(broker.port, frame)
    require_no_error(answer.responses[0].partition_responses[0])
    with contextlib.closing(Load(broker.dial, [frame], 5, len(answer_bytes))) as load:
        load.run(seconds=3600, requests_max=size_bytes // _BATCH_BYTES)
    return broker.end_offset(topic)


def fill_as_clients_do(
    broker: Broker, topic: str, record_bytes: int, records: int, partitions: int, codec: str
) -> int:
    """Write records that differ, to all partitions in turn, in batches of 64 KiB; their number.

    A codec makes about half of them: values are random letters out of sixteen.
    """
    letters = np.frombuffer(b"0123456789abcdef", np.uint8)
    random = np.random.default_rng(7)
    with connect(broker.address) as client:
        for start in range(0, records, _PIECE_RECORDS):
            count = min(_PIECE_RECORDS, records - start)
            size = record_bytes - _RECORD_OVERHEAD
            values = letters[random.integers(0, 16, count * size, np.uint8)]
            offsets = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * size)
            column = pa.Array.from_buffers(
                pa.binary(), count, [None, offsets, pa.py_buffer(values)]
            )
            places = pa.array((np.arange(count) % partitions).astype(np.int32))
            table = pa.table({"value": column, "place": places})
            client.append(
                table, topic, partition="place", compression=codec, batch_bytes=_BATCH_BYTES
            )
    return records


class Reading(NamedTuple):
    """What one read took: of the Python process that asked, and of those that it started."""

    seconds: float
    cpu_seconds: float
    java_seconds: float
    python_seconds: float


class Program:
    """A process that prepares itself, and then answers each line that it is asked with one."""

    def __init__(self, module: str, *arguments: str, core: int | None = None) -> None:
        command = [sys.executable, "-m", module, *arguments]
        if core is not None:
            command = ["taskset", "-c", str(core), *command]
        self._name = " ".join((module, *arguments[:1]))
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives with us
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._answer()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, line: str) -> str:
        """Its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """The end of its input ends it; what is under way is given up."""
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
            raise RuntimeError(f"{self._name} ended with {code}: {self._errors.read()[-4000:]}")
        return line.strip()


class Reader(Program):
    """A reader process (see `readers`), which is asked to read as often as one likes."""

    def __init__(
        self, kind: str, broker: Broker, topic: str, records: int, core: int | None = None
    ) -> None:
        super().__init__("bench.readers", kind, broker.address, topic, str(records), core=core)

    def read(self) -> Reading:
        """Read the whole topic once."""
        return Reading(*map(float, self.ask("").split()))


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
