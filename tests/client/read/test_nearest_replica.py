"""Reading from a replica that is near (KIP-392): while it serves, and when it fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import drumlin
from drumlin.client.read.nearest_replica import NearestReplica
from drumlin.client.read.range_stream import OffsetRange
from drumlin.client.read.reader import ReadOptions, read_ranges
from drumlin.records.batch.batch import assign_offsets
from drumlin.records.plain.record import Record, encode_batch
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from rig.brokers.scripted_broker import CloseConnection, ScriptedBroker, Silence
from rig.data.messages import Shape

LEADER, FOLLOWER = 1, 2
BATCHES = 5  # of ten records, one a fetch


def batch(index: int) -> bytes:
    records = [Record(index * 10 + each, 0, None, b"v") for each in range(10)]
    buffer = encode_batch(records, base_offset=index * 10)
    assign_offsets(buffer, 0, index * 10, 0)
    return bytes(buffer)


def answer(shape: Shape, records: bytes, preferred: int, code: ErrorCode) -> Any:
    partition = shape(
        "PartitionData",
        partition_index=0,
        error_code=code,
        high_watermark=BATCHES * 10,
        last_stable_offset=BATCHES * 10,
        aborted_transactions=None,
        preferred_read_replica=preferred,
        records=records,
    )
    topic = shape("FetchableTopicResponse", topic="t", partitions=(partition,))
    return shape("FetchResponse", throttle_time=ZERO, error_code=ErrorCode.none, responses=(topic,))


def records_of(shape: Shape, request: Any) -> Any:
    offset = request.topics[0].partitions[0].fetch_offset
    return answer(shape, batch(offset // 10), -1, ErrorCode.none)


def leads(shape: Shape, request: Any) -> Any:
    """Sends clients of rack b to the follower, and answers the others."""
    if request.rack_id == "b":
        return answer(shape, b"", FOLLOWER, ErrorCode.none)
    return records_of(shape, request)


@pytest.fixture
def leader() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}, LEADER) as broker:
        broker.script("fetch", leads)
        yield broker


@pytest.fixture
def follower(leader: ScriptedBroker) -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}, FOLLOWER) as broker:
        broker.script("fetch", records_of)
        leader.brokers[FOLLOWER] = broker.port
        yield broker


def read(broker: ScriptedBroker, rack: str) -> list[int]:
    with drumlin.connect(broker.address, client_rack=rack, request_timeout_ms=2_000) as client:
        batches = client.read_range("t", 0, 0, BATCHES * 10)
        return [offset for each in batches for offset in each.column("offset").to_pylist()]


def test_the_replica_that_the_leader_names_is_read(
    leader: ScriptedBroker, follower: ScriptedBroker
) -> None:
    assert read(leader, "b") == list(range(BATCHES * 10))
    assert len(leader.asked("fetch")) == 1
    assert len(follower.asked("fetch")) == BATCHES


@pytest.mark.parametrize("rack", ["", "a"])
def test_others_read_from_the_leader(
    leader: ScriptedBroker, follower: ScriptedBroker, rack: str
) -> None:
    assert read(leader, rack) == list(range(BATCHES * 10))
    assert {each.rack_id for each in leader.asked("fetch")} == {rack}
    assert follower.asked("fetch") == []


def test_only_the_leader_is_read_where_that_is_wanted(
    leader: ScriptedBroker, follower: ScriptedBroker
) -> None:
    ranges = [OffsetRange("t", 0, 0, BATCHES * 10)]
    with drumlin.connect(leader.address, client_rack="b", request_timeout_ms=2_000) as client:
        thread, connections = client._thread, client._connections
        batches = list(read_ranges(thread, connections, ranges, ReadOptions(), leaders_only=True))
    assert sum(batch.num_rows for batch in batches) == BATCHES * 10
    assert {each.rack_id for each in leader.asked("fetch")} == {""}
    assert follower.asked("fetch") == []


@pytest.mark.parametrize(
    "trouble",
    [
        lambda shape, _: answer(shape, b"", -1, ErrorCode.none),
        lambda shape, _: answer(shape, b"", -1, ErrorCode.offset_out_of_range),
        lambda shape, _: answer(shape, b"", -1, ErrorCode.not_leader_or_follower),
        lambda shape, _: answer(shape, b"", -1, ErrorCode.unknown_topic_or_partition),
        lambda *_: CloseConnection(),
        lambda *_: Silence(),
    ],
    ids=["lags", "behind", "no replica", "unknown", "closed", "silent"],
)
def test_the_leader_is_read_when_the_replica_fails(
    leader: ScriptedBroker, follower: ScriptedBroker, trouble: Any
) -> None:
    follower.script("fetch", records_of, records_of, trouble)
    assert read(leader, "b") == list(range(BATCHES * 10))
    assert len(follower.asked("fetch")) == 3
    assert [each.rack_id for each in leader.asked("fetch")] == ["b", "", "", ""]


def test_a_replica_that_is_not_there(leader: ScriptedBroker) -> None:
    assert read(leader, "b") == list(range(BATCHES * 10))


def test_the_leader_is_asked_again_after_a_while() -> None:
    now = [0.0]
    nearest = NearestReplica("b", lambda: now[0])
    assert (nearest.node_id, nearest.rack) == (None, "b")
    nearest.follow(7)
    assert (nearest.node_id, nearest.rack) == (7, "b")
    now[0] = 300.0
    assert (nearest.node_id, nearest.rack) == (None, "b")
    nearest.follow(7)
    nearest.give_up()
    assert (nearest.node_id, nearest.rack) == (None, "")
    now[0] = 330.0
    assert (nearest.node_id, nearest.rack) == (None, "b")
