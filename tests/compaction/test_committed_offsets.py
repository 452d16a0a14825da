"""A cleaned `__consumer_offsets` says what it said before, of transactions too."""

from __future__ import annotations

import random

import pytest

from compaction.state_logs import check_cleanings
from drumlin.coordination.groups.offsets.offset_records import (
    CommittedOffset,
    OffsetKey,
    decode_offset,
)
from drumlin.coordination.groups.shard.log import LoadedPartition, encode_batches, load
from drumlin.coordination.shards.state_batches import Producer
from drumlin.storage.log.log_batches import batches_of
from drumlin.storage.log.partition_log import PartitionLog
from rig.data.committed_offsets import loaded_offsets
from storage.samples import NOW_MS, marker

KEYS = [OffsetKey("g", topic, index) for topic in "tu" for index in range(2)]


def loaded(log: PartitionLog) -> LoadedPartition:
    return load(batches_of(log))


def outcomes(found: LoadedPartition) -> list[dict[OffsetKey, CommittedOffset]]:
    """What is committed now, and once all open transactions have committed."""
    before = loaded_offsets(found)
    after = dict(before)
    for each in found.pending:
        if not each.is_superseded:
            after[each.key] = decode_offset(each.value)
    return [before, after]


def write(log: PartitionLog, chance: random.Random, number: int) -> None:
    key, producer = chance.choice(KEYS), Producer(chance.randrange(3), 0)
    value = CommittedOffset(number, -1, "", NOW_MS + number)
    match chance.randrange(10):
        case 0:
            batches = encode_batches([(key, None)], NOW_MS + number)
        case 1 | 2 | 3:
            batches = encode_batches([(key, value)], NOW_MS + number)
        case 4 | 5 | 6:
            batches = encode_batches([(key, value)], NOW_MS + number, producer=producer)
        case kind:
            end = marker(commit=kind < 9, producer_id=producer.producer_id)
            log.append_internal(end, 0, NOW_MS)
            return
    for batch, _ in batches:
        log.append_internal(memoryview(batch), 0, NOW_MS)


@pytest.mark.parametrize("seed", range(6))
def test_committed_offsets_survive_cleanings(seed: int) -> None:
    check_cleanings(seed, write, lambda log: outcomes(loaded(log)))
