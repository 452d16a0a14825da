"""Brokers tell from where on states are exact; where they don't, a log without gaps does."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import drumlin
from drumlin import lowlevel
from drumlin.client.client import Client
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.data.compacted_topic import COMPACTED, alter, await_clean
from rig.waiting import wait_until

KEYS = 300


def value_of(number: int) -> bytes:
    return b"%d" % number * 40


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    with running_server(
        tmp_path_factory.mktemp("states"), {"log.cleaner.backoff.ms": "100"}
    ) as server:
        yield server


@pytest.fixture
def states_client(broker: DrumlinServer) -> Iterator[Client]:
    with drumlin.connect(broker.address, request_timeout_ms=20_000) as client:
        yield client


def write(client: Client, topic: str, rounds: int) -> int:
    """Every key once a round; the end of the log."""
    for number in range(rounds):
        rows = [{"key": b"%d" % key, "value": value_of(number)} for key in range(KEYS)]
        client.append(rows, topic)
    return client.offsets(topic)[0]


def test_a_log_that_was_cleaned(broker: DrumlinServer, states_client: Client) -> None:
    client, topic = states_client, f"cleaned-{uuid.uuid4().hex[:8]}"
    client.create_topic(topic, 1, configs=COMPACTED)
    assert lowlevel.exact_from(client, topic) == {0: 0}
    end_offset = write(client, topic, 10)
    await_clean(broker.data, topic)
    exact_from = lowlevel.exact_from(client, topic)[0]
    assert 0 < exact_from <= end_offset
    place = (topic, 0)
    claims = lowlevel.claim_states(client, {place: end_offset}, is_now=True)
    lowlevel.confirm_states(client, claims)
    early = lowlevel.claim_states(client, {place: exact_from - 1})
    assert early[place].needs_all
    with pytest.raises(drumlin.RecordsMissing, match=f"{topic}.* partition 0"):
        list(client.read_range(topic, 0, 0, exact_from - 1, without_gaps=True))
    with pytest.raises(drumlin.StateNotExact, match=f"exact state is at {exact_from}"):
        client.snapshot(topic, at={0: exact_from - 1})
    assert client.snapshot(topic, at={0: exact_from - 1}, allow_inexact=True).num_rows < KEYS
    for at in (exact_from, end_offset - 1, end_offset):
        assert values(client.snapshot(topic, at={0: at})) == state(at)
    begun = client.snapshot_batches(topic)
    replays = [
        lowlevel.replay_state(client, topic, 0, ["key", "value"], memory_bytes=1) for _ in range(2)
    ]
    assert {key: value for each in replays.pop() for key, value in values(each).items()} == values(
        client.snapshot(topic)
    )
    write(client, topic, 10)
    await_clean(broker.data, topic)
    with pytest.raises(drumlin.StateNotExact, match="overtaken"):
        lowlevel.confirm_states(client, claims)
    with pytest.raises(drumlin.StateNotExact, match="overtaken"):
        next(begun)
    with pytest.raises(drumlin.StateNotExact, match="overtaken"):
        list(replays.pop())


def state(end_offset: int) -> dict[bytes, bytes]:
    """Of the first records that were written."""
    written = range(end_offset)
    return {b"%d" % (each % KEYS): value_of(each // KEYS) for each in written}


def values(rows: pa.Table) -> dict[bytes, bytes]:
    return dict(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))


def test_a_tombstone_that_goes_before_a_slow_reader_gets_to_it(
    broker: DrumlinServer, states_client: Client
) -> None:
    """As in a query whose tasks read one part of a log before two cleanings, another after them."""
    client, topic = states_client, f"slow-{uuid.uuid4().hex[:8]}"
    kept = {"cleanup.policy": "delete", "retention.ms": "-1", "delete.retention.ms": "0"}
    client.create_topic(topic, 1, configs=COMPACTED | kept)
    for value in (b"value", None):
        client.append([{"key": b"doomed", "value": value}], topic)
        write(client, topic, 2)
    end_offset = client.offsets(topic)[0]
    claims = lowlevel.claim_states(client, {(topic, 0): end_offset}, is_now=True)
    alter(broker.address, topic, {"cleanup.policy": "compact"})
    await_clean(broker.data, topic)
    lowlevel.confirm_states(
        client, claims
    )  # nothing that was there when reading began has lost its tombstone
    client.append([{"key": b"large", "value": os.urandom(19_900)}], topic)  # in a new segment
    wait_until(
        lambda: lowlevel.exact_from(client, topic)[0] == end_offset,
        "the last segment to be cleaned",
    )
    await_clean(broker.data, topic)
    with pytest.raises(drumlin.StateNotExact, match="tombstones may have been removed"):
        lowlevel.confirm_states(client, claims)
    now = client.snapshot(topic, at={0: end_offset})["key"].to_pylist()
    assert len(now) == KEYS
    assert b"doomed" not in now


def test_records_that_were_deleted(broker: DrumlinServer, states_client: Client) -> None:
    client, topic = states_client, f"deleted-{uuid.uuid4().hex[:8]}"
    client.create_topic(topic, 1, configs={"retention.ms": -1})
    end_offset = write(client, topic, 1)
    place = (topic, 0)
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.address})
    for each in admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        each.result(20)
    assert lowlevel.exact_from(client, topic) == {0: end_offset}
    with pytest.raises(drumlin.StateNotExact) as caught:
        lowlevel.claim_states(client, {place: 7})
    assert caught.value.exact_from == end_offset
    assert lowlevel.claim_states(client, {place: 7}, allow_inexact=True)[place].basis == "inexact"


def test_all_records_and_markers_are_there(client: Client, topic: str) -> None:
    """Of any broker: markers and aborted records are no gaps."""
    for commits in (True, False):
        with client.transaction(f"states-{topic}") as transaction:
            transaction.append([{"key": b"k", "value": b"v"}], topic)
            if not commits:
                transaction.abort()
    client.append([{"key": b"k", "value": b"w"}], topic)
    ends = client.offsets(topic)
    (partition,) = (each for each, end_offset in ends.items() if end_offset)
    end_offset = ends[partition]
    options = {"isolation": "read_committed", "without_gaps": True}
    read = [
        value
        for batch in client.read_range(topic, partition, 0, end_offset, **options)  # type: ignore[arg-type]
        for value in batch["value"].to_pylist()
    ]
    assert read == [b"v", b"w"]
    claims = lowlevel.claim_states(client, {(topic, partition): end_offset}, is_now=True)
    lowlevel.confirm_states(client, claims)


def test_a_crash_leaves_what_is_complete(tmp_path: Path) -> None:
    """A killed broker does not know what it has cleaned; a log without gaps is exact anyway."""
    server = DrumlinServer(tmp_path)
    try:
        server.start()
        with drumlin.connect(server.address) as client:
            client.create_topic("t", 1, configs={"cleanup.policy": "compact"})
            end_offset = write(client, "t", 1)
        server.kill()
        server.start()
        with drumlin.connect(server.address) as client:
            assert lowlevel.exact_from(client, "t") == {0: end_offset}
            assert lowlevel.claim_states(client, {("t", 0): 7})["t", 0].needs_all
            assert len(list(client.read_range("t", 0, 0, 7, without_gaps=True))) > 0
        server.stop()
        server.start()
        with drumlin.connect(server.address) as client:
            assert lowlevel.exact_from(client, "t") == {0: end_offset}
    finally:
        server.close()
