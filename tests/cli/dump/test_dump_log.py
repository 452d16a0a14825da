"""`drumlin dump-log`: what it shows of healthy files, and that it names every kind of damage."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from cli.conftest import Run
from drumlin.records.plain.record import Record, encode_batch
from rig.brokers.drumlin_server import DrumlinServer

NAME = "00000000000000000010"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A healthy partition of two batches: offsets 10 to 12 and 13."""
    directory = tmp_path / "flights-0"
    directory.mkdir()
    first = encode_batch(
        [Record(10 + i, 1000 + i, b"key", b"value %d" % i, (("h", b"x"),)) for i in range(3)],
        compression="zstd",
    )
    second = encode_batch([Record(13, 2000, None, None)])
    (directory / f"{NAME}.log").write_bytes(first + second)
    (directory / f"{NAME}.index").write_bytes(struct.pack(">ii", 3, len(first)) + bytes(80))
    (directory / f"{NAME}.timeindex").write_bytes(
        struct.pack(">qiqi", 1002, 2, 2000, 3) + bytes(120)
    )
    (directory / f"{NAME}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 7, 10, 12, 13))
    (directory / f"{NAME}.snapshot").write_bytes(_snapshot(producers=2))
    (directory / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 12\n")
    return directory


def _snapshot(producers: int) -> bytes:
    entries = b"".join(
        struct.pack(">qhiqiqiq", 100 + i, 0, 5, 12, 2, 1002, -1, -1) for i in range(producers)
    )
    covered = struct.pack(">i", producers) + entries
    return struct.pack(">hI", 1, crc32c(covered)) + covered


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def test_a_healthy_directory_verifies(run: Run, partition: Path) -> None:
    summary = run("dump-log", "--verify", str(partition))
    assert (summary.code, summary.out) == (0, "")
    assert summary.err == "6 files, 4 records, 0 problems\n"
    result = run("dump-log", "--verify", "--verbose", str(partition))
    assert (result.code, result.err) == (0, summary.err)
    assert [row[0].rpartition("/")[2] for row in result.rows] == [
        f"{NAME}.index",
        f"{NAME}.log",
        f"{NAME}.snapshot",
        f"{NAME}.timeindex",
        f"{NAME}.txnindex",
        "leader-epoch-checkpoint",
    ]
    assert [int(row[2]) for row in result.rows] == [1, 2, 2, 2, 1, 2]


def test_batches_and_records_as_json(run: Run, partition: Path) -> None:
    items = run("dump-log", "--deep", "--json", str(partition / f"{NAME}.log")).json_lines
    assert [item["kind"] for item in items] == ["batch", *["record"] * 3, "batch", "record"]
    assert items[0] | {"file": ""} == {
        "file": "",
        "kind": "batch",
        "position": 0,
        "size_bytes": items[4]["position"],
        "base_offset": 10,
        "last_offset": 12,
        "records": 3,
        "max_timestamp": 1002,
        "compression": "zstd",
        "leader_epoch": -1,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "flags": [],
        "crc": items[0]["crc"],
    }
    assert items[1] | {"file": ""} == {
        "file": "",
        "kind": "record",
        "offset": 10,
        "timestamp": 1000,
        "key": "key",
        "value": "value 0",
        "headers": [{"key": "h", "value": "x"}],
    }
    assert items[5]["key"] is None


def test_plain_lines_name_file_and_fields(run: Run, partition: Path) -> None:
    result = run("dump-log", str(partition / f"{NAME}.index"))
    assert result.rows == [
        [str(partition / f"{NAME}.index"), "kind=index", "offset=13", result.rows[0][3]]
    ]


def test_a_marker_of_a_transaction_is_told_from_a_record(run: Run, tmp_path: Path) -> None:
    marker = Record(0, 5, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0))
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(
        encode_batch(
            [marker], producer_id=3, producer_epoch=0, is_transactional=True, is_control=True
        )
    )
    batch, record = run("dump-log", "--deep", "--json", str(log)).json_lines
    assert batch["flags"] == ["transactional", "control"]
    assert record["control"] == "commit"


@pytest.mark.parametrize(
    ("suffix", "position", "data", "complaint"),
    [
        ("log", 80, b"\xff", "CRC of the batch at offset 10"),
        ("log", 0, struct.pack(">q", 9), "base offset 9 where 10 or more must follow"),
        ("log", 16, b"\x01", "a batch of format 1"),
        ("index", 0, struct.pack(">ii", 2, 0)[:4], "no batch with last offset 12"),
        ("index", 4, struct.pack(">i", 1 << 20), "points at position 1048576"),
        ("timeindex", 0, struct.pack(">q", 999), "timestamp 999, but the batch of offset 12"),
        ("timeindex", 12, struct.pack(">q", 500), "runs backwards"),
        ("timeindex", 20, struct.pack(">i", 50), "offset 60 lies after the end of the log"),
        ("txnindex", 0, b"\x00\x09", "version 9 is unknown"),
        ("snapshot", 20, b"\xff", "the checksum does not match"),
    ],
)
def test_damage_is_named_with_its_file(
    run: Run, partition: Path, suffix: str, position: int, data: bytes, complaint: str
) -> None:
    damaged = partition / f"{NAME}.{suffix}"
    overwrite(damaged, position, data)
    verified = run("dump-log", "--verify", str(partition))
    assert str(damaged) in [row[0] for row in verified.rows if int(row[4]) > 0]
    assert "0" not in [row[4] for row in verified.rows]
    for arguments in (["--verify"], [], ["--json"]):
        result = run("dump-log", *arguments, str(partition))
        assert result.code == 1
    assert complaint in result.out
    assert f"drumlin: {damaged}: position " in run("dump-log", str(partition)).err


def test_records_of_internal_topics_are_decoded(run: Run, tmp_path: Path) -> None:
    """What a real broker has written: a commit, and the state of a transactional id."""
    server = DrumlinServer(tmp_path, {"offsets.topic.num.partitions": "1"})
    server.start()
    try:
        where = ("-b", server.address)
        (tmp_path / "line").write_text("v\n")
        how = ("--transactional-id", "import")
        assert run("produce", "lines", str(tmp_path / "line"), *how, *where).code == 0
        assert run("groups", "reset", "readers", "lines", "--to", "0", "--yes", *where).code == 0
        server.stop()
        offsets = _decoded(run, server.data / "__consumer_offsets-0")
        ids = [each for path in server.data.glob("__tr*") for each in _decoded(run, path)]
    finally:
        server.close()
    (commit,) = (each for each in offsets if each["type"] == "OffsetKey")
    assert (commit["key"]["group_id"], commit["key"]["topic"]) == ("readers", "lines")
    assert commit["value"]["offset"] == 0
    assert {each["key"] for each in ids} == {"import"}
    assert ids[-1]["value"]["state"] == "COMPLETE_COMMIT"


def _decoded(run: Run, folder: Path) -> list[dict[str, Any]]:
    rows = run("dump-log", "--deep", "--json", str(folder)).json_lines
    return [each["decoded"] for each in rows if each["kind"] == "record"]


@pytest.mark.parametrize("size", [1, 60, 61, 100])
def test_a_log_that_is_cut_off(run: Run, partition: Path, size: int) -> None:
    log = partition / f"{NAME}.log"
    log.write_bytes(log.read_bytes()[:size])
    result = run("dump-log", str(log))
    assert result.code == 1
    assert f"{log}: position 0: " in result.err


def test_zeros_behind_the_last_batch(run: Run, partition: Path) -> None:
    log = partition / f"{NAME}.log"
    size = log.stat().st_size
    log.write_bytes(log.read_bytes() + bytes(4096))
    result = run("dump-log", "--verify", str(log))
    assert f"position {size}: 4096 bytes that begin with zeros" in result.err


def test_a_leader_epoch_that_runs_backwards(run: Run, partition: Path) -> None:
    checkpoint = partition / "leader-epoch-checkpoint"
    checkpoint.write_text("0\n2\n3 12\n2 14\n")
    assert f"{checkpoint}: position 9: epoch 2" in run("dump-log", str(checkpoint)).err


def test_empty_files_are_fine(run: Run, tmp_path: Path) -> None:
    for suffix in ("log", "index", "timeindex", "txnindex"):
        (tmp_path / f"{0:020}.{suffix}").touch()
    assert run("dump-log", "--verify", str(tmp_path)).code == 0


@pytest.mark.parametrize("name", ["nowhere.log", "README.md"])
def test_what_is_no_log_file_is_refused_in_one_line(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "README.md").touch()
    result = run("dump-log", str(tmp_path / name))
    assert result.code == 1
    assert result.err.startswith(f"drumlin: {tmp_path / name}: ")
    assert result.err.count("\n") == 1
