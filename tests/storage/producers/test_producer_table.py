"""Producers packed small: each entry says what a plain one would, and a copy of all stays one."""

from __future__ import annotations

import gc
import tracemalloc
from itertools import islice
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.records.batch.batch import SEQUENCE_MODULO
from drumlin.storage.producers.producer_entry import (
    NO_OFFSET,
    ProducerEntry,
    SequenceRange,
    add_batch,
    pack,
    unpack,
    with_head,
)
from drumlin.storage.producers.producer_table import ProducerTable
from rig.depth import so_many

SEQUENCES = st.integers(0, SEQUENCE_MODULO - 1)
OFFSETS = st.integers(0, 2**63 - 1)
TIMES = st.integers(-1, 2**63 - 1)


class Plain:
    """The slow twin: what is known of a producer, batch by batch."""

    def __init__(self) -> None:
        self.packed: bytes | None = None
        self.entry = ProducerEntry(7, -1)
        self.is_new = True

    def begin(self, epoch: int) -> None:
        if epoch != self.entry.producer_epoch:
            self.entry = self.entry._replace(producer_epoch=epoch, batches=())

    def batch(self, epoch: int, batch: SequenceRange, first_offset: int | None) -> None:
        self.begin(epoch)
        self.entry = self.entry._replace(
            last_timestamp=batch.timestamp,
            transaction_first_offset=first_offset,
            batches=(*self.entry.batches, batch)[-5:],
        )
        first = NO_OFFSET if first_offset is None else first_offset
        self.packed = add_batch(self.packed, epoch, *batch, first)

    def marker(self, epoch: int, coordinator_epoch: int | None, timestamp: int) -> None:
        self.begin(epoch)
        self.entry = self.entry._replace(last_timestamp=timestamp, transaction_first_offset=None)
        if coordinator_epoch is not None:
            self.entry = self.entry._replace(coordinator_epoch=coordinator_epoch)
        self.packed = with_head(
            self.packed, epoch, last_timestamp=timestamp, coordinator_epoch=coordinator_epoch
        )

    def check(self) -> None:
        assert self.packed is not None
        assert unpack(7, self.packed) == self.entry
        assert unpack(7, pack(self.entry)) == self.entry


@given(st.data())
@settings(max_examples=so_many(80, 200), deadline=None)
def test_an_entry_says_what_a_plain_one_would(data: st.DataObject) -> None:
    twin = Plain()
    sequence = offset = time = 0
    for _ in range(data.draw(st.integers(1, 12))):
        epoch = data.draw(st.sampled_from([0, 0, 0, 0, 1, 32767]))
        kind = data.draw(st.sampled_from(["next", "next", "next", "any", "marker"]))
        if kind == "marker":
            coordinator_epoch = data.draw(st.none() | st.integers(-1, 2**31 - 1))
            twin.marker(epoch, coordinator_epoch, data.draw(TIMES))
        else:
            delta = data.draw(st.integers(0, 2**31 - 1) | st.integers(0, 9))
            if kind == "next":
                offset = min(offset + delta + data.draw(st.integers(1, 2**33)), 2**63 - 1)
                sequence = (sequence + delta + 1) % SEQUENCE_MODULO
                time = min(time + data.draw(st.integers(-9, 99)), 2**63 - 1)
            else:
                sequence = data.draw(st.just(-1) | SEQUENCES)
                offset, time = data.draw(OFFSETS), data.draw(TIMES)
            first_offset = data.draw(st.none() | OFFSETS)
            twin.batch(epoch, SequenceRange(sequence, offset, delta, time), first_offset)
        twin.check()


@pytest.mark.parametrize("seed", range(4))
def test_what_is_frozen_stays(seed: int) -> None:
    """Beside changes of all kinds, over many splits; the twin is a dict."""
    rng = Random(seed)
    table, twin = ProducerTable(), dict[int, bytes]()
    kept: list[tuple[object, dict[int, bytes]]] = []
    for step in range(12_000):
        producer_id = rng.choice((step, rng.randrange(step + 1), rng.randrange(1 << 40)))
        assert table.get(producer_id) == twin.get(producer_id)
        twin[producer_id] = bytes([step % 256])
        table.put(producer_id, twin[producer_id])
        if step % 1500 == 0:
            frozen = table.freeze()
            assert len(frozen) == len(twin)
            kept.append((frozen, twin.copy()))
        if step % 2500 == 0:
            for shard in table.walk():
                gone = [key for key in shard if rng.random() < rng.choice((0.0, 0.5, 1.0))]
                table.remove(gone)
                for key in gone:
                    del twin[key]
        assert table.count == len(twin)
    for frozen, expected in kept:
        assert dict(frozen.items()) == expected  # type: ignore[attr-defined]


def test_shards_stay_small_and_go_when_they_are_empty() -> None:
    table = ProducerTable()
    for producer_id in range(20_000):
        table.put(producer_id, b"")
    sizes = [len(shard) for shard in table.walk()]
    assert sum(sizes) == 20_000
    assert max(sizes) < 700
    for shard in table.walk():
        table.remove(list(shard))
    assert [len(shard) for shard in table.walk()] == [0]
    assert table.count == 0


def test_each_producer_is_met_while_others_come_and_go() -> None:
    table = ProducerTable()
    for producer_id in range(0, 20_000, 2):
        table.put(producer_id, b"")
    seen: set[int] = set()
    walk = table.walk()
    for number in range(1, 100_000):
        shard = next(walk, None)
        if shard is None:
            break
        seen.update(shard)
        table.remove(list(islice(shard, 0, None, 3)))
        for producer_id in range(number * 150 + 1, number * 150 + 150, 2):
            table.put(producer_id, b"")
    assert seen.issuperset(range(0, 20_000, 2))


@pytest.mark.parametrize("batches", [1, pytest.param(5, marks=pytest.mark.deep)])
def test_a_producer_takes_less_than_200_bytes_and_no_look_of_the_garbage_collector(
    batches: int,
) -> None:
    gc.collect()
    before = len(gc.get_objects())
    tracemalloc.start()
    try:
        tables = [ProducerTable() for _ in range(20)]
        for table in tables:
            for producer_id in range(1000, 1500):
                packed = None
                for number in range(batches):
                    packed = add_batch(
                        packed, 0, 9 + 10 * number, 10**12 + 10 * number, 9, 10**12 + number, -1
                    )
                assert packed is not None
                table.put(int(str(producer_id)), packed)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 200 * 20 * 500
    gc.collect()
    assert len(gc.get_objects()) - before < 500
    assert sum(table.count for table in tables) == 20 * 500
