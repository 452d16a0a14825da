"""The offset map beside a dictionary."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.passes.batches import SEED, map_pass
from compaction.passes.plain_map import PlainMap
from drumlin.compaction.passes.passes import Reason
from drumlin.records.batch.batch import seal
from records.strategies import QUICK

_KEYS = st.binary(max_size=3)


@QUICK
@given(st.lists(st.tuples(_KEYS, st.integers(100, 200))), st.integers(14, 500), st.floats(0.1, 1.0))
def test_is_a_dictionary_of_largest_offsets(
    puts: list[tuple[bytes, int]], memory_bytes: int, load_factor: float
) -> None:
    offset_map = PlainMap(memory_bytes, 100, load_factor=load_factor)
    twin: dict[bytes, int] = {}
    assert offset_map.memory_bytes <= memory_bytes
    for key, offset in puts:
        has_room = key in twin or len(twin) < offset_map.capacity
        assert offset_map.put(key, offset) == has_room
        if has_room:
            twin[key] = max(offset, twin.get(key, 0))
        assert offset_map.count == len(twin)
        assert offset_map.is_full == (len(twin) == offset_map.capacity)
    assert {key: offset_map.get(key) for key, _ in puts} == {key: twin.get(key) for key, _ in puts}


def test_knows_nothing_at_first() -> None:
    offset_map = PlainMap(1400, 5)
    assert offset_map.get(b"") is None
    assert (offset_map.count, offset_map.latest_offset, offset_map.utilisation) == (0, -1, 0.0)
    assert (offset_map.capacity, offset_map.memory_bytes) == (90, 1400)
    offset_map.latest_offset = 7
    assert offset_map.latest_offset == 7


def test_takes_no_more_memory_than_is_expected_to_be_used() -> None:
    offset_map = PlainMap(1 << 40, 0, expected_keys=1000)
    assert offset_map.capacity >= 1000
    assert offset_map.memory_bytes / offset_map.capacity < 16
    assert PlainMap(1400, 0, expected_keys=1000).capacity == 90
    assert PlainMap(1 << 20, 0, expected_keys=0).capacity >= 1


def test_refuses_what_is_no_map() -> None:
    for memory_bytes, base_offset, load_factor in [(13, 0, 0.9), (1400, -1, 0.9), (1400, 0, 0.0)]:
        with pytest.raises(ValueError, match="no map"):
            PlainMap(memory_bytes, base_offset, load_factor=load_factor)
    with pytest.raises(ValueError, match="offset 4"):
        PlainMap(1400, 5).put(b"k", 4)


def test_offsets_too_far_from_the_first_one() -> None:
    offset_map = PlainMap(1400, 10)
    largest = 10 + 2**32 - 2
    assert offset_map.put(b"k", largest)
    assert not offset_map.put(b"k", largest + 1)
    assert not offset_map.put(b"other", largest + 1)
    assert offset_map.get(b"k") == largest
    assert offset_map.count == 1


def test_seeds_are_drawn_anew() -> None:
    one, other = PlainMap(1400, 0), PlainMap(1400, 0)
    assert one.seed != other.seed
    assert len(one.seed) == 16


def test_gives_its_memory_back() -> None:
    offset_map = PlainMap(1400, 0)
    offset_map.close()
    with pytest.raises(ValueError, match="closed"):
        offset_map.get(b"k")


def test_bitmap_of_survivors() -> None:
    offset_map = PlainMap(100_000, 1000, seed=SEED)
    for offset in range(1000, 1500):
        offset_map.put(b"%d" % (offset * 7919 % 101), offset)
    survivors = {offset_map.get(b"%d" % number) for number in range(101)}
    for start, end in [(1000, 1500), (1003, 1400), (0, 2000), (1450, 1451), (1400, 1400), (9, 3)]:
        bitmap = offset_map.survivors_bitmap(start, end)
        assert bitmap == offset_map.plain_bitmap(start, end)
        marked = {
            start + index for index in range(8 * len(bitmap)) if bitmap[index // 8] >> index % 8 & 1
        }
        assert marked == {offset for offset in survivors if start <= offset < end}


def test_bitmap_is_never_large_beside_the_map() -> None:
    offset_map = PlainMap(1400, 0)
    assert offset_map.survivors_bitmap(0, 1400) is not None
    assert offset_map.survivors_bitmap(0, 1409) is None
    assert PlainMap(1 << 31, 0).survivors_bitmap(0, (64 << 23) + 1) is None


def _batches_of_numbered_keys(first: int, count: int) -> bytes:
    """Batches of 50 records each, with eight bytes of a key and an empty value."""
    record = struct.Struct(">BBBBB8sBB")
    header = struct.Struct(">qiibIhiqqqhii")
    log = bytearray()
    for start in range(first, first + count, 50):
        body = b"".join(
            record.pack(28, 0, 0, 2 * index, 16, b"%08d" % (start + index), 0, 0)
            for index in range(50)
        )
        head = header.pack(start, 49 + len(body), 0, 2, 0, 0, 49, 0, 0, -1, -1, -1, 50)
        batch = bytearray(head + body)
        seal(batch, 0, len(batch))
        log += batch
    return bytes(log)


@pytest.mark.slow
def test_millions_of_keys_take_less_than_sixteen_bytes_each() -> None:
    keys = 2_000_000
    offset_map = PlainMap(16 * keys, 0, seed=SEED)
    assert offset_map.capacity >= keys
    a_pass = map_pass("kernel", offset_map, 0, 1 << 40)
    for first in range(0, 4_000_000, 100_000):
        log = bytearray(_batches_of_numbered_keys(first, 100_000))
        stop = a_pass.run(log, len(log))
        if stop.reason != Reason.END:
            break
    assert stop.reason == Reason.FULL
    assert offset_map.is_full
    assert offset_map.memory_bytes / offset_map.count < 16
    # No two keys were taken for one: so many were put as were passed.
    assert offset_map.latest_offset == offset_map.count - 1
    for number in (0, 1, 63, 64, 99, 100, 1_234_567, offset_map.count - 1):
        assert offset_map.get(b"%08d" % number) == number
    assert offset_map.get(b"%08d" % offset_map.count) is None
