"""Batches of offsets that are packed directly, beside those that are made record by record."""

from __future__ import annotations

import random
from itertools import pairwise
from uuid import UUID

import pytest

from drumlin.coordination.groups.offsets.offset_batches import OffsetPacker
from drumlin.coordination.groups.offsets.offset_records import (
    CommittedOffset,
    OffsetKey,
    decode_offset,
)
from drumlin.coordination.groups.shard.log import encode_batches
from drumlin.coordination.shards.state_batches import Producer
from drumlin.records.batch.batch import HEADER_SIZE, parse_header
from drumlin.turns import to_end
from drumlin.wire.by_hand.commit_request import TopicOffsets
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.stepped import Stepped

NOW_MS = 1_700_000_000_000
TOPICS = {"t": UUID(int=7), "topic-without-an-id": None, "höher": UUID(int=2**127)}


def some(chance: random.Random, count: int) -> TopicOffsets:
    topic = chance.choice(list(TOPICS))
    texts = ["", "x", "höher", "y" * 130]
    has_metadata = chance.random() < 0.5
    return TopicOffsets(
        topic,
        TOPICS[topic],
        [chance.randrange(2**31) for _ in range(count)],
        [chance.choice([0, 2**40, 2**63 - 1, -1]) for _ in range(count)],
        [chance.choice([-1, 0, 9]) for _ in range(count)],
        [chance.choice(texts).encode() for _ in range(count)] if has_metadata else None,
    )


@pytest.mark.parametrize("seed", range(20))
def test_they_are_what_records_one_by_one_would_be(seed: int) -> None:
    chance = random.Random(seed)
    expire_ms = chance.choice([None, NOW_MS + 5])
    producer = chance.choice([None, Producer(7, 3)])
    codec = chance.choice([0, 0, 1, 2, 3, 4])
    asked = [some(chance, chance.choice([1, 1, 3, 70, 9_000])) for _ in range(3)]
    packer = OffsetPacker("group", NOW_MS, expire_ms, codec, producer, 10_000_000)
    for each in asked:
        packer.add(each)
    (packed,) = to_end(packer.batches())
    records = [
        (
            OffsetKey("group", topic.topic, partition),
            CommittedOffset(
                topic.offsets[index],
                topic.leader_epochs[index],
                "" if topic.metadata is None else topic.metadata[index].decode(),
                NOW_MS,
                expire_ms,
                topic.topic_id,
            ),
        )
        for topic in asked
        for index, partition in enumerate(topic.partitions)
    ]
    ((expected, _),) = encode_batches(records, NOW_MS, codec, producer, 10_000_000)
    assert packed.batch == expected
    said = [
        (OffsetKey("group", topic, partition), decode_offset(value))
        for topic, _, partitions, values in packed.topics
        for partition, value in zip(partitions, values, strict=True)
    ]
    if expire_ms is None:
        assert said == records
    else:  # that version knows neither leader epoch nor topic id
        assert [key for key, _ in said] == [key for key, _ in records]
        assert {value.expire_timestamp_ms for _, value in said} == {expire_ms}


@pytest.mark.parametrize("seed", range(10))
def test_no_batch_is_larger_than_allowed_and_none_is_cut_too_early(seed: int) -> None:
    chance = random.Random(seed)
    asked = [some(chance, chance.choice([1, 40, 400])) for _ in range(6)]
    packer = OffsetPacker("group", NOW_MS, bytes_max=5_000)
    for each in asked:
        packer.add(each)
    batches = to_end(packer.batches())
    assert max(len(batch) for batch, _ in batches) <= 5_000
    assert all(
        len(one.batch) + len(other.batch) > 4_000  # each record may take less than is reckoned
        for one, other in pairwise(batches)
    )
    assert [
        (topic.topic, partition)
        for _, topics in batches
        for topic in topics
        for partition in topic.partitions
    ] == [(topic.topic, partition) for topic in asked for partition in topic.partitions]


def test_a_name_that_no_record_can_tell() -> None:
    packer = OffsetPacker("g" * 40_000, NOW_MS)
    with pytest.raises(KafkaError) as refused:
        packer.add(TopicOffsets("t", None, [0], [1], [-1]))
    assert refused.value.code is ErrorCode.invalid_request


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8_191, 8_200, 20_000])
def test_tombstones_are_what_records_one_by_one_would_be(count: int) -> None:
    partitions = [2**31 - 1 - number for number in range(count)]
    packer = OffsetPacker("group", NOW_MS, bytes_max=10_000_000)
    packer.add_tombstones("höher", partitions[:10])
    packer.add_tombstones("höher", partitions[10:])
    (packed,) = to_end(packer.batches())
    records = [(OffsetKey("group", "höher", partition), None) for partition in partitions]
    ((batch, _),) = encode_batches(records, NOW_MS, bytes_max=10_000_000)
    assert packed.batch == batch
    assert [each for topic in packed.topics for each in topic.partitions] == partitions


def test_tombstones_that_are_too_many_for_one_batch_make_several() -> None:
    packer = OffsetPacker("group", NOW_MS, bytes_max=1_000)
    packer.add_tombstones("t", range(100))
    batches = to_end(packer.batches())
    assert len(batches) > 1
    assert max(len(each.batch) for each in batches) <= 1_000 + HEADER_SIZE
    told = [each for batch in batches for topic in batch.topics for each in topic.partitions]
    assert told == list(range(100))


def test_a_large_batch_is_compressed_in_steps() -> None:
    packer = OffsetPacker("group", NOW_MS, codec=1, bytes_max=10_000_000)
    packer.add(TopicOffsets("t", None, range(9_000), range(9_000), [-1] * 9_000))
    work = Stepped(packer.batches())
    steps = 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            (batch,) = done.value
            break
        steps += 1
    assert steps > 20
    assert parse_header(batch.batch).record_count == 9_000
