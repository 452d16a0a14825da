"""What a reader takes beyond what an idle client has, whatever is in the log: real memory.

`pytest -rP` shows how much it was.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow as pa
import pytest

import drumlin
from drumlin.client.client import Client
from rig.brokers.drumlin_server import DrumlinServer

MIB = 1 << 20
LIMIT_BYTES = 256 * MIB
PROGRAM = Path(__file__).with_name("reading_program.py")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    settings = {
        "message.max.bytes": str(100 * MIB),
        "socket.request.max.bytes": str(150 * MIB),
    }
    server = DrumlinServer(tmp_path_factory.mktemp("memory"), settings)
    server.start()
    yield server
    server.stop()


class Case(NamedTuple):
    """A table that is written so many times, in batches of at most so many bytes."""

    table: pa.Table
    times: int
    compression: str
    batch_bytes: int = 64 * MIB

    @classmethod
    def of(cls, values: list[bytes], times: int, compression: str) -> Case:
        return cls(pa.table({"value": pa.array(values, pa.binary())}), times, compression)


def a_record_of_text(compression: str) -> Case:
    """Which gets much smaller."""
    lines = b"".join(b"%015d\n" % number for number in range(256))
    return Case.of([lines * (63 * MIB // len(lines))], 3, compression)


def a_record_of_noise(compression: str) -> Case:
    return Case.of([Random(1).randbytes(63 * MIB)], 3, compression)


def many_in_a_batch(compression: str) -> Case:
    """Records of a kilobyte, of which half gets smaller."""
    random = Random(7)
    return Case.of([random.randbytes(500) + bytes(500) for _ in range(60_000)], 2, compression)


def tiny_batches() -> Case:
    return Case.of([b"x" * 60] * 15_000, 1, "lz4")._replace(batch_bytes=150)


def headers() -> Case:
    each = [{"key": f"h{number}", "value": b"v" * 5} for number in range(8)]
    columns = {
        "value": pa.array([b"x"] * 60_000, pa.binary()),
        "headers": pa.array([each] * 60_000, HEADERS),
    }
    return Case(pa.table(columns), 1, "zstd", 16 * MIB)


CASES: dict[str, Callable[[], Case]] = {
    f"{make.__name__}-{codec}": partial(make, codec)
    for make in (a_record_of_text, a_record_of_noise, many_in_a_batch)
    for codec in CODECS
} | {"tiny_batches": tiny_batches, "headers": headers}


#: Each kind, and each codec once.
AT_EACH_COMMIT = {"a_record_of_text-zstd", "many_in_a_batch-none", "headers"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in AT_EACH_COMMIT else pytest.mark.deep)
        for name in CASES
    ],
)
def test_memory_is_bounded(broker: DrumlinServer, name: str) -> None:
    case = CASES[name]()
    with drumlin.connect(broker.address, request_timeout_ms=60_000) as client:
        client.create_topic(name, 1)
        for _ in range(case.times):
            write(client, name, case)
    done = subprocess.run(
        [sys.executable, PROGRAM, broker.address, name, "headers" if name == "headers" else "-"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    records, largest_batch, resident, *_ = map(int, done.stdout.split())
    print(f"{name}: {resident >> 20} MiB")
    assert records == case.table.num_rows * case.times
    # A record is not divided; all else comes in batches of a good size.
    assert largest_batch < (64 if name.startswith("a_record") else 16) * MIB
    assert resident < LIMIT_BYTES


def write(client: Client, topic: str, case: Case) -> None:
    if not topic.startswith("many"):
        client.append(case.table, topic, batch_bytes=case.batch_bytes, compression=case.compression)
        return
    # Tables are encoded in parts: only a writer makes one batch of more.
    with client.writer(
        topic,
        batch_bytes=case.batch_bytes,
        buffer_bytes=2 * case.batch_bytes,
        linger_ms=600_000,
        compression=case.compression,
    ) as writer:
        for value in case.table["value"].to_pylist():
            writer.send(value)
