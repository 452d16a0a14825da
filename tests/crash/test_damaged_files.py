"""Files of a stopped server are damaged, each in its own partition; then a real server starts.

Whatever was done to a file: the other partitions are as they were, what is wrong is said with the
partition's name, a client is never left in the dark about records that it may have read, and
nothing waits for ever.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from broker.hosting.test_hosting import commit
from broker.in_process import running
from crash.conftest import MakeServer
from crash.requests import await_coordinator, committed, fetch, produce
from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import crc_matches, iterate_headers
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.drumlin_server import DrumlinServer, server_command
from rig.data.batches import batch
from rig.data.raw import RawClient
from storage.samples import batch_of, prepared

TINY = LogConfig(segment_bytes=1000, index_interval_bytes=100)
BATCH_BYTES = len(batch_of(3, value=bytes(20)))
END = 60  # a log's end offset; three records a batch, five or six batches a segment
LIMIT_S = 60

#: The files that are damaged, each in a partition of its own for each fault.
KINDS: list[Callable[[Path], Path]] = [
    lambda folder: min(folder.glob("*.log")),
    lambda folder: sorted(folder.glob("*.log"))[1],
    lambda folder: max(folder.glob("*.log")),
    lambda folder: sorted(folder.glob("*.index"))[1],
    lambda folder: max(folder.glob("*.index")),
    lambda folder: sorted(folder.glob("*.timeindex"))[1],
    lambda folder: max(folder.glob("*.timeindex")),
    lambda folder: folder / "leader-epoch-checkpoint",
    lambda folder: folder / "partition.metadata",
]


def left_cleanly(data: Path, partitions: int) -> Path:
    """A data dir that a server has left cleanly, with all logs on the device."""

    async def fill() -> None:
        async with running(data) as broker:
            await broker.metadata.create_topic("t", [[broker.node_id]] * partitions, {})
            for index in range(partitions):
                partition = broker.partitions.get("t", index)
                partition.log.config = TINY
                for _ in range(END // 3):
                    each = prepared(3, value=bytes(20))
                    partition.append_as_leader(each, 1, broker.clock.wall_ms())
            await broker.groups.find_partition("g")
            await commit(broker, "g", 42)

    asyncio.run(fill())
    return data


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A topic of two partitions."""
    return left_cleanly(tmp_path_factory.mktemp("stopped") / "data", 2)


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut_in_half(path: Path) -> None:
    """Between two batches, where it is a segment."""
    size = path.stat().st_size
    os.truncate(
        path, size // BATCH_BYTES // 2 * BATCH_BYTES if path.suffix == ".log" else size // 2
    )


def cut_last_bytes(path: Path) -> None:
    os.truncate(path, max(0, path.stat().st_size - 5))


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def garbage_behind(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"garbage" * 30)


def wrong_length(path: Path) -> None:
    """The position of the second batch of a segment, if it has one."""
    content = bytearray(path.read_bytes())
    if len(content) > BATCH_BYTES + 12:
        struct.pack_into(">i", content, BATCH_BYTES + 8, 5)
    path.write_bytes(content)


def flipped_bits(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for position in range(len(content) // 2 + 30, len(content))[:3]:  # in records, of a segment
        content[position] ^= 0x11
    path.write_bytes(content)


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


Fault = Callable[[Path], None]
FAULTS = [
    remove,
    empty,
    cut_in_half,
    cut_last_bytes,
    zeros,
    garbage_behind,
    wrong_length,
    flipped_bits,
    directory,
    fifo,
    link_to_itself,
]


#: What is done to partition 0, 1, 2, …; the last one stays whole.
CASES = [(fault, kind) for fault in FAULTS for kind in KINDS]
WHOLE = len(CASES)


@pytest.fixture(scope="module")
def stopped_large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A topic with a partition for each case, and one that stays whole."""
    return left_cleanly(tmp_path_factory.mktemp("stopped-large") / "data", WHOLE + 1)


def leader_epochs(client: RawClient) -> list[int]:
    (topic,) = client.ask("metadata", 12, topics=[{"topic_id": None, "name": "t"}]).topics
    return [each.leader_epoch for each in sorted(topic.partitions, key=lambda p: p.partition_index)]


def start_offset(client: RawClient, partition: int) -> int:
    wanted = {"partition_index": partition, "timestamp": -2}
    topics = [{"name": "t", "partitions": [wanted]}]
    answer = client.ask("list_offsets", 7, replica_id=-1, topics=topics)
    return max(0, int(answer.topics[0].partitions[0].offset))


def epoch_end(client: RawClient, partition: int, epoch: int) -> int:
    wanted = {"partition": partition, "current_leader_epoch": -1, "leader_epoch": epoch}
    topics = [{"topic": "t", "partitions": [wanted]}]
    answer = client.ask("offset_for_leader_epoch", 4, replica_id=-1, topics=topics)
    return int(answer.topics[0].partitions[0].end_offset)


class Reading:
    """What a consumer gets that reads a partition from its beginning, and how that ends."""

    def __init__(self, client: RawClient, partition: int) -> None:
        self.offsets: list[int] = []
        self.garbled: list[int] = []  # a client sees it by the CRC
        self.error = ErrorCode.none
        self.start = offset = start_offset(client, partition)  # what lies before is out of range
        while True:
            answer = fetch(client, "t", offset, partition)
            self.error = answer.error_code
            if self.error != ErrorCode.none or offset >= answer.high_watermark:
                return
            before, records = offset, bytes(answer.records)
            for position, header in iterate_headers(records):
                offset = header.end_offset
                is_right = crc_matches(records, position, header)
                found = self.offsets if is_right else self.garbled
                found += range(header.base_offset, offset)
            if offset == before:  # nothing is there up to the end
                return


def check_damaged(
    client: RawClient, server: DrumlinServer, path: Path, index: int, epoch: int
) -> None:
    """The file at `path` was damaged; the partition leads in `epoch`."""
    reading = Reading(client, index)
    answer = produce(client, "t", batch(b"after"), index)
    said = server.said()
    lines = [line for line in said.splitlines() if re.search(rf"\bt-{index}\b", line)]
    loud = [line for line in lines if re.search(r"WARNING|ERROR", line)]
    if answer.error_code != ErrorCode.none:
        assert answer.error_code == ErrorCode.kafka_storage_error
        assert any(path.name in line for line in loud), said
        return
    assert loud or reading.start == 0, said
    missing = sorted(set(range(reading.start, END)) - set(reading.offsets) - set(reading.garbled))
    assert answer.base_offset >= END or epoch > 0
    assert answer.base_offset not in reading.offsets
    if reading.error != ErrorCode.none:
        assert reading.error == ErrorCode.corrupt_message
        assert any("CORRUPT_MESSAGE" in line for line in loud), said
    elif missing:
        assert epoch > 0
        assert loud, said
        is_at_the_end = missing[-1] == END - 1
        if is_at_the_end:  # its members find out
            assert epoch_end(client, index, 0) == missing[0]


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_damaged_files_of_logs(
    tmp_path: Path, stopped_large: Path, make_server: MakeServer, clean: bool
) -> None:
    data = tmp_path / "server" / "data"
    shutil.copytree(stopped_large, data)
    if not clean:
        (data / ".kafka_cleanshutdown").unlink()
    paths = [kind(data / f"t-{index}") for index, (_, kind) in enumerate(CASES)]
    for path, (fault, _) in zip(paths, CASES, strict=True):
        fault(path)
    server = make_server({"log.retention.ms": "-1"}, directory=data.parent)
    with server.connect() as client:
        epochs = leader_epochs(client)
        for index, path in enumerate(paths):
            try:
                check_damaged(client, server, path, index, epochs[index])
            except AssertionError as error:
                raise AssertionError(f"{CASES[index][0].__name__} of {path}") from error
        assert epochs[WHOLE] == (0 if clean else 1)
        check_whole(client, WHOLE)
    server.stop()
    server.start()  # and what was found out lasts
    with server.connect() as client:
        assert Reading(client, WHOLE).offsets == [*range(END), END]
        again = leader_epochs(client)
    for index, (path, (_, kind)) in enumerate(zip(paths, CASES, strict=True)):
        if path.suffix != ".log" or kind is KINDS[2]:  # what was not read yet may tell later
            assert again[index] == epochs[index], path
    server.stop()


def check_whole(client: RawClient, partition: int) -> None:
    assert Reading(client, partition).offsets == list(range(END))
    assert produce(client, "t", batch(b"after"), partition).base_offset == END
    await_coordinator(client, "g")
    assert committed(client, "g", "t") == 42


def test_a_consumer_comes_over_an_end_that_was_lost(
    tmp_path: Path, stopped: Path, make_server: MakeServer
) -> None:
    """It reaches the end of the partition, which is what those wait for that read all there is."""
    data = tmp_path / "server" / "data"
    shutil.copytree(stopped, data)
    max((data / "t-0").glob("*.log")).unlink()
    server = make_server({"log.retention.ms": "-1"}, directory=data.parent)
    consumer = Consumer(
        {"bootstrap.servers": server.address, "group.id": "eof", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    try:
        found = iter(lambda: consumer.poll(LIMIT_S), None)
        end = next(each for each in found if each.error() is not None)
        assert end.error().code() == KafkaError._PARTITION_EOF
        assert end.offset() == END
    finally:
        consumer.close()


REFUSED = [
    ("meta.properties", directory),
    ("meta.properties", fifo),
    (".kafka_cleanshutdown", directory),
    (".lock", directory),
]


#: Each file and each fault at each commit; all pairs before a release.
OF_THE_DATA_DIR: dict[str, tuple[Fault, ...]] = {
    "meta.properties": (remove, directory, fifo),
    "recovery-point-offset-checkpoint": (zeros, directory),
    "replication-offset-checkpoint": (remove, fifo),
    ".kafka_cleanshutdown": (zeros, directory),
    ".lock": (directory, fifo),
}


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        pytest.param(name, fault, marks=() if fault in chosen else pytest.mark.deep)
        for name, chosen in OF_THE_DATA_DIR.items()
        for fault in (remove, zeros, directory, fifo, empty, cut_in_half)
    ],
)
def test_a_damaged_file_of_the_data_dir(
    tmp_path: Path, stopped: Path, name: str, fault: Fault
) -> None:
    """It can be done without, or the file is named: by the line that ends the start, or later."""
    server = DrumlinServer(tmp_path, {"log.retention.ms": "-1"})
    shutil.copytree(stopped, server.data)
    path = server.data / name
    fault(path)
    if (name, fault) in REFUSED:
        assert str(path) in refusal(server_command(server.data, server.port))
        return
    try:
        server.start(LIMIT_S)
        with server.connect() as client:
            if produce(client, "t", batch(b"x"), 0).error_code == ErrorCode.none:
                check_whole(client, 1)
            else:
                assert str(path) in server.said()
    finally:
        server.close()
    server.check_output()


def refusal(command: list[str]) -> str:
    """The one line with which a start ends."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()[-1:]
    assert "Traceback" not in done.stderr
    return line
