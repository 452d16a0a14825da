"""A fast hash of 128 bits; `records/plain/row_hash.py` is its plain version."""

from __future__ import annotations

from drumlin.records.kernels.code.dialect import Pointer, helper
from drumlin.records.kernels.code.words import folded_product, load_word, shift_right
from drumlin.records.kernels.layout import ROW_HASH_WORDS

_KEY_0, _KEY_1, _KEY_2, _KEY_3 = ROW_HASH_WORDS
_WORD = 8
_STEP = 4 * _WORD


@helper
def row_hash(data: Pointer, start: int, size: int, seed_0: int, seed_1: int) -> tuple[int, int]:
    """Both halves of the hash of `size` bytes at `start`. Reads no other bytes."""
    a, b, c, d = seed_0, seed_1, seed_1, seed_0
    position, end = start, start + size
    while position < end:
        if position + _STEP <= end:
            w = load_word(data, position)
            x = load_word(data, position + _WORD)
            y = load_word(data, position + 2 * _WORD)
            z = load_word(data, position + 3 * _WORD)
        else:
            w = _word(data, start, position, end)
            x = _word(data, start, position + _WORD, end)
            y = _word(data, start, position + 2 * _WORD, end)
            z = _word(data, start, position + 3 * _WORD, end)
        a = folded_product(w ^ _KEY_0, x ^ a)
        b = folded_product(x ^ _KEY_1, y ^ b)
        c = folded_product(y ^ _KEY_2, z ^ c)
        d = folded_product(z ^ _KEY_3, w ^ d)
        position += _STEP
    first = folded_product(a ^ _KEY_0, c ^ _KEY_1 ^ size)
    return first, folded_product(b ^ _KEY_2, d ^ _KEY_3 ^ size)


@helper
def _word(data: Pointer, start: int, position: int, end: int) -> int:
    """The word at a position in the last, partial step; bytes past the end are zero."""
    word: int = 0
    if position + _WORD <= end:
        word = load_word(data, position)
    elif position < end and start + _WORD <= end:
        word = shift_right(load_word(data, end - _WORD), _WORD * (position + _WORD - end))
    else:
        for index in range(end - position):
            word |= data[position + index] << (_WORD * index)
    return word
