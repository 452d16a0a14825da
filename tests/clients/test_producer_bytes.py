"""Our producer's batches are, byte by byte, those of librdkafka and of Java for the same records.

What two producers cannot have in common, producer id and epoch, is made equal before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import confluent_kafka
import pytest

import drumlin
from crash.requests import fetch
from drumlin import lowlevel
from drumlin.client.client import Client
from drumlin.client.write.writer import Writer
from drumlin.records.batch.batch import (
    BatchHeader,
    iterate_headers,
    parse_header,
    seal,
    write_header,
)
from drumlin.records.plain.record import Record, decode_batch
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.raw import RawClient
from rig.servers.apache_kafka import kafka_classpath, run_tool
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

pytestmark = pytest.mark.clients

Name = Callable[[str], str]
_TIMEOUT_S = 20.0
_NEVER_MS = 1_000_000
_START_MS = 1_700_000_000_000

#: By transaction, by batch.
RECORDS = [
    [
        [
            Record(0, _START_MS, b"key", b"value", (("h", b"x"), ("empty", b""), ("none", None))),
            Record(1, _START_MS + 5, None, b""),
            Record(2, _START_MS - 70_000, b"", None),
        ],
        [Record(0, _START_MS + 9, "kéy".encode(), b"v" * 1_000)],
    ],
    [[Record(each, _START_MS + each * each, b"%d" % each, b"again") for each in range(40)]],
]


@pytest.fixture
def client(bootstrap: str) -> Iterator[Client]:
    with drumlin.connect(bootstrap) as client:
        yield client


def batches(server: DrumlinServer, topic: str) -> list[bytes]:
    """What producers have written, without markers; the first in the log becomes producer 1."""
    found: list[bytes] = []
    offset = 0
    with RawClient(server.port) as raw:
        while data := bytes(fetch(raw, topic, offset).records or b""):
            for position, header in iterate_headers(data):
                offset = header.end_offset
                if not header.is_control:
                    found.append(_normal(data[position : position + header.size]))
    return found


def _normal(batch: bytes) -> bytes:
    """Offsets are the log's; ids and epochs are given by the broker."""
    buffer = bytearray(batch)
    header = parse_header(buffer)._replace(
        base_offset=0, leader_epoch=0, producer_id=1, producer_epoch=0
    )
    write_header(buffer, 0, header)
    seal(buffer, 0, len(buffer))
    return bytes(buffer)


def write(writer: Writer, records: Sequence[Record]) -> None:
    for each in records:
        writer.send(each.value, each.key, each.headers, each.timestamp, partition=0)
    writer.flush()


def write_ours(
    client: Client, topic: str, name: str | None, wanted: Sequence[Sequence[Sequence[Record]]]
) -> None:
    options: dict[str, Any] = {"linger_ms": _NEVER_MS, "batch_bytes": 1 << 20}
    if name is None:
        with client.writer(topic, **options) as writer:
            for part in wanted:
                for records in part:
                    write(writer, records)
        return
    transaction = client.transaction(name)
    for part in wanted:
        if transaction.state == "committed":
            transaction = lowlevel.following(transaction)
        with transaction, transaction.writer(topic, **options) as writer:
            for records in part:
                write(writer, records)


def write_by_librdkafka(bootstrap: str, topic: str, name: str | None) -> None:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "linger.ms": 30_000,
    }
    if name is not None:
        settings["transactional.id"] = name
    producer = confluent_kafka.Producer(settings)
    if name is not None:
        producer.init_transactions(_TIMEOUT_S)
    for part in RECORDS:
        if name is not None:
            producer.begin_transaction()
        for records in part:
            for each in records:
                producer.produce(
                    topic,
                    each.value,
                    each.key,
                    partition=0,
                    timestamp=each.timestamp,
                    headers=list(each.headers),
                )
            assert producer.flush(_TIMEOUT_S) == 0
        if name is not None:
            producer.commit_transaction(_TIMEOUT_S)


@pytest.mark.parametrize("is_transactional", [False, True], ids=["idempotent", "transactional"])
def test_as_librdkafka(
    server: DrumlinServer, client: Client, unique: Name, is_transactional: bool
) -> None:
    theirs, ours = unique("theirs"), unique("ours")
    for topic in (theirs, ours):
        client.create_topic(topic, 1)
    name = unique("id") if is_transactional else None
    write_by_librdkafka(server.address, theirs, name and f"{name}-theirs")
    write_ours(client, ours, name, RECORDS)
    expected = batches(server, theirs)
    assert [len(decode_batch(each)) for each in expected] == [3, 1, 40]
    assert _headers(batches(server, ours)) == _headers(expected)
    assert batches(server, ours) == expected
    assert [each.base_sequence for each in _headers(expected)] == [0, 3, 4]
    assert {each.is_transactional for each in _headers(expected)} == {is_transactional}


@pytest.mark.kafka
@pytest.mark.parametrize("is_transactional", [False, True], ids=["idempotent", "transactional"])
def test_as_java(
    server: DrumlinServer, client: Client, unique: Name, is_transactional: bool
) -> None:
    with skipped_where_unavailable():
        kafka_classpath()
    theirs, ours = unique("theirs"), unique("ours")
    for topic in (theirs, ours):
        client.create_topic(topic, 1)
    name = unique("id") if is_transactional else None
    transactional = ("--transactional-id", f"{name}-theirs", "--transaction-duration-ms", "600000")
    run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", theirs, "--num-records", "300", "--record-size", "100", "--throughput", "-1"),
        *("--bootstrap-server", server.address),
        *("--command-property", "batch.size=2000"),
        *(transactional if is_transactional else ()),
    )
    wait_until(lambda: len(_records(batches(server, theirs))) == 300, "Java's records", _TIMEOUT_S)
    expected = batches(server, theirs)
    assert len(expected) > 5
    write_ours(client, ours, name, [[decode_batch(each) for each in expected]])
    assert _headers(batches(server, ours)) == _headers(expected)
    assert batches(server, ours) == expected
    assert {each.is_transactional for each in _headers(expected)} == {is_transactional}


def _headers(found: Sequence[bytes]) -> list[BatchHeader]:
    return [parse_header(each) for each in found]


def _records(found: Sequence[bytes]) -> list[Record]:
    return [record for each in found for record in decode_batch(each)]
