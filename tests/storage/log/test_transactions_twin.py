"""What READ_COMMITTED readers see of a log, whatever happens to it, beside a slow twin.

The twin is a list of all batches. A reader is simulated as clients do it: by the aborted
transactions that come with each piece it reads.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import iterate_headers
from drumlin.records.plain.record import decode_batch
from drumlin.replication.partition import Partition
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.control_records import parse_marker
from rig.data.sole_partition import sole_partition
from rig.depth import seeds
from storage.samples import NOW_MS, batch_of, create, from_producer, marker, open_logs, prepared

_CONFIG = LogConfig(segment_bytes=1200, retention_bytes=4000, index_interval_bytes=200)
READ_COMMITTED = 1


@dataclass
class Written:
    """One batch of the twin's log."""

    first_offset: int
    last_offset: int
    producer_id: int | None = None  # with an id it is transactional
    is_commit: bool | None = None  # a marker


class Twin:
    """All that was written and not cut off, in order."""

    def __init__(self) -> None:
        self.batches: list[Written] = []

    def first_undecided(self) -> int | None:
        opened: dict[int, int] = {}
        for each in self.batches:
            if each.producer_id is None:
                continue
            if each.is_commit is not None:
                opened.pop(each.producer_id, None)
            else:
                opened.setdefault(each.producer_id, each.first_offset)
        return min(opened.values(), default=None)

    def visible(self, start_offset: int, end_offset: int) -> list[int]:
        """The base offsets of what committed readers get."""
        decided: dict[int, bool] = {}
        found = []
        for each in reversed(self.batches):
            if each.producer_id is not None and each.is_commit is not None:
                decided[each.producer_id] = each.is_commit
                continue
            counts = each.producer_id is None or decided.get(each.producer_id, False)
            if counts and start_offset <= each.last_offset and each.last_offset < end_offset:
                found.append(each.first_offset)
        return found[::-1]


def seen(partition: Partition, chance: Random) -> list[int]:
    """The base offsets of what a client hands out, reading piece by piece."""
    log, end_offset = partition.log, partition.last_stable_offset
    offset, found = log.log_start_offset, []
    while offset < end_offset:
        size = chance.choice([1, 300, 2000, 1 << 20])
        pieces = log.read(offset, size, end_offset, minimum_one_batch=True).slices
        if not pieces:
            break
        aborted = [
            (each.first_offset, each.producer_id)
            for each in log.aborted_in(pieces[0], offset, end_offset)
        ]
        if chance.random() < 0.5:  # as clients get it, without a bound
            aborted = [
                (each.first_offset, each.producer_id)
                for each in log.aborted_transactions(offset, end_offset)
            ]
        data = pieces[0].read()
        pieces[0].release()
        for kept in committed_batches(data, aborted):
            found.append(kept)
        offset = max(header.end_offset for _, header in iterate_headers(data))
    return found


def committed_batches(data: bytes, aborted: list[tuple[int, int]]) -> Iterator[int]:
    heapq.heapify(aborted)
    active: set[int] = set()
    for position, header in iterate_headers(data):
        while aborted and aborted[0][0] <= header.last_offset:
            active.add(heapq.heappop(aborted)[1])
        batch = memoryview(data)[position : position + header.size]
        assert decode_batch(batch)
        if header.is_control:
            end = parse_marker(batch, header)
            if end is not None and not end.is_commit:
                active.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in active):
            yield header.base_offset


class Pair:
    """The log, the twin, and what may happen to both."""

    def __init__(self, path: Path, chance: Random) -> None:
        self.path = path
        self.chance = chance
        self.logs = open_logs(path, config=_CONFIG)
        self.log: PartitionLog = create(self.logs, _CONFIG)
        self.twin = Twin()

    def step(self) -> None:
        chance = self.chance
        match chance.randrange(40):
            case 0:
                self.log.truncate_to(self._some_offset())
                end = self.log.log_end_offset
                self.twin.batches = [b for b in self.twin.batches if b.last_offset < end]
            case 1:
                self.log.delete_records_before(self._some_offset())
            case 2:
                self.log.delete_old_segments(NOW_MS, self.log.log_end_offset)
            case 3 | 4:
                self.restart(is_clean=chance.random() < 0.5)
            case 5:
                self.log.roll(NOW_MS)
            case kind if kind < 18:
                self.end(chance.randrange(4), is_commit=chance.random() < 0.5)
            case kind if kind < 24:
                self.append(prepared(chance.randint(1, 4), value=bytes(chance.randrange(200))))
            case _:
                self.produce(chance.randrange(4))

    def _some_offset(self) -> int:
        return self.chance.randint(self.log.log_start_offset, self.log.log_end_offset)

    def append(self, batch: Any, producer_id: int | None = None) -> None:
        result = self.log.append_as_leader(batch, 0, NOW_MS)
        self.twin.batches.append(Written(result.base_offset, result.last_offset, producer_id))

    def produce(self, producer_id: int) -> None:
        entry = self.log.producer_state.get(producer_id)
        sequence = entry.last_sequence + 1 if entry else 0
        fields: dict[str, Any] = {"value": bytes(self.chance.randrange(200))}
        count = self.chance.randint(1, 4)
        batch = from_producer(
            sequence, count, producer_id=producer_id, is_transactional=True, **fields
        )
        self.append(batch, producer_id)

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        batch = marker(commit=is_commit, producer_id=producer_id)
        offset = self.log.append_internal(batch, 0, NOW_MS).base_offset
        self.twin.batches.append(Written(offset, offset, producer_id, is_commit))

    def restart(self, *, is_clean: bool) -> None:
        if is_clean:
            self.logs.close()
        else:
            self.logs.write_checkpoints()
            self.logs.abandon()
        self.logs = open_logs(self.path, config=_CONFIG)
        found = self.logs.get("t", 0)
        assert found is not None
        self.log = found

    def check(self) -> None:
        partition = sole_partition(self.log)
        start, end = self.log.log_start_offset, self.log.log_end_offset
        first = self.twin.first_undecided()
        stable = end if first is None else max(first, start)
        assert partition.last_stable_offset >= stable
        is_whole = first is None or first >= start
        if is_whole:
            assert partition.last_stable_offset == stable
        visible = self.twin.visible(start, partition.last_stable_offset)
        assert seen(partition, self.chance) == visible


@pytest.mark.parametrize("seed", seeds(6, 15))
def test_committed_readers_see_what_was_committed(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    pair = Pair(tmp_path, chance)
    for _ in range(80):
        pair.step()
        pair.check()
    pair.logs.abandon()


def test_the_twin_is_not_blind() -> None:
    twin = Twin()
    twin.batches = [Written(0, 1, 7), Written(2, 2), Written(3, 3, 7, False), Written(4, 4, 7)]
    assert twin.visible(0, 100) == [2]
    assert twin.first_undecided() == 4
    data = bytes(batch_of(2, producer_id=7, base_sequence=0, is_transactional=True))
    assert list(committed_batches(data, [(0, 7)])) == []
    assert list(committed_batches(data, [])) == [0]
