"""What a reader takes beyond what an idle client has, whatever is in the log: real memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import drumlin
from rig.drumlin_server import DrumlinServer

MIB = 1 << 20
LIMIT_BYTES = 256 * MIB
PROGRAM = Path(__file__).with_name("reading_program.py")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


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
    table: pa.Table
    times: int
    options: dict[str, Any]


def large(compression: str) -> Case:
    text = b"".join(b"%015d\n" % number for number in range(256))
    table = pa.table({"value": pa.array([(text * (63 * MIB // len(text)))], pa.binary())})
    return Case(table, 3, {"batch_bytes": 64 * MIB, "compression": compression})


def many_in_a_batch() -> Case:
    table = pa.table({"value": pa.array([b"%0999d" % n for n in range(50_000)], pa.binary())})
    return Case(table, 2, {"batch_bytes": 64 * MIB, "compression": "zstd"})


def tiny_batches() -> Case:
    table = pa.table({"value": pa.array([b"x" * 60] * 15_000, pa.binary())})
    return Case(table, 1, {"batch_bytes": 150, "compression": "lz4"})


def headers() -> Case:
    each = [{"key": f"h{number}", "value": b"v" * 5} for number in range(8)]
    columns = {
        "value": pa.array([b"x"] * 60_000, pa.binary()),
        "headers": pa.array([each] * 60_000, HEADERS),
    }
    return Case(pa.table(columns), 1, {"batch_bytes": 16 * MIB, "compression": "zstd"})


CASES = {
    "large": lambda: large("none"),
    "large-zstd": lambda: large("zstd"),
    "many-in-a-batch": many_in_a_batch,
    "tiny-batches": tiny_batches,
    "headers": headers,
}


@pytest.mark.parametrize("name", CASES)
def test_memory_is_bounded(broker: DrumlinServer, name: str) -> None:
    case = CASES[name]()
    with drumlin.connect(broker.address, request_timeout_ms=60_000) as client:
        client.create_topic(name, 1)
        for _ in range(case.times):
            client.append(case.table, name, **case.options)
    done = subprocess.run(
        [sys.executable, PROGRAM, broker.address, name, "headers" if name == "headers" else "-"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    records, largest_batch, resident, *_ = map(int, done.stdout.split())
    assert records == case.table.num_rows * case.times
    # A record is not divided; all else comes in batches of a good size.
    assert largest_batch < (64 if name.startswith("large") else 16) * MIB
    assert resident < LIMIT_BYTES
