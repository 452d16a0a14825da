"""Thin twin of LatestRows until that is there."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class LatestRows:
    def __init__(self) -> None:
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0

    @property
    def size_bytes(self) -> int:
        return self._size

    def add(self, batch: pa.RecordBatch) -> None:
        batch = batch.filter(pc.is_valid(batch["key"]))
        self._waiting.append(batch)
        self._size += batch.nbytes

    def rows(self, *, tombstones: bool) -> pa.RecordBatch | None:
        if not self._waiting:
            return None
        batch = pa.concat_batches(self._waiting)
        rows = pa.table({"partition": batch["partition"], "key": batch["key"], "offset": batch["offset"]})
        rows = rows.append_column("row", pa.array(np.arange(batch.num_rows)))
        rows = rows.sort_by("offset")
        last = rows.group_by(["partition", "key"], use_threads=False).aggregate([("row", "last")])
        kept = batch.take(last["row_last"].combine_chunks())
        if not tombstones:
            kept = kept.filter(pc.is_valid(kept["value"]))
        self._waiting, self._size = [], 0
        return kept


def reducer_numbers(batch: pa.RecordBatch, seed: int, count: int) -> np.ndarray:
    return np.array(
        [
            zlib.crc32(key, seed + part) % count
            for key, part in zip(batch["key"].to_pylist(), batch["partition"].to_pylist())
        ],
        np.int32,
    )
