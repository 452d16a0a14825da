"""The lane of produce requests changes how fast they are answered, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path
from uuid import UUID

import pytest

from broker.lane_twins import NOW_MS, Twin, both, request
from drumlin.records.batch import parse_header
from drumlin.records.validation import PreparedBatch
from drumlin.storage.producer_state import TransactionMarker
from rig.batches import Batch, Rec, batch

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


@pytest.mark.parametrize("seed", range(3))
def test_random_requests_are_answered_and_stored_as_without_it(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    hits = 0

    async def scenario(one: Twin, other: Twin) -> None:
        nonlocal hits
        ids = {}
        for topic in ("t0", "t1"):
            ids[topic] = UUID(int=chance.getrandbits(128))
            for twin in (one, other):
                await twin.create(topic, ids[topic])
        sequence = 0
        frame = produce()
        for number in range(600):
            topic = chance.choice(["t0", "t0", "t1"])
            match chance.randrange(60):
                case 0:
                    ids[topic] = UUID(int=chance.getrandbits(128))
                    for twin in (one, other):
                        await twin.delete(topic)
                        await twin.create(topic, ids[topic])
                case 1 | 2:
                    key, value = chance.choice(CONFIGS)
                    for twin in (one, other):
                        await twin.configure(topic, key, value)
                case kind if kind < 45:
                    sequence += chance.choice([0, 0, 1, 1, 1, 2])
                    frame = produce(
                        version=chance.choice([9] * 10 + [3, 4, 7, 8, 13]),
                        topic=chance.choice([topic] * 20 + ["missing", "__consumer_offsets"]),
                        topic_id=ids[topic],
                        partition=chance.choice([0] * 20 + [1, 2]),
                        records=a_batch(chance, sequence),
                        acks=chance.choice([1] * 20 + [-1, -1, 0, 2, -2]),
                        timeout=chance.choice([1000] * 20 + [0]),
                        transactional_id=chance.choice([None] * 20 + ["tx"]),
                        client_id=chance.choice(["c"] * 20 + [None, "", "d"]),
                    )
            frame = frame[:4] + number.to_bytes(4, "big") + frame[8:]
            if chance.random() < 0.1:
                frame = damaged(chance, frame)
            is_writable = chance.random() < 0.5
            hits += one.recognises(frame)
            answers = [await each.ask(frame, is_writable=is_writable) for each in (one, other)]
            assert answers[0] == answers[1], (number, frame)
        assert one.logs() == other.logs()

    both(scenario, tmp_path)
    assert hits > 150


@pytest.mark.parametrize(
    "second",
    [
        produce(acks=2),
        produce(records=batch(b"x"))[:-3] + b"\x01\x05\x02ab\x00\x00",
        produce()[:-1] + b"\x01\x00\x03abc",
        produce() + b"\x00",
    ],
    ids=["acks", "tags of a partition", "tags of the request", "too long"],
)
def test_what_has_no_lane_is_answered_the_same_again(second: bytes, tmp_path: Path) -> None:
    async def scenario(one: Twin, other: Twin) -> None:
        for twin in (one, other):
            await twin.create("t0", UUID(int=7))
        for frame in (produce(), second, second, second, produce()):
            answers = [await each.ask(frame, is_writable=True) for each in (one, other)]
            assert answers[0] == answers[1]
        assert one.logs() == other.logs()

    both(scenario, tmp_path)


def test_a_late_duplicate_is_answered_whatever_its_time(tmp_path: Path) -> None:
    producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    records = batch(b"x", timestamp=2**62, **producer)

    async def scenario(one: Twin, other: Twin) -> None:
        for twin in (one, other):
            await twin.create("t0", UUID(int=7))
            await twin.configure("t0", "message.timestamp.after.max.ms", str(2**63 - 1))
            for _ in range(3):
                answer = await twin.ask(produce(records=records), is_writable=False)
                assert isinstance(answer, bytes)
                assert b"t0\x02\x00\x00\x00\x00\x00\x00" in answer  # partition 0, no error

    both(scenario, tmp_path)


def test_transactions_are_answered_and_stored_as_without_it(tmp_path: Path) -> None:
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

    async def scenario(one: Twin, other: Twin) -> None:
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
            answers = [await each.ask(frame, is_writable=True) for each in (one, other)]
            assert answers[0] == answers[1]
            hits += states[0].has_open_transaction(5, 0)
        assert one.logs() == other.logs()

    both(scenario, tmp_path)
    assert hits > 100
