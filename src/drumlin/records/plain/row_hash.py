"""A fast 128-bit hash, in plain Python, the twin of the kernel.

It detects accidental differences. Unlike the hash in `keyed_hash.py`, it does not resist attackers
who choose the input. Four lanes process 32 bytes, four words, at a time: each lane takes two of the
words, and each word goes to two lanes. A lane's step is a folded 128-bit product.
"""

from __future__ import annotations

import struct
from typing import Final

from drumlin.records.batch.batch import Buffer
from drumlin.records.kernels.layout import ROW_HASH_WORDS

_MASK: Final = (1 << 64) - 1
_STEP: Final = struct.Struct("<QQQQ")


def row_hash(data: Buffer, seed_0: int, seed_1: int) -> tuple[int, int]:
    """The two unsigned halves of the hash."""
    key_0, key_1, key_2, key_3 = ROW_HASH_WORDS
    size = len(data)
    a, b, c, d = seed_0, seed_1, seed_1, seed_0
    for words in _STEP.iter_unpack(bytes(data) + bytes(-size % _STEP.size)):
        a = _folded(words[0] ^ key_0, words[1] ^ a)
        b = _folded(words[1] ^ key_1, words[2] ^ b)
        c = _folded(words[2] ^ key_2, words[3] ^ c)
        d = _folded(words[3] ^ key_3, words[0] ^ d)
    return _folded(a ^ key_0, c ^ key_1 ^ size), _folded(b ^ key_2, d ^ key_3 ^ size)


def joined(first: int, second: int) -> int:
    """A 128-bit number made of its two halves."""
    return (first & _MASK) << 64 | second & _MASK


def combined(one: int, other: int) -> int:
    """The sum of two 128-bit numbers by halves: the checksum of the rows of both numbers."""
    return joined((one >> 64) + (other >> 64), one + other)


def _folded(one: int, other: int) -> int:
    product = one * other
    return (product & _MASK) ^ (product >> 64)
