"""SipHash-1-3 with 128 bits of output; `records/plain/keyed_hash.py` is its plain version."""

from __future__ import annotations

from drumlin.records.kernels.code.dialect import Pointer, helper
from drumlin.records.kernels.code.words import load_word, rotate_left, wrapping_add


@helper
def _round(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    a = wrapping_add(a, b)
    b = rotate_left(b, 13) ^ a
    a = rotate_left(a, 32)
    c = wrapping_add(c, d)
    d = rotate_left(d, 16) ^ c
    a = wrapping_add(a, d)
    d = rotate_left(d, 21) ^ a
    c = wrapping_add(c, b)
    b = rotate_left(b, 17) ^ c
    return a, b, rotate_left(c, 32), d


@helper
def keyed_hash(
    data: Pointer, position: int, size: int, end: int, seed_0: int, seed_1: int
) -> tuple[int, int]:
    """Both halves of the hash of `size` bytes at a position; `data` is readable up to `end`."""
    a = seed_0 ^ 0x736F6D6570736575
    b = seed_1 ^ 0x646F72616E646F6D ^ 0xEE
    c = seed_0 ^ 0x6C7967656E657261
    d = seed_1 ^ 0x7465646279746573
    key_end = position + size
    while position + 8 <= key_end:
        word = load_word(data, position)
        d ^= word
        a, b, c, d = _round(a, b, c, d)
        a ^= word
        position += 8
    word = (size & 0xFF) << 56
    rest = key_end - position
    if rest > 0:
        if position + 8 <= end:
            word |= load_word(data, position) & ((1 << (8 * rest)) - 1)
        else:
            for index in range(rest):
                word |= data[position + index] << (8 * index)
    d ^= word
    a, b, c, d = _round(a, b, c, d)
    a ^= word
    c ^= 0xEE
    for _ in range(3):
        a, b, c, d = _round(a, b, c, d)
    first = a ^ b ^ c ^ d
    b ^= 0xDD
    for _ in range(3):
        a, b, c, d = _round(a, b, c, d)
    return first, a ^ b ^ c ^ d
