"""Reduces the rows of tasks to the last ones of each key, before anything is sent elsewhere.

Rows travel as bytes in Arrow's IPC format, many of them in one row of Spark's: Spark would convert
each row by itself, twice.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from drumlin.spark.landing.rows.latest import last_of_partitions, latest

#: Returns the bucket of a key.
BucketOf = Callable[[bytes], int]
#: The result rows of tasks: many rows of the target, all of them of one bucket.
PACKED: Final = "bucket int, rows binary"
_PACKED: Final = pa.schema({"bucket": pa.int32(), "rows": pa.binary()})
#: The size of the rows that a task buffers before it reduces them and passes on the result. Spark
#: refuses a value of 2 GB.
_REDUCED_BYTES: Final = 64 << 20


def packed(bucket_of: BucketOf | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The last row of each key and partition; several if a key's records are far apart.

    Args:
        bucket_of: None: all are in bucket 0.
    """
    for rows in reduced(batches):
        if bucket_of is None:
            yield _packed({0: rows})
            continue
        found = np.fromiter((bucket_of(key) for key in rows["key"].to_pylist()), np.int32)
        order = np.argsort(found, kind="stable")
        in_order, numbers = rows.take(order), found[order]
        starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        yield _packed(
            {
                int(numbers[start]): in_order.slice(start, end - start)
                for start, end in pairwise(starts)
            }
        )


def reduced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The last row of each key and partition, for pieces of a bounded size."""
    kept, size = list[pa.RecordBatch](), 0
    for batch in batches:
        kept.append(batch)
        size += batch.nbytes
        if size > _REDUCED_BYTES:
            yield last_of_partitions(pa.Table.from_batches(kept))
            kept, size = [], 0
    if any(each.num_rows for each in kept):
        yield last_of_partitions(pa.Table.from_batches(kept))


def unpacked(blobs: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    """The latest row of each key in the results of `packed`; with this schema."""
    tables = [pa.ipc.open_stream(each).read_all() for each in blobs]
    rows = pa.concat_tables(tables) if tables else schema.empty_table()
    return latest(last_of_partitions(rows))


def crc_bucket(buckets: int, key: bytes) -> int:
    """The bucket of a key, for targets whose format does not define it."""
    return zlib.crc32(key) % buckets


def _packed(rows: dict[int, pa.Table]) -> pa.Table:
    blobs = []
    for each in rows.values():
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, each.schema) as writer:
            writer.write_table(each)
        blobs.append(stream.getvalue().to_pybytes())
    return pa.table([pa.array(list(rows), pa.int32()), pa.array(blobs, pa.binary())], _PACKED)
