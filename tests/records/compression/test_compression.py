"""The codecs: framings, levels, and limits."""

from __future__ import annotations

import contextlib
import random
import threading
import tracemalloc

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.compression.arena import Arena, DecompressedTooLarge, arena_of_thread
from drumlin.records.compression.compression import CODECS, GZIP, LZ4, SNAPPY, ZSTD, compress
from drumlin.records.compression.incoming_bodies import STRICT
from drumlin.records.compression.stored_bodies import decoder_of, decompress
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
    with pytest.raises(CorruptRecord, match="refuse"):
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


@pytest.mark.parametrize("codec", _COMPRESSED)
@pytest.mark.parametrize("room", [0, 1, len(_TEXT) - 1])
def test_what_finds_no_room_is_not_decompressed(codec: int, room: int) -> None:
    data = compress(codec, bytes(10 * len(_TEXT)))
    tracemalloc.start()
    try:
        assert decoder_of(codec)(memoryview(data), memoryview(bytearray(room))) is None
        assert tracemalloc.get_traced_memory()[1] < 4 * len(_TEXT)
    finally:
        tracemalloc.stop()


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


# -- lz4 frames, block by block ------------------------------------------------------------------


def _frame(header: bytes, *blocks: tuple[bytes, bool]) -> bytes:
    """A frame of blocks; each is compressed or not."""
    frame = bytearray(header)
    for block, is_compressed in blocks:
        data = bytes(cramjam.lz4.compress_block(block, store_size=False))
        size = len(data) if is_compressed else len(block) | 1 << 31
        frame += size.to_bytes(4, "little") + (data if is_compressed else block)
    return bytes(frame + bytes(4))


def _lz4_headers() -> list[bytes]:
    return [
        b"\x04\x22\x4d\x18\x60" + ending
        for ending in (b"\x40\x82", b"\x50\xfb", b"\x60\x51", b"\x70\x73")
    ]


@pytest.mark.parametrize("header", _lz4_headers())
def test_blocks_by_hand_are_what_a_decoder_of_frames_reads(header: bytes) -> None:
    frame = _frame(header, (_TEXT[:5000], True), (_TEXT[:300], False), (_TEXT[:60_000], True))
    expected = _TEXT[:5000] + _TEXT[:300] + _TEXT[:60_000]
    assert bytes(cramjam.lz4.decompress(frame)) == expected
    assert bytes(Arena().decode(STRICT[LZ4], frame, 1 << 20)) == expected


@pytest.mark.parametrize("stored", [True, False])
def test_lz4_blocks_larger_than_their_frame_allows_are_refused(stored: bool) -> None:
    frame = _frame(_lz4_headers()[0], (_TEXT[: (64 << 10) + 1], not stored))
    with pytest.raises(CorruptRecord):
        Arena().decode(STRICT[LZ4], frame, 1 << 20)


def test_a_frame_with_a_wrong_header_checksum_is_refused() -> None:
    frame = bytearray(compress(LZ4, _TEXT[:1000]))
    frame[6] ^= 1
    with pytest.raises(CorruptRecord):
        Arena().decode(STRICT[LZ4], frame, 1 << 20)


@pytest.mark.parametrize("cut", [1, 4, 5, 20])
def test_a_frame_that_is_cut_off_is_refused(cut: int) -> None:
    frame = compress(LZ4, _TEXT[:1000])
    with pytest.raises(CorruptRecord):
        Arena().decode(STRICT[LZ4], frame[:-cut], 1 << 20)


@pytest.mark.parametrize("level", [None, 3, 12])
def test_what_lz4_cannot_make_smaller_is_stored(level: int | None) -> None:
    noise = random.Random(1).randbytes(200_000)
    data = compress(LZ4, noise, level)
    assert len(data) <= len(noise) + 7 + 4 * 5
    assert bytes(cramjam.lz4.decompress(data)) == noise


@pytest.mark.parametrize("header", _lz4_headers())
def test_a_large_frame_is_unfolded_in_pieces(header: bytes) -> None:
    noise = random.Random(2).randbytes(60_000)
    blocks = [(noise, False), (_TEXT[:50_000], True), (noise[:1], False)] * 90
    frame = _frame(header, *blocks)
    expected = b"".join(block for block, _ in blocks)
    assert len(frame) > 4 << 20
    assert bytes(decompress(LZ4, frame, 1 << 30)) == expected
    assert bytes(decompress(LZ4, frame, len(expected))) == expected
    with pytest.raises(DecompressedTooLarge):
        decompress(LZ4, frame, len(expected) - 1)
    for cut in (1, 4, 5, 30_000, 2 << 20):
        with pytest.raises(CorruptRecord):
            decompress(LZ4, frame[:-cut], 1 << 30)
    assert bytes(decompress(LZ4, frame + frame, 1 << 30)) == expected  # as Kafka reads it


# -- arenas --------------------------------------------------------------------------------------


@QUICK
@given(
    st.lists(
        st.tuples(
            st.sampled_from(_COMPRESSED),
            st.sampled_from([0, 1, 100, 5000, 32 << 10, 70_000, len(_TEXT), 5 << 20]),
        ),
        max_size=8,
    )
)
def test_an_arena_unfolds_one_after_the_other(steps: list[tuple[int, int]]) -> None:
    arena = Arena()
    for codec, size in steps:
        data = (_TEXT * (size // len(_TEXT) + 1))[:size]
        compressed = compress(codec, data)
        assert bytes(arena.decode(STRICT[codec], compressed, size)) == data
        if size:
            with pytest.raises(DecompressedTooLarge):
                arena.decode(STRICT[codec], compressed, size - 1)


def test_what_an_arena_does_not_keep_goes_with_what_it_returned() -> None:
    arena = Arena()
    small = arena.decode(STRICT[ZSTD], compress(ZSTD, bytes(1000)), 1 << 30)
    large = arena.decode(STRICT[ZSTD], compress(ZSTD, bytes(16 << 20)), 1 << 30)
    assert isinstance(small, memoryview)
    assert isinstance(large, memoryview)
    again = arena.decode(STRICT[ZSTD], compress(ZSTD, b"x" * 1000), 1 << 30)
    assert isinstance(again, memoryview)
    assert again.obj is small.obj
    assert large.obj is not small.obj


def test_every_thread_has_an_arena_of_its_own() -> None:
    found: list[Arena] = []
    threads = [threading.Thread(target=lambda: found.append(arena_of_thread())) for _ in "ab"]
    for thread in threads:
        thread.start()
        thread.join()
    assert len({id(arena) for arena in [*found, arena_of_thread()]}) == 3
    assert arena_of_thread() is arena_of_thread()


@pytest.mark.parametrize("codec", _COMPRESSED)
def test_what_is_decompressed_for_others_is_their_own(codec: int) -> None:
    first = decompress(codec, compress(codec, b"a" * 1000), 1000)
    decompress(codec, compress(codec, b"b" * 1000), 1000)
    assert first == b"a" * 1000
