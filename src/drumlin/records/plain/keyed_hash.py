"""SipHash with 128 bits of output, in plain Python, the twin of the kernel.

The cleaner's offset map stores the hash in place of the key: two keys with the same hash would
count as one, and one would erase the other's records. The cleaner keys it with a random secret for
each cleaning, so that such keys cannot be found in advance. SipHash-1-3, with one round per word
and three at the end, is usual for hash tables; tests use the published SipHash-2-4, too.
"""

from __future__ import annotations

import struct
from typing import Final

from drumlin.records.batch.batch import Buffer

SEED_SIZE: Final = 16

_MASK: Final = (1 << 64) - 1
_INITIAL: Final = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_WORD: Final = struct.Struct("<Q")


def keyed_hash(
    key: Buffer, seed: Buffer, compression_rounds: int = 1, finalization_rounds: int = 3
) -> tuple[int, int]:
    """The two unsigned halves of the hash, in output order."""
    words = struct.unpack("<QQ", seed)
    state = [initial ^ words[index & 1] for index, initial in enumerate(_INITIAL)]
    state[1] ^= 0xEE  # distinguishes 128 bits of output from 64
    size = len(key)
    # The last word is the rest of the key, with its size in the highest byte.
    padded = bytes(key) + bytes(7 - size % 8) + bytes([size & 0xFF])
    for (word,) in _WORD.iter_unpack(padded):
        state[3] ^= word
        for _ in range(compression_rounds):
            _round(state)
        state[0] ^= word
    state[2] ^= 0xEE
    halves = []
    for _ in range(2):
        for _ in range(finalization_rounds):
            _round(state)
        halves.append(state[0] ^ state[1] ^ state[2] ^ state[3])
        state[1] ^= 0xDD
    return halves[0], halves[1]


def _round(state: list[int]) -> None:
    a, b, c, d = state
    a = (a + b) & _MASK
    b = _rotate(b, 13) ^ a
    a = _rotate(a, 32)
    c = (c + d) & _MASK
    d = _rotate(d, 16) ^ c
    a = (a + d) & _MASK
    d = _rotate(d, 21) ^ a
    c = (c + b) & _MASK
    b = _rotate(b, 17) ^ c
    state[:] = a, b, _rotate(c, 32), d


def _rotate(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (64 - bits))) & _MASK
