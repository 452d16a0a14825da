"""The codecs: framings, levels, and limits."""

from __future__ import annotations

import contextlib
import tracemalloc

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.records.compression import (
    CODECS,
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    DecompressedTooLarge,
    compress,
    decompress,
)
from drumlin.records.errors import CorruptRecord
from records.strategies import QUICK, damaged

_COMPRESSED = [GZIP, SNAPPY, LZ4, ZSTD]
_TEXT = b"a commit log is a sequence of records, " * 3000


@pytest.mark.parametrize("codec", CODECS.values())
@pytest.mark.parametrize("size", [0, 1, 100, 32 * 1024, len(_TEXT)])
def test_round_trip(codec: int, size: int) -> None:
    data = compress(codec, _TEXT[:size])
    assert bytes(decompress(codec, data, size)) == _TEXT[:size]


@pytest.mark.parametrize(
    ("codec", "levels"), [(GZIP, [-1, 1, 9]), (LZ4, [1, 9, 17]), (ZSTD, [-5, 1, 22])]
)
def test_every_level_of_kafkas_configuration(codec: int, levels: list[int]) -> None:
    for level in levels:
        data = compress(codec, bytearray(_TEXT), level)
        assert bytes(decompress(codec, memoryview(data), 1 << 20)) == _TEXT


def test_lz4_blocks_are_independent() -> None:
    # Kafka's reader refuses a frame whose flags say otherwise (bit 5 of its fifth byte).
    assert compress(LZ4, _TEXT)[4] & 0x20


def test_lz4_blocks_that_depend_on_each_other_are_refused() -> None:
    compressor = cramjam.lz4.Compressor(block_linked=True)
    compressor.compress(_TEXT)
    with pytest.raises(CorruptRecord, match="depend"):
        decompress(LZ4, bytes(compressor.finish()), 1 << 20)


def test_raw_snappy_is_read() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(_TEXT)), 1 << 20) == _TEXT


@pytest.mark.parametrize("codec", _COMPRESSED)
def test_limit(codec: int) -> None:
    data = compress(codec, _TEXT)
    assert len(decompress(codec, data, len(_TEXT))) == len(_TEXT)
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, data, len(_TEXT) - 1)


@pytest.mark.parametrize("codec", _COMPRESSED)
def test_a_bomb_is_defused(codec: int) -> None:
    bomb = compress(codec, bytes(64 << 20))
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, bomb, 1 << 20)


def test_a_snappy_block_that_lies_about_its_size_costs_nothing() -> None:
    with pytest.raises(CorruptRecord):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(100), 1 << 40)


def test_snappy_blocks_of_a_byte_cost_no_more_than_they_are() -> None:
    block = bytes(cramjam.snappy.compress_raw(b"a"))
    header = compress(SNAPPY, b"")
    blocks = header + (len(block).to_bytes(4, "big") + block) * 50_000
    tracemalloc.start()
    try:
        unfolded = decompress(SNAPPY, blocks, 1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert unfolded == b"a" * 50_000
    assert peak < len(blocks)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec(codec: int) -> None:
    with pytest.raises(CorruptRecord):
        decompress(codec, b"", 100)


@QUICK
@given(st.data(), st.sampled_from(_COMPRESSED))
def test_damage_raises_nothing_else(data: st.DataObject, codec: int) -> None:
    with contextlib.suppress(CorruptRecord):
        decompress(codec, data.draw(damaged(compress(codec, _TEXT[:200]))), 1000)
