"""Apache Kafka's own tools and server on our files, and we on theirs."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from drumlin.config.topic import LogConfig
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.partition_log import PartitionLog
from rig.servers.apache_kafka import ApacheKafka, run_tool
from storage.samples import (
    NOW_MS,
    append,
    create,
    from_producer,
    marker,
    open_logs,
    prepared,
    read_all,
)
from storage.taken_over_group import convert_here, go_on_at_kafka, join_at_kafka, join_here

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("kafka_classes")]

_DUMP = "org.apache.kafka.tools.DumpLogSegments"
_TROUBLE = re.compile(
    "mismatch|isvalid: false|out of order|non-consecutive|larger than|exception|error|corrupt",
    re.IGNORECASE,
)
_TOPIC = "storage-round-trip"
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500)


# -- their tool on our files -------------------------------------------------------------------


def _dump(folder: Path) -> list[str]:
    wanted = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    files = sorted(path for path in folder.iterdir() if path.suffix in wanted)
    return run_tool(_DUMP, "--deep-iteration", "--files", ",".join(map(str, files))).splitlines()


def _check_dump(lines: list[str]) -> None:
    for number, line in enumerate(lines):
        if line.startswith("Non-consecutive offsets in "):
            # The tool says so of every segment that does not begin at 0, Kafka's own too.
            base_offset = int(Path(line).stem)
            assert lines[number + 1].split() == ["-1", "is", "followed", "by", str(base_offset)]
        else:
            assert not _TROUBLE.search(line), line


def _fill(log: PartitionLog) -> None:
    """All kinds of batches, over some segments."""
    sequence = transactional = 0
    for number in range(210):
        epoch, at = number // 50, NOW_MS + 10 * number
        if number % 3 == 0:
            codec = ("none", "gzip", "snappy", "lz4", "zstd")[number % 5]
            value = b"%d" % number * 30
            append(log, 3, timestamp=at, compression=codec, value=value, leader_epoch=epoch)
        elif number % 3 == 1:
            log.append_as_leader(from_producer(sequence, 2, timestamp=at), epoch, NOW_MS)
            sequence += 2
        else:
            batch = from_producer(transactional, producer_id=9, is_transactional=True, timestamp=at)
            log.append_as_leader(batch, epoch, NOW_MS)
            transactional += 1
            if number % 5 == 0:
                commit = number % 2 == 0
                log.append_internal(marker(commit=commit, producer_id=9), epoch, NOW_MS)


@pytest.mark.parametrize("stop", ["clean", "crash"])
def test_kafkas_tool_finds_nothing_wrong(tmp_path: Path, stop: str) -> None:
    logs = open_logs(tmp_path, config=CONFIG)
    log = create(logs, CONFIG)
    _fill(log)
    if stop == "clean":
        logs.close()
    else:  # all indexes are built again
        log.flush()
        logs.abandon()
        logs = open_logs(tmp_path, config=CONFIG)
        logs.close()
    lines = _dump(tmp_path / "t-0")
    _check_dump(lines)
    assert sum(line.startswith("baseOffset:") for line in lines) == 210 + 14
    assert sum(line.startswith("| offset:") for line in lines) == log.log_end_offset
    assert any("endTxnMarker: ABORT" in line for line in lines)


# -- their server's files, and our files under their server ------------------------------------


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[ApacheKafka]:
    kafka = ApacheKafka(tmp_path, {"offsets.topic.num.partitions": "1"})
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.close()


def _produce(port: int) -> None:
    """More than a segment, with an aborted and an open transaction."""
    servers = {"bootstrap.servers": f"127.0.0.1:{port}"}
    topic = NewTopic(_TOPIC, 1, 1, config={"segment.bytes": str(1 << 20), "retention.ms": "-1"})
    admin = AdminClient(servers)
    admin.create_topics([topic])[_TOPIC].result(30)
    plain = Producer({**servers, "enable.idempotence": True, "compression.type": "lz4"})
    for number in range(3000):
        plain.produce(_TOPIC, value=b"%06d" % number * 150, key=b"%d" % number)
    assert plain.flush(30) == 0
    uncompressed = Producer({**servers, "batch.size": 20_000})
    for number in range(1000):
        uncompressed.produce(_TOPIC, value=b"%06d" % number * 300)
    assert uncompressed.flush(30) == 0
    transactional = Producer({**servers, "transactional.id": "storage"})
    transactional.init_transactions(30)
    for end in (transactional.abort_transaction, transactional.commit_transaction):
        transactional.begin_transaction()
        transactional.produce(_TOPIC, value=end.__name__)
        transactional.flush(30)
        end(30)


def _consume(port: int, end_offset: int, isolation: str) -> list[tuple[int, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "storage",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(_TOPIC, 0, 0)])
    found: list[tuple[int, bytes]] = []
    while True:
        message = consumer.poll(30)
        assert message is not None, f"no end after {len(found)} records"
        if message.error():
            break  # the end of the partition
        found.append((message.offset(), message.value()))
    consumer.close()
    assert found[-1][0] < end_offset
    return found


def _open_kafkas(path: Path) -> tuple[LogDirectories, PartitionLog]:
    meta = (path / "meta.properties").read_text()
    cluster_id = re.search("cluster.id=(.*)", meta)
    assert cluster_id is not None
    logs = open_logs(path, cluster_id=cluster_id[1])
    log = logs.get(_TOPIC, 0)
    assert log is not None
    return logs, log


@pytest.mark.deep
def test_a_data_dir_goes_from_kafka_to_us_and_back(tmp_path: Path, kafka: ApacheKafka) -> None:
    _produce(kafka.port)
    path = tmp_path / "data"
    join_at_kafka(kafka.port, _TOPIC)
    expected = _consume(kafka.port, 1 << 62, "read_uncommitted")
    shutil.copytree(path, tmp_path / "crashed")  # as a crash would leave it
    kafka.terminate(60)

    logs, log = _open_kafkas(tmp_path / "crashed")
    assert not logs.was_clean
    assert [(record.offset, record.value) for record in read_all(log)] == expected
    states = [
        (each.producer_id, each.last_sequence, each.transaction_first_offset)
        for each in log.producer_state.freeze().entries()
    ]
    end_offset, aborted = log.log_end_offset, log.aborted_transactions(0, 1 << 62)
    logs.close()

    logs, log = _open_kafkas(path)
    assert logs.was_clean
    assert len(log.segments) >= 2
    assert [(record.offset, record.value) for record in read_all(log)] == expected
    assert log.log_end_offset == log.recovery_point == end_offset
    assert log.aborted_transactions(0, 1 << 62) == aborted
    assert [each[2] for each in aborted] == [expected[-2][0] + 1]
    assert sorted(states) == sorted(
        (each.producer_id, each.last_sequence, each.transaction_first_offset)
        for each in log.producer_state.freeze().entries()
    )

    for number in range(50):
        append(log, 2, value=b"ours %d" % number, timestamp=NOW_MS + number, leader_epoch=0)
    log.roll(NOW_MS)
    log.append_as_leader(from_producer(0, producer_id=10**6, is_transactional=True), 0, NOW_MS)
    log.append_internal(marker(commit=False, producer_id=10**6), 0, NOW_MS)
    log.append_as_leader(prepared(value=b"the last"), 0, NOW_MS)
    expected = [(record.offset, record.value or b"") for record in read_all(log)]
    offsets = logs.get("__consumer_offsets", 0)
    assert offsets is not None
    now_ms = int(time.time() * 1000)
    join_here(offsets, path / "__consumer_offsets-0", _TOPIC, now_ms)
    convert_here(offsets, _TOPIC, now_ms)
    logs.close()
    _check_dump(_dump(path / f"{_TOPIC}-0"))

    kafka.start()
    go_on_at_kafka(kafka.port)
    assert _consume(kafka.port, 1 << 62, "read_uncommitted") == expected
    committed = _consume(kafka.port, 1 << 62, "read_committed")
    missing = [value for offset, value in expected if (offset, value) not in set(committed)]
    assert missing == [b"abort_transaction", b"value"]
