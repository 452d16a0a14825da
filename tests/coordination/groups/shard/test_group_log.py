"""Loading a partition, beside a slow twin that replays record after record."""

from __future__ import annotations

import random
from typing import Any

import pytest

from drumlin.coordination.groups.classic.records import GroupKey, GroupMetadata
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.offsets.offset_records import CommittedOffset, OffsetKey
from drumlin.coordination.groups.shard.log import encode_batches, load
from drumlin.coordination.internal_records.record_schema import UnreadableRecord
from drumlin.records.plain.record import Record, encode_batch
from rig.data.committed_offsets import loaded_offsets


@pytest.mark.parametrize("seed", range(10))
def test_what_is_loaded_is_what_was_said_last(seed: int) -> None:
    chance = random.Random(seed)
    records: list[GroupRecord] = []
    twin: dict[OffsetKey | GroupKey, CommittedOffset | GroupMetadata] = {}
    for number in range(300):
        group_id = f"g{chance.randrange(3)}"
        if chance.random() < 0.7:
            key = OffsetKey(group_id, f"t{chance.randrange(2)}", chance.randrange(3))
            offset = CommittedOffset(number, -1, "", number)
            records.append((key, None if chance.random() < 0.3 else offset))
        else:
            metadata = GroupMetadata("consumer", number, None, None, number, ())
            records.append((GroupKey(group_id), None if chance.random() < 0.3 else metadata))
        last_key, value = records[-1]
        if value is None:
            twin.pop(last_key, None)
        else:
            twin[last_key] = value
    batches: list[bytearray] = []
    while records:
        some = records[: chance.randint(1, 20)]
        records = records[len(some) :]
        batches += [batch for batch, _ in encode_batches(some, 1)]
    loaded = load(batches)
    said: dict[Any, Any] = dict(loaded_offsets(loaded))
    for group in loaded.groups.values():
        said.update(group.records)
    assert said == twin
    assert loaded.records == 300


def test_records_of_other_protocols_are_passed_over() -> None:
    batch = encode_batch([Record(0, 1, b"\0\x63\0\1g", b"\0\0????")])
    loaded = load([batch])
    assert (loaded.groups, loaded.offsets, loaded.records) == ({}, {}, 1)


def test_a_record_that_should_be_known_but_is_not() -> None:
    for record in (Record(0, 1, b"\0\2\0\1g", b"\0\x63"), Record(0, 1, None, b"")):
        with pytest.raises(UnreadableRecord):
            load([encode_batch([record])])
