"""The keyed hash is SipHash; the kernel's copy of it finds what this one has put."""

from __future__ import annotations

import struct

import pytest

from compaction.passes.batches import SEED, batch, map_pass
from compaction.passes.plain_map import PlainMap
from drumlin.records.plain.keyed_hash import keyed_hash
from drumlin.records.plain.record import Record


@pytest.mark.parametrize(
    ("key", "published"),
    [(b"", "a3817f04ba25a8e66df67214c7550293"), (b"\x00", "da87c1d86b99af44347659119b22fc45")],
)
def test_published_vectors(key: bytes, published: str) -> None:
    halves = keyed_hash(key, SEED, compression_rounds=2, finalization_rounds=4)
    assert struct.pack("<QQ", *halves).hex() == published


def test_depends_on_every_bit_of_key_and_seed() -> None:
    key = bytes(range(100, 121))
    hashes = {keyed_hash(key, SEED)}
    for index in range(8 * len(key)):
        other = bytearray(key)
        other[index // 8] ^= 1 << index % 8
        hashes.add(keyed_hash(other, SEED))
    for index in range(8 * len(SEED)):
        seed = bytearray(SEED)
        seed[index // 8] ^= 1 << index % 8
        hashes.add(keyed_hash(key, seed))
    hashes |= {keyed_hash(key[:size], SEED) for size in range(len(key))}
    hashes |= {keyed_hash(bytes(size), SEED) for size in range(300)}
    assert len(hashes) == 1 + 8 * len(key) + 8 * len(SEED) + len(key) + 300 - 1  # b"" came twice


@pytest.mark.parametrize("seed", [SEED, bytes(16), b"\xff" * 16])
def test_the_kernel_computes_the_same(seed: bytes) -> None:
    keys = [bytes((7 * size + index) % 256 for index in range(size)) for size in range(300)]
    keys.append(b"large" * 200_000)
    offset_map = PlainMap(1 << 20, 0, seed=seed)
    log = batch([Record(offset, 0, key, None) for offset, key in enumerate(keys)])
    # The last key of a batch is read in another way: of each size one is that.
    for offset, key in enumerate(keys[:40]):
        log += batch([Record(len(keys) + offset, 0, key[::-1] + b"!", None)])
    stop = map_pass("kernel", offset_map, 0, 1 << 40).run(log, len(log))
    assert stop.position == len(log)
    assert [offset_map.get(key) for key in keys] == list(range(len(keys)))
    assert [offset_map.get(key[::-1] + b"!") for key in keys[:40]] == [
        len(keys) + offset for offset in range(40)
    ]
