"""Produce requests, read in place and answered by one pack, beside a twin that does neither."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from broker.answers import answer_of, content_of
from broker.in_process import running
from broker.producing import produce_twin
from broker.sessions import SESSION
from drumlin.broker.handlers import produce as handler
from drumlin.broker.router import Router
from drumlin.broker.start.broker import Broker
from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.clock import ManualClock
from drumlin.metadata.image import Resource, ResourceType
from drumlin.records.batch.batch import parse_header
from drumlin.records.validation.validation import PreparedBatch
from drumlin.replication.partition import Partition
from drumlin.storage.producers.producer_state import TransactionMarker
from drumlin.turns import TURN_S
from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.messages import encode_request
from rig.data.batches import Batch, Rec, batch
from rig.data.messages import build

NOW_MS = 1_700_000_000_000
CONFIGS = [
    ("flush.messages", "1"),
    ("flush.messages", None),
    ("message.timestamp.type", "LogAppendTime"),
    ("message.timestamp.type", None),
    ("compression.type", "zstd"),
    ("compression.type", "uncompressed"),
    ("compression.type", None),
    ("max.message.bytes", "90"),
    ("max.message.bytes", None),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", None),
]


def request(
    api: str, version: int, number: int = 1, client_id: str | None = "c", **fields: Any
) -> bytes:
    """A frame without its length prefix; `number` is its correlation id."""
    message = build(api, version, fields)
    return b"".join(encode_request(api, version, number, client_id, message))[4:]


def produce(
    version: int = 9,
    topic: str = "t0",
    topic_id: UUID | None = None,
    partition: int = 0,
    records: bytes | None = None,
    acks: int = 1,
    timeout: int = 1000,
    transactional_id: str | None = None,
    client_id: str | None = "c",
    number: int = 1,
) -> bytes:
    parts = [{"index": partition, "records": batch(b"x") if records is None else records}]
    data = [{"name": topic, "topic_id": topic_id, "partition_data": parts}]
    fields = {"acks": acks, "timeout": timeout, "topic_data": data}
    fields["transactional_id"] = transactional_id
    return request("produce", version, number, client_id, **fields)


def a_batch(chance: random.Random, sequence: int) -> bytes | None:
    timestamp = chance.choice([NOW_MS, 0, -1, 2**62, NOW_MS + 10**12])
    match chance.randrange(10):
        case 0:
            return b""
        case 1:
            return batch(b"x", timestamp=NOW_MS, crc=1)
        case 2:
            return batch(b"x", timestamp=NOW_MS, extra_attributes=chance.choice([8, 16, 32, 64]))
        case 3:
            return batch(b"x", timestamp=NOW_MS) * 2
        case 4:
            return Batch((Rec(key=b"k"), Rec(key=None)), timestamp=NOW_MS).encode()
        case 5:
            codec = chance.choice(["gzip", "snappy", "lz4", "zstd"])
            return batch(b"y" * chance.randrange(200), timestamp=NOW_MS, codec=codec)
        case 6 | 7:
            producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence}
            return batch(b"p", timestamp=timestamp, **producer)
        case _:
            return batch(b"z" * chance.randrange(300), timestamp=timestamp)


def damaged(chance: random.Random, frame: bytes) -> bytes:
    match chance.randrange(6):
        case 0:
            return frame + bytes(chance.randrange(4))
        case 1:
            return frame[: -chance.randrange(1, 5)]
        case 2:  # tagged fields, of the request, or of the last partition
            return frame[:-1] + b"\x01\x00\x03abc"
        case 3:
            return frame[:-3] + b"\x01\x05\x02ab\x00\x00"
        case _:
            position = chance.randrange(4, len(frame))
            return frame[:position] + bytes([chance.randrange(256)]) + frame[position + 1 :]


class Side:
    """A broker without sockets: frames in, answers out."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._router = Router(broker)
        self._connection: Any = SimpleNamespace(
            closed=False, session=SESSION, peer_host="127.0.0.1", counts=ListenerCounts()
        )

    async def ask(self, frame: bytes) -> bytes | str | None:
        """The answer of the broker itself."""
        try:
            started = self._router.dispatch(self._connection, memoryview(bytearray(frame)))
            parts = await answer_of(started)
        except MalformedMessage:
            return "closed"
        return None if parts is None else content_of(parts)

    def ask_twin(self, frame: bytes) -> bytes | str | None:
        """The answer of the simple way, in the same logs."""
        try:
            return produce_twin.answer(self.broker, frame)
        except MalformedMessage as error:
            return "not utf-8" if isinstance(error.__cause__, UnicodeDecodeError) else "closed"

    async def create(self, topic: str, topic_id: UUID) -> None:
        await self.broker.metadata.create_topic(topic, [[1], [1]], {}, topic_id)

    async def delete(self, topic: str) -> None:
        await self.broker.metadata.delete_topic(self.broker.metadata.image.topics[topic].topic_id)

    async def configure(self, topic: str, key: str, value: str | None) -> None:
        resource = Resource(ResourceType.TOPIC, topic)
        await self.broker.metadata.alter_configs(resource, lambda _: {key: value})

    def records(self) -> int:
        return sum(each.log_end_offset for each in self.broker.partitions)

    def logs(self) -> dict[str, bytes]:
        return {
            log.name: b"".join(path.read_bytes() for path in sorted(log.directory.glob("*.log")))
            for log in self.broker.logs
        }


def both(scenario: Callable[[Side, Side], Any], directory: Path) -> None:
    async def run() -> None:
        clock = ManualClock(NOW_MS)
        async with (
            running(directory / "one", clock=clock) as one,
            running(directory / "other", clock=clock) as other,
        ):
            await scenario(Side(one), Side(other))

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(3))
def test_random_requests_are_answered_and_stored_as_by_the_twin(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    stored = 0

    async def scenario(one: Side, other: Side) -> None:
        nonlocal stored
        ids = {}
        for topic in ("t0", "t1"):
            ids[topic] = UUID(int=chance.getrandbits(128))
            for side in (one, other):
                await side.create(topic, ids[topic])
        sequence = 0
        frame = produce()
        for number in range(600):
            topic = chance.choice(["t0", "t0", "t1"])
            match chance.randrange(60):
                case 0:
                    ids[topic] = UUID(int=chance.getrandbits(128))
                    for side in (one, other):
                        await side.delete(topic)
                        await side.create(topic, ids[topic])
                case 1 | 2:
                    key, value = chance.choice(CONFIGS)
                    for side in (one, other):
                        await side.configure(topic, key, value)
                case kind if kind < 50:
                    sequence += chance.choice([0, 0, 1, 1, 1, 2])
                    frame = random_request(chance, number, topic, ids[topic], sequence)
            frame = frame[:4] + number.to_bytes(4, "big") + frame[8:]
            if chance.random() < 0.1:
                frame = damaged(chance, frame)
            expected = other.ask_twin(frame)
            before = one.records()
            given = await one.ask(frame)
            stored += one.records() - before
            if expected != "not utf-8":  # to us it is some topic that does not exist
                assert given == expected, (number, frame)
        assert one.logs() == other.logs()

    both(scenario, tmp_path)
    assert stored > 100


def random_request(
    chance: random.Random, number: int, topic: str, topic_id: UUID, sequence: int
) -> bytes:
    """A request for up to three topics, with up to three partitions each."""
    version = chance.choice([*range(3, 14), 9, 13])
    data = []
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        parts = [
            {"index": chance.choice([0] * 10 + [1, 2, -1]), "records": a_batch(chance, sequence)}
            for _ in range(chance.choice([1, 1, 1, 2, 3, 0]))
        ]
        name = chance.choice([topic] * 20 + ["missing", "__consumer_offsets", ""])
        known = chance.choice([topic_id] * 20 + [UUID(int=1), None])
        data.append({"name": name, "topic_id": known, "partition_data": parts})
    fields = {
        "acks": chance.choice([1] * 20 + [-1, -1, 0, 2, -2]),
        "timeout": chance.choice([1000, 0]),
        "topic_data": data,
        "transactional_id": chance.choice([None] * 20 + ["tx", ""]),
    }
    client_id = chance.choice(["c"] * 20 + [None, "", "d"])
    return request("produce", version, number, client_id, **fields)


def test_many_partitions_are_answered_as_few_are(tmp_path: Path) -> None:
    """Read in a thread and appended in turns: the same answer, the same logs."""

    async def scenario(one: Side, other: Side) -> None:
        for side in (one, other):
            await side.create("t0", UUID(int=7))
        records = batch(b"x", timestamp=NOW_MS)
        parts = [{"index": each % 3, "records": records} for each in range(500)]
        topic = {"name": "t0", "topic_id": UUID(int=7), "partition_data": parts}
        for version in range(3, 14):
            frame = request("produce", version, acks=1, timeout=0, topic_data=[topic])
            assert await one.ask(frame) == other.ask_twin(frame)
        assert one.logs() == other.logs()
        fields = {"acks": 1, "timeout": 0, "topic_data": [topic] * 60}
        assert await one.ask(request("produce", 9, **fields)) == "closed"
        assert one.logs() == other.logs()

    both(scenario, tmp_path)


def test_large_batches_are_not_all_appended_in_one_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request of a hundred megabytes gives way between its batches."""

    async def scenario(one: Side, other: Side) -> None:
        for side in (one, other):
            await side.create("t0", UUID(int=7))
        records = batch(b"x", timestamp=NOW_MS)
        parts = [{"index": each % 2, "records": records} for each in range(20)]
        frame = request(
            "produce", 9, acks=1, timeout=0, topic_data=[{"name": "t0", "partition_data": parts}]
        )
        at_once: list[int] = []
        append = Partition.append_as_leader

        def slow(self: Partition, *arguments: Any) -> Any:
            at_once[-1] += 1
            ends_at = time.monotonic() + 0.6 * TURN_S
            while time.monotonic() < ends_at:
                pass
            return append(self, *arguments)

        async def count_turns() -> None:
            while True:
                at_once.append(0)
                await asyncio.sleep(0)

        monkeypatch.setattr(Partition, "append_as_leader", slow)
        counting = asyncio.create_task(count_turns())
        await asyncio.sleep(0)
        answer = await one.ask(frame)
        counting.cancel()
        monkeypatch.undo()
        assert answer == other.ask_twin(frame)
        assert max(at_once) <= 2
        assert one.logs() == other.logs()

    both(scenario, tmp_path)


def test_a_late_duplicate_is_answered_whatever_its_time(tmp_path: Path) -> None:
    producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    records = batch(b"x", timestamp=2**62, **producer)

    async def scenario(one: Side, other: Side) -> None:
        for twin in (one, other):
            await twin.create("t0", UUID(int=7))
            await twin.configure("t0", "message.timestamp.after.max.ms", str(2**63 - 1))
            for _ in range(3):
                answer = await twin.ask(produce(records=records))
                assert isinstance(answer, bytes)
                assert b"t0\x02\x00\x00\x00\x00\x00\x00" in answer  # partition 0, no error

    both(scenario, tmp_path)


def test_transactions_are_answered_and_stored_in_turns_as_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of a transaction that is open, and of none."""
    chance = random.Random(1)
    hits = 0

    def of_producer(epoch: int, sequence: int, attributes: int) -> bytes:
        return batch(
            b"x",
            timestamp=NOW_MS,
            producer_id=5,
            producer_epoch=epoch,
            base_sequence=sequence,
            extra_attributes=attributes,
        )

    async def scenario(one: Side, other: Side) -> None:
        nonlocal hits
        for twin in (one, other):
            await twin.create("t0", UUID(int=7))
        partitions = [twin.broker.partitions.get("t0", 0) for twin in (one, other)]
        states = [each.log.producer_state for each in partitions]
        for number in range(200):
            entry = states[0].get(5)
            epoch = 0 if entry is None else entry.producer_epoch
            sequence = 0 if entry is None else entry.last_sequence + 1
            if chance.random() < 0.1:
                for each in partitions:
                    each.append_marker(TransactionMarker(True, 0), 5, epoch, NOW_MS)
                opening = of_producer(epoch, sequence, 16)
                for each, state in zip(partitions, states, strict=True):
                    asked = state.begin_verification(
                        5, epoch, sequence, NOW_MS, supports_epoch_bump=False
                    )
                    buffer = memoryview(bytearray(opening))
                    prepared = PreparedBatch(buffer, parse_header(buffer))
                    each.append_as_leader(prepared, 1, NOW_MS, asked)
                sequence += 1
            sequence = chance.choice([sequence] * 9 + [max(0, sequence - 1), 0])
            epoch += chance.choice([0] * 9 + [1])
            frame = produce(
                records=of_producer(epoch, sequence, chance.choice([16] * 9 + [0])),
                transactional_id=chance.choice(["tx"] * 9 + [None]),
                number=number,
            )
            at_once = await one.ask(frame)
            with monkeypatch.context() as patched:
                patched.setattr(handler, "_AT_ONCE_MAX", 0)
                in_turns = await other.ask(frame)
            assert at_once == in_turns
            hits += states[0].has_open_transaction(5, 0)
        assert one.logs() == other.logs()

    both(scenario, tmp_path)
    assert hits > 100
