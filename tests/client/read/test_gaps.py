"""Offsets that hold nothing: compacted away, markers, empty batches. And broken fetches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.client.errors import BrokerUnreachable, CorruptData, LogEndsEarly, OffsetOutOfRange
from drumlin.client.read import range_stream
from drumlin.client.read.fetch_memory import FetchMemory
from drumlin.client.read.range_stream import OffsetRange, RangeStream
from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.options import PeerOptions
from drumlin.peer.retry import Deadline
from drumlin.records.batch.batch import (
    CONTROL_MASK,
    TRANSACTIONAL_MASK,
    parse_header,
    seal,
    write_header,
)
from drumlin.records.plain.record import Record, encode_batch
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from rig.brokers.scripted_broker import CloseConnection, ScriptedBroker
from rig.data.messages import Shape
from rig.time.worked_time import WorkedTime

ABORT_MARKER = Record(0, 0, b"\x00\x00\x00\x00", bytes(6))
COMMIT_MARKER = Record(0, 0, b"\x00\x00\x00\x01", bytes(6))


def batch(first: int, last: int, present: list[int], **fields: Any) -> bytes:
    """A batch that spans `first` to `last`, of which only some records are left."""
    records = [Record(offset, 0, None, b"%d" % offset) for offset in present]
    buffer = encode_batch(records or [Record(first, 0, None, None)], base_offset=first)
    header = parse_header(buffer)._replace(last_offset_delta=last - first, **fields)
    if not present:
        del buffer[61:]
        header = header._replace(record_count=0, batch_length=61 - 12)
    write_header(buffer, 0, header)
    seal(buffer, 0, len(buffer))
    return bytes(buffer)


def marker(offset: int, producer_id: int, record: Record) -> bytes:
    buffer = encode_batch([record], base_offset=0)
    header = parse_header(buffer)._replace(
        base_offset=offset, producer_id=producer_id, attributes=CONTROL_MASK | TRANSACTIONAL_MASK
    )
    write_header(buffer, 0, header)
    seal(buffer, 0, len(buffer))
    return bytes(buffer)


class Log:
    """Serves batches by fetch offset, one a response, as a broker would."""

    def __init__(self, broker: ScriptedBroker, batches: list[bytes], end_offset: int) -> None:
        self.batches = batches
        self.start_offset = 0
        self.end_offset = end_offset
        self.aborted: list[tuple[int, int]] = []
        self.fetched: list[int] = []
        broker.script("fetch", self.fetch)
        broker.script("list_offsets", self.list_offsets)

    def fetch(self, shape: Shape, request: Any) -> Any:
        offset = request.topics[0].partitions[0].fetch_offset
        self.fetched.append(offset)
        found = next((each for each in self.batches if parse_header(each).end_offset > offset), b"")
        return fetch_response(shape, found, self.end_offset, aborted=self.aborted)

    def list_offsets(self, shape: Shape, request: Any) -> Any:
        topics = [
            shape(
                "ListOffsetsTopicResponse",
                name=topic.name,
                partitions=tuple(
                    shape(
                        "ListOffsetsPartitionResponse",
                        partition_index=each.partition_index,
                        error_code=ErrorCode.none,
                        offset=self.start_offset if each.timestamp == -2 else self.end_offset,
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ]
        return shape("ListOffsetsResponse", throttle_time=ZERO, topics=tuple(topics))


def fetch_response(
    shape: Shape,
    records: bytes,
    end_offset: int,
    code: ErrorCode = ErrorCode.none,
    aborted: list[tuple[int, int]] | None = None,
) -> Any:
    partition = shape(
        "PartitionData",
        partition_index=0,
        error_code=code,
        high_watermark=end_offset,
        last_stable_offset=end_offset,
        log_start_offset=0,
        aborted_transactions=tuple(
            shape("AbortedTransaction", producer_id=producer_id, first_offset=first)
            for producer_id, first in aborted or ()
        ),
        records=records,
    )
    topic = shape("FetchableTopicResponse", topic="t", partitions=(partition,))
    return shape("FetchResponse", throttle_time=ZERO, error_code=ErrorCode.none, responses=(topic,))


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}) as broker:
        yield broker


@pytest.fixture
def client(broker: ScriptedBroker) -> Iterator[Client]:
    options = {"request_timeout_ms": 1_000, "retry_backoff_ms": 2}
    with drumlin.connect(broker.address, **options) as client:
        yield client


def offsets(client: Client, **options: Any) -> list[int]:
    found: list[int] = client.read("t", **options)["offset"].to_pylist()
    return found


def test_compacted_offsets_are_passed_over(broker: ScriptedBroker, client: Client) -> None:
    log = Log(broker, [batch(0, 9, [3, 9]), batch(10, 19, []), batch(40, 49, [41, 44])], 60)
    assert offsets(client, end=50) == [3, 9, 41, 44]
    assert log.fetched[:3] == [0, 10, 20]
    assert offsets(client, start=5, end=44) == [9, 41]


def test_a_range_that_ends_in_a_gap(broker: ScriptedBroker, client: Client) -> None:
    Log(broker, [batch(0, 9, [3]), batch(40, 49, [41])], 50)
    assert offsets(client, end=30) == [3]


def test_markers_at_the_end_of_the_log(broker: ScriptedBroker, client: Client) -> None:
    data = batch(0, 2, [0, 1, 2], producer_id=7, attributes=TRANSACTIONAL_MASK)
    log = Log(broker, [data, marker(3, 7, COMMIT_MARKER)], 4)
    assert offsets(client) == [0, 1, 2]
    assert log.fetched == [0, 3]


def test_aborted_records_are_left_out_of_committed_reads(
    broker: ScriptedBroker, client: Client
) -> None:
    aborted = batch(0, 2, [0, 1, 2], producer_id=7, attributes=TRANSACTIONAL_MASK)
    other = batch(3, 4, [3, 4], producer_id=8, attributes=TRANSACTIONAL_MASK)
    later = batch(6, 6, [6], producer_id=7, attributes=TRANSACTIONAL_MASK)
    log = Log(broker, [aborted + other + marker(5, 7, ABORT_MARKER) + later], 7)
    assert offsets(client) == [0, 1, 2, 3, 4, 6]
    log.aborted = [(7, 0)]
    assert offsets(client, isolation="read_committed") == [3, 4, 6]
    levels = [each.isolation_level for each in broker.asked("fetch")]
    assert levels == [0, 1]


def test_a_batch_that_is_cut_off_is_fetched_again(broker: ScriptedBroker, client: Client) -> None:
    log = Log(broker, [batch(0, 4, [0, 4]) + batch(5, 9, [5, 9])[:-10], batch(5, 9, [5, 9])], 10)
    assert offsets(client) == [0, 4, 5, 9]
    assert log.fetched == [0, 5]


def test_the_time_of_a_slow_reader_is_not_taken_from_the_logs(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that was just elected gives nothing for a moment, whenever that is asked for."""
    patience_ms = 60_000
    clock = WorkedTime(monkeypatch)
    monkeypatch.setattr(range_stream, "Deadline", partial(Deadline, clock=clock.monotonic))
    log = Log(broker, [batch(0, 9, list(range(10)))], 10)

    async def read() -> None:
        options = PeerOptions(call_timeout_ms=patience_ms)
        connections = BrokerConnections(parse_bootstrap(broker.address), options)
        memory = FetchMemory(16 << 20)
        other = memory.share()
        await other.wait_to_fetch(48 << 20)
        wanted = OffsetRange("t", 0, 0, 10)
        stream = RangeStream(connections, wanted, "read_uncommitted", 1 << 20, memory)
        stream.begin()
        for _ in range(10):
            await asyncio.sleep(0)
        clock.work(patience_ms / 1000 + 1)
        assert log.fetched == [], "the memory is taken"
        broker.script("fetch", lambda shape, _: fetch_response(shape, b"", 0), log.fetch)
        other.give_up()
        piece = await stream.next()
        assert piece is not None
        assert len(piece.records) > 0
        stream.close()
        await connections.close()

    asyncio.run(read())


def test_a_log_that_is_shorter_than_it_was(broker: ScriptedBroker, client: Client) -> None:
    Log(broker, [batch(0, 4, [0, 4])], 10)
    with pytest.raises(LogEndsEarly, match="nothing readable at offset 5, expected up to 10"):
        offsets(client)


Answer = Callable[[Shape, Any], Any]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda shape, request: CloseConnection(), id="closed"),
        pytest.param(lambda shape, request: CloseConnection(b"\x00\x10\x00\x00half"), id="cut"),
        pytest.param(
            lambda shape, request: fetch_response(shape, b"", 0, ErrorCode.not_leader_or_follower),
            id="not leader",
        ),
        pytest.param(
            lambda shape, request: fetch_response(shape, b"", 0, ErrorCode.offset_not_available),
            id="not available",
        ),
    ],
)
def test_what_may_pass_is_tried_again(
    broker: ScriptedBroker, client: Client, fault: Answer
) -> None:
    log = Log(broker, [batch(0, 4, [0, 4]), batch(5, 9, [5])], 10)
    broker.script("fetch", log.fetch, fault, fault, log.fetch)
    assert offsets(client) == [0, 4, 5]


def test_out_of_range_in_the_middle_names_the_range(broker: ScriptedBroker, client: Client) -> None:
    log = Log(broker, [batch(0, 4, [0, 4])], 10)

    def gone(shape: Shape, request: Any) -> Any:
        return fetch_response(shape, b"", 0, ErrorCode.offset_out_of_range)

    broker.script("fetch", log.fetch, gone)
    with pytest.raises(OffsetOutOfRange, match=r"'t' partition 0: offset 5 .* 0 to 10"):
        offsets(client)


def test_a_broker_that_stays_away(broker: ScriptedBroker, client: Client) -> None:
    Log(broker, [], 10)
    broker.script("fetch", lambda shape, request: CloseConnection())
    with pytest.raises(BrokerUnreachable, match=broker.address):
        offsets(client)


def test_damaged_records_are_not_passed_on(broker: ScriptedBroker, client: Client) -> None:
    damaged = bytearray(batch(0, 4, [0, 4]))
    damaged[-1] ^= 1
    Log(broker, [bytes(damaged)], 5)
    with pytest.raises(CorruptData, match=r"'t' partition 0: .*CRC"):
        offsets(client)
