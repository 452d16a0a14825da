"""What the tests of this layer append, open and compare with."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from drumlin.clock import Clock, ManualClock
from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import iterate_headers, parse_header
from drumlin.records.plain.record import Record, decode_records, encode_batch
from drumlin.records.validation.validation import PreparedBatch
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.storage.files.files import Files
from drumlin.storage.files.open_files import OpenFiles
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.append_result import AppendResult

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
NOW_MS = 1_700_000_000_000
EVERYTHING = 1 << 30
#: Where many small files are made and thrown away; None: the usual place.
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


@contextlib.contextmanager
def folder_in_memory() -> Iterator[Path]:
    """A folder of its own that takes no disk's time."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as path:
        yield Path(path)


def batch_of(
    count: int = 1,
    *,
    base_offset: int = 0,
    timestamp: int = NOW_MS,
    value: bytes = b"value",
    **fields: Any,
) -> bytearray:
    """`count` records with consecutive offsets and timestamps."""
    records = [Record(base_offset + i, timestamp + i, b"key-%d" % i, value) for i in range(count)]
    return encode_batch(records, **fields)


def prepared(count: int = 1, **fields: Any) -> PreparedBatch:
    """What Produce hands to the log."""
    buffer = memoryview(batch_of(count, **fields))
    return PreparedBatch(buffer, parse_header(buffer))


def append(
    log: PartitionLog, count: int = 1, *, leader_epoch: int = 0, now_ms: int = NOW_MS, **fields: Any
) -> AppendResult:
    return log.append_as_leader(prepared(count, **fields), leader_epoch, now_ms)


def from_producer(
    sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, **fields: Any
) -> PreparedBatch:
    """A batch of an idempotent producer."""
    return prepared(
        count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields
    )


def marker(
    *, commit: bool, epoch: int = 0, producer_id: int = 7, coordinator_epoch: int = 0
) -> memoryview:
    """The end of a transaction."""
    key = b"\x00\x00" + (b"\x00\x01" if commit else b"\x00\x00")
    value = b"\x00\x00" + coordinator_epoch.to_bytes(4, "big")
    batch = encode_batch(
        [Record(0, NOW_MS, key, value)],
        producer_id=producer_id,
        producer_epoch=epoch,
        is_transactional=True,
        is_control=True,
    )
    return memoryview(batch)


def open_logs(
    *paths: Path,
    config: LogConfig | None = None,
    files: Files | None = None,
    clock: Clock | None = None,
    budget: int | None = None,
    cluster_id: str = "cluster",
    last_broker_epoch: int | None = None,
) -> LogDirectories:
    return LogDirectories(
        paths,
        node_id=1,
        cluster_id=cluster_id,
        config_for=lambda topic: config or LogConfig(),
        clock=clock or ManualClock(NOW_MS),
        open_files=OpenFiles(files or Files(), budget),
        last_broker_epoch=last_broker_epoch,
    ).open()


def open_sole_logs(*paths: Path, **more: Any) -> LogDirectories:
    """The same, of a broker that leads them all, without other replicas."""
    logs = open_logs(*paths, **more)
    for log in logs:
        log.forget_replicas()
    return logs


def create(logs: LogDirectories, config: LogConfig | None = None, topic: str = "t") -> PartitionLog:
    return logs.create(topic, 0, TOPIC_ID, config or LogConfig())


def reopened(
    logs: LogDirectories, path: Path, config: LogConfig | None = None, files: Files | None = None
) -> tuple[LogDirectories, PartitionLog]:
    """The same log after a crash of the process."""
    logs.abandon()
    again = open_logs(path, config=config, files=files)
    log = again.get("t", 0)
    assert log is not None
    return again, log


def revive(logs: LogDirectories, directory: LogDirectory) -> bool:
    """Try to have a failed dir back."""
    return logs.repair(directory) and logs.bring_back(directory)


def read_bytes(
    log: PartitionLog,
    start_offset: int | None = None,
    *,
    max_bytes: int = EVERYTHING,
    end_offset: int | None = None,
    minimum_one_batch: bool = True,
) -> bytes:
    result = log.read(
        log.log_start_offset if start_offset is None else start_offset,
        max_bytes,
        log.log_end_offset if end_offset is None else end_offset,
        minimum_one_batch,
    )
    content = b"".join(part.read() for part in result.slices)
    for part in result.slices:
        part.release()
    return content


def read_all(log: PartitionLog, start_offset: int | None = None) -> list[Record]:
    """Every record from an offset on, as a consumer that goes from fetch to fetch sees them."""
    offset = log.log_start_offset if start_offset is None else start_offset
    found: list[Record] = []
    while offset < log.log_end_offset:
        data = read_bytes(log, offset, max_bytes=1000)
        found += [record for record in decode_records(data) if record.offset >= offset]
        ends = [header.end_offset for _, header in iterate_headers(data)]
        if not ends:
            break
        offset = ends[-1]
    return found


def offsets(records: Sequence[Record]) -> list[int]:
    return [record.offset for record in records]


def producers(log: PartitionLog) -> list[tuple[int, int, int]]:
    return [
        (each.producer_id, each.producer_epoch, each.last_sequence)
        for each in log.producer_state.freeze().entries()
    ]
