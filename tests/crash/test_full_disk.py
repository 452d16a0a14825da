"""A full disk takes partitions offline, not the broker; with room again they come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from crash.conftest import MakeServer
from crash.requests import create_topic, fetch, produce, read_all
from drumlin.wire.error_codes import ErrorCode
from rig.data.batches import batch
from rig.waiting import wait_until

_MIB = 1 << 20


@pytest.mark.parametrize("only_directory", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_full_disk(
    small_disk: Path, tmp_path: Path, make_server: MakeServer, only_directory: bool
) -> None:
    """Even where it is the only directory the broker stays up; another one serves on."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(10 * _MIB))
    settings = {"segment.bytes": "1048576", "retention.ms": "-1"}
    full = small_disk / "data"
    directories = [full] if only_directory else [full, tmp_path / "other"]
    server = make_server({"log.dirs": ",".join(map(str, directories))})
    with server.connect() as client:
        create_topic(client, "t", partitions=2, configs=settings)
        partition = 0 if only_directory else _partition_in(full)
        written = 0
        while True:
            value = b"%d " % written + b"x" * 200_000
            answer = produce(client, "t", batch(value), partition)
            if answer.error_code != ErrorCode.none:
                break
            written += 1
            assert written < 500, "the disk does not fill"
        assert answer.error_code == ErrorCode.kafka_storage_error
        assert client.ask("metadata", 12, topics=[{"name": "t"}]).brokers
        if not only_directory:
            other = 1 - partition
            assert produce(client, "t", batch(b"elsewhere"), other).error_code == ErrorCode.none
            assert read_all(client, "t", other) == [b"elsewhere"]

        ballast.unlink()

        def comes_back() -> bool:
            return bool(
                produce(client, "t", batch(b"again"), partition).error_code == ErrorCode.none
            )

        wait_until(comes_back, "the directory to be online again")
        _check(read_all(client, "t", partition), written)
        server.restart()
    with server.connect() as client:
        _check(read_all(client, "t", partition), written)
        assert fetch(client, "t", 0, 1 - partition).error_code == ErrorCode.none


def _partition_in(directory: Path) -> int:
    """The partition of `t` that went into a directory."""
    found = [int(path.name.rpartition("-")[2]) for path in directory.glob("t-*")]
    assert len(found) == 1, "each directory gets one"
    return found[0]


def _check(values: list[bytes], written: int) -> None:
    """Everything acknowledged is there, and what was refused has left no trace."""
    assert [value.split()[0] for value in values[:written]] == [b"%d" % n for n in range(written)]
    assert values[written:] == [b"again"]
