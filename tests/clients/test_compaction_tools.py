"""Compacted topics under the tools and consumers of Apache Kafka, and under librdkafka."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import iterate_headers
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.compacted_topic import await_clean, create, read
from rig.depth import so_many
from rig.servers.apache_kafka import kafka_classpath, run_alone, run_tool
from rig.servers.running import skipped_where_unavailable
from storage.samples import append, from_producer, marker, open_logs

pytestmark = [pytest.mark.clients, pytest.mark.kafka]

_TOOLS = "org.apache.kafka.tools"
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_SETTINGS = {
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.roll.ms": "200",  # many segments also of few records
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}
#: Records of long ago are those of producers that are not waited for.
_FORGETFUL = {"producer.id.expiration.check.interval.ms": "10"}
_TESTER_MESSAGES = so_many(50_000, 1_000_000)
#: What DumpLogSegments says of files with which something is wrong.
_TROUBLE = re.compile("mismatch|isvalid: false|out of order|larger than|exception|error|corrupt")

Row = tuple[int, bytes, bytes | None]


@pytest.fixture(scope="module")
def cleaning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    """A server that cleans as soon as there is something to clean."""
    with skipped_where_unavailable():
        kafka_classpath()
    with closing(DrumlinServer(tmp_path_factory.mktemp("cleaning"), _SETTINGS)) as server:
        server.start()
        yield server
        server.stop()
        server.check_output()


# -- the same records for every reader ---------------------------------------------------------


def _write(address: str, topic: str, count: int) -> list[Row]:
    """Records of all codecs in turn, some of them tombstones; what was written."""
    choices = random.Random(4)
    settings = {"bootstrap.servers": address, "enable.idempotence": True, "batch.size": 4000}
    producers = [Producer({**settings, "compression.type": codec}) for codec in _CODECS]
    written: list[Row] = []
    while len(written) < count:
        for producer in producers:
            for _ in range(choices.randrange(1, 60)):
                key = b"key-%d" % choices.randrange(400)
                value = None if choices.random() < 0.1 else b"%d-" % len(written) + b"value" * 8
                producer.produce(topic, value, key, partition=0)
                written.append((len(written), key, value))
            assert producer.flush(30) == 0  # so that offsets are in this order
    return written


def _survivors(written: list[Row], end_offset: int) -> list[Row]:
    """The last record of each key below an offset, and all from there on."""
    last = {key: offset for offset, key, _ in written if offset < end_offset}
    return [row for row in written if row[0] >= end_offset or last[row[1]] == row[0]]


def _segments(server: DrumlinServer, topic: str) -> list[Path]:
    folder = server.data / f"{topic}-0"
    return sorted(
        each for each in folder.iterdir() if each.suffix in (".log", ".index", ".timeindex")
    )


def _dump(files: list[Path]) -> str:
    said = run_tool(
        f"{_TOOLS}.DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, files))
    )
    for line in said.splitlines():
        # That offsets leave gaps it mentions too, as it does for Kafka's own compacted logs.
        assert not _TROUBLE.search(line.lower()), line
    return said


def _console(address: str, topic: str, *options: str) -> list[Row]:
    """What Kafka's console consumer prints."""
    shown = ("offset", "key")
    said = run_tool(
        f"{_TOOLS}.consumer.ConsoleConsumer",
        *("--bootstrap-server", address, "--topic", topic, "--from-beginning"),
        *(part for name in shown for part in ("--formatter-property", f"print.{name}=true")),
        *options,
    )
    rows = []
    for line in said.splitlines():
        if not line.startswith("Offset:"):
            continue  # that no more have come for a while
        offset, key, value = line.split("\t")
        data = None if value == "null" else value.encode()
        rows.append((int(offset.partition(":")[2]), key.encode(), data))
    return rows


def test_tools_and_consumers_find_the_same_records(cleaning: DrumlinServer) -> None:
    """All codecs in one log: Kafka's tool accepts its files, and all readers agree."""
    topic = "all-codecs"
    create(cleaning.address, topic)
    written = _write(cleaning.address, topic, 8000)
    cleaned_end = await_clean(cleaning.data, topic)["first_uncleanable_offset"]
    expected = _survivors(written, cleaned_end)
    assert len(expected) < len(written) / 2

    dumped = _dump(_segments(cleaning, topic))
    assert [int(each) for each in re.findall(r"\| offset: (\d+)", dumped)] == [
        offset for offset, _, _ in expected
    ]
    for codec in _CODECS:
        assert f"compresscodec: {codec}" in dumped
    assert read(cleaning.address, topic) == expected
    assert _console(cleaning.address, topic, "--max-messages", str(len(expected))) == expected


# -- the end of a log of which the last batch is empty -----------------------------------------


def _append_transactions(server: DrumlinServer, topic: str) -> int:
    """Behind a stopped broker's back: committed, aborted and plain records; the end offset.

    An aborted transaction comes last, and its segment is sealed.
    """
    meta = (server.data / "meta.properties").read_text()
    cluster_id = re.search("cluster.id=(.*)", meta)
    assert cluster_id is not None
    config = LogConfig(cleanup_policy=("compact",))
    logs = open_logs(server.data, config=config, cluster_id=cluster_id[1])
    log = logs.get(topic, 0)
    assert log is not None
    append(log, 20)
    for producer_id, commit in ((7, True), (8, False)):
        batch = from_producer(0, 5, producer_id=producer_id, is_transactional=True)
        log.append_as_leader(batch, 0, batch.header.max_timestamp)
        log.append_internal(marker(commit=commit, producer_id=producer_id), 0, 0)
    log.roll(batch.header.max_timestamp)
    end_offset = log.log_end_offset
    logs.close()
    return end_offset


def _ends_empty(server: DrumlinServer, topic: str) -> bool:
    """Whether there are no records in the last batch of the sealed segments."""
    sealed = sorted((server.data / f"{topic}-0").glob("*.log"))[:-1]
    *_, (_, last) = iterate_headers(sealed[-1].read_bytes())
    return last.record_count == 0


def _clean_now(server: DrumlinServer, topic: str) -> None:
    command = [sys.executable, "-m", "drumlin", "compaction", "run", topic]
    subprocess.run([*command, "--data", str(server.data)], check=True, timeout=60)


@pytest.mark.deep
def test_consumers_come_to_the_end_behind_a_marker_that_is_gone(tmp_path: Path) -> None:
    """What is left of the last marker is an empty batch, which no client may stumble over."""
    topic, group = "vanished", "console"
    with closing(DrumlinServer(tmp_path, _SETTINGS | _FORGETFUL)) as server:
        server.start()
        # Nothing is dirty enough but by request: producers are forgotten first.
        create(server.address, topic, delete_retention_ms="0", min_cleanable_dirty_ratio="1")
        server.stop()
        end_offset = _append_transactions(server, topic)
        # First the records go, then what was kept of them for as long as their producer might
        # come back, then the marker is dated, then it goes. Each time all of the log is cleaned.
        for _ in range(10):
            if _ends_empty(server, topic):
                break
            (server.data / "cleaner-offset-checkpoint").unlink(missing_ok=True)
            server.start()
            _clean_now(server, topic)
            server.stop()
        server.start()

        dumped = _dump(_segments(server, topic))
        assert "endTxnMarker: ABORT" not in dumped
        assert f"lastOffset: {end_offset - 1} count: 0" in dumped
        found = read(server.address, topic)
        # Committed records are the last of keys 0 to 4.
        assert [offset for offset, _, _ in found] == [*range(5, 20), *range(20, 25)]
        java = ("--group", group, "--timeout-ms", "3000", "--isolation-level", "read_committed")
        assert _console(server.address, topic, *java) == found
        about = ("--bootstrap-server", server.address, "--group", group, "--describe")
        described = run_tool(f"{_TOOLS}.consumer.group.ConsumerGroupCommand", *about)
        assert re.search(rf"{topic}\s+0\s+{end_offset}\s+{end_offset}\s+0\s", described), described
        server.stop()
        server.check_output()


@pytest.mark.deep
def test_log_compaction_tester(cleaning: DrumlinServer) -> None:
    """Kafka's own test of a cleaner: what it writes and what it reads, key by key."""
    said = run_alone(
        f"{_TOOLS}.LogCompactionTester",
        *("--bootstrap-server", cleaning.address, "--compression-type", "lz4"),
        *("--messages", str(_TESTER_MESSAGES), "--duplicates", "10"),
        *("--percent-deletes", "10"),
        *("--sleep", "2"),
        timeout_s=1200,
    )
    assert "0 mismatches" in said
    assert "Data verification is completed" in said
    topic = re.search(r"log-cleaner-test-\S+", said)
    assert topic is not None
    assert await_clean(cleaning.data, topic[0])["last_cleaning"]["superseded"] > 0
