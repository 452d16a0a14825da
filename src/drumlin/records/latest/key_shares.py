"""Shares of keys: assigns rows to `count` workers, by a hash of partition and key.

All workers must use the same seed, so that equal keys of a partition get the same share. A secret
seed prevents producers from sending all their keys to one worker.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import pyarrow as pa

from drumlin.records.columns.arrow_memory import Columns, as_binary
from drumlin.records.kernels import record_kernels
from drumlin.records.kernels.layout import KEYS
from drumlin.records.kernels.row_index_layout import (
    INDEX_IDS,
    INDEX_PARTITIONS,
    INDEX_ROWS_LEFT,
    INDEX_SEED,
    INDEX_SHARES,
    NOWHERE,
)
from drumlin.records.latest.row_index import IndexState, Int32s
from drumlin.records.plain.keyed_hash import SEED_SIZE, keyed_hash

__all__ = ["NOWHERE", "SEED_SIZE", "key_shares"]

_SIGNED: Final = struct.Struct("<qq")
_UNSIGNED: Final = struct.Struct("<QQ")
_PARTITION: Final = struct.Struct("<i")
_HASH_BITS: Final = 64


def key_shares(keys: pa.Array, partitions: Int32s | None, *, seed: bytes, count: int) -> Int32s:
    """The share of each row, from 0 to count - 1, or NOWHERE (-1) for a row without a key.

    Share `i` of `n` consists of the shares `2i` and `2i + 1` of `2n`.

    Args:
        keys: bytes.
        partitions: the partition of each row; None if all are the same.
        seed: 16 bytes.
        count: the number of shares, from 1 to 2^31 - 1.
    """
    if len(seed) != SEED_SIZE or not 1 <= count < 2**31:
        raise ValueError(f"no shares: {count} of them, a seed of {len(seed)} bytes")
    keys = as_binary(keys)
    kernels = record_kernels.loaded
    if kernels is None:
        return _plain_shares(keys, partitions, seed, count)
    shares = np.empty(len(keys), np.int32)
    if len(keys):
        columns = Columns()
        columns.put_binary(KEYS, keys)
        state = IndexState()
        state[INDEX_SEED], state[INDEX_SEED + 1] = _SIGNED.unpack(seed)
        state[INDEX_SHARES], state[INDEX_ROWS_LEFT] = count, len(keys)
        state[INDEX_PARTITIONS] = 0 if partitions is None else partitions.ctypes.data
        state[INDEX_IDS] = shares.ctypes.data
        kernels.share_rows(columns.table, state)
    return shares


def _plain_shares(keys: pa.Array, partitions: Int32s | None, seed: bytes, count: int) -> Int32s:
    shares = []
    for row, key in enumerate(keys.to_pylist()):
        row_seed = seed
        if partitions is not None:
            row_seed = _UNSIGNED.pack(*keyed_hash(_PARTITION.pack(partitions[row]), seed))
        share = NOWHERE
        if key is not None:
            share = keyed_hash(key, row_seed)[0] * count >> _HASH_BITS
        shares.append(share)
    return np.array(shares, np.int32)
