"""The way along batches, by the kernel and without it."""

from __future__ import annotations

import random

import pytest

from drumlin.records.batch import walk
from drumlin.records.batch.batch import iterate_headers
from drumlin.records.kernels import compaction_kernels
from drumlin.records.plain.record import Record, encode_batch
from rig.depth import seeds


def batches(chance: random.Random) -> bytes:
    data, offset = b"", 5
    for _ in range(chance.randrange(5)):
        records = [Record(offset + index, 1, b"k", b"v" * 20) for index in range(3)]
        data += encode_batch(records)
        offset += chance.choice([3, 3, 7])
    damaged = bytearray(data[: chance.choice([len(data)] * 2 + [chance.randrange(len(data) + 1)])])
    if damaged and chance.random() < 0.5:
        damaged[chance.randrange(len(damaged))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
    return bytes(damaged)


@pytest.mark.parametrize("seed", seeds(60, 300))
def test_both_end_where_batches_end(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compaction_kernels.loaded is not None
    data = batches(random.Random(seed))
    fast = walk.end_of_batches(data, 5)
    monkeypatch.setattr(compaction_kernels, "loaded", None)
    assert walk.end_of_batches(data, 5) == fast
    headers = [header for _, header in iterate_headers(data)]
    if fast[1]:
        assert fast[0] == (headers[-1].end_offset if headers else 5)


@pytest.mark.parametrize("base_offset", [2**63 - 1, 2**63 - 3, -1, -(2**63)])
def test_offsets_that_no_batch_has(base_offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken disk has them: nothing is read after such a batch."""
    assert compaction_kernels.loaded is not None
    fine = encode_batch([Record(offset, 1, b"k", b"v") for offset in (5, 6)])
    broken = bytearray(fine)
    broken[:8] = base_offset.to_bytes(8, "big", signed=True)
    data = bytes(fine + broken + fine)
    assert walk.end_of_batches(data, 5) == (7, False)
    monkeypatch.setattr(compaction_kernels, "loaded", None)
    assert walk.end_of_batches(data, 5) == (7, False)
