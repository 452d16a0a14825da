"""How fast both passes of compaction are on one core: `python bench/compaction_passes.py`.

A log of 6 million records of some 200 bytes with a million keys, in batches of 16 KiB, read from
the page cache piece by piece as the cleaner does. As in `bench/kernels.py` seconds are those of
the processor, and the best of some rounds counts.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from drumlin.compaction.passes.kernel_passes import FilterPass, MapPass
from drumlin.compaction.passes.offset_map import OffsetMap
from drumlin.compaction.passes.passes import FilterRules, Reason
from drumlin.records.batch.batch import assign_offsets, parse_header
from drumlin.records.columns.columns import encode_from_arrow
from drumlin.records.kernels import compaction_kernels

RECORDS = 6_000_000
KEYS = 1_000_000
VALUE_BYTES = 175
BATCH_BYTES = 16 << 10
PIECE_BYTES = 1 << 20
ROUNDS = 5
NOW_MS = 1_700_000_000_000
_PART = 500_000  # records that are encoded at once


def write_log(file: Any) -> int:
    """Write the log; its size in bytes."""
    random = np.random.default_rng(1)
    end_offset = 0
    for start in range(0, RECORDS, _PART):
        count = min(_PART, RECORDS - start)
        keys = pa.array([b"key-%010d" % number for number in random.integers(0, KEYS, count)])
        values = pa.array([random.bytes(VALUE_BYTES)] * count)
        batches = encode_from_arrow(
            values, keys=keys, default_timestamp_ms=NOW_MS, max_batch_bytes=BATCH_BYTES
        )
        for batch in batches:
            assign_offsets(batch, 0, end_offset, 0)
            end_offset += parse_header(batch).record_count
            file.write(batch)
    file.flush()
    return int(file.tell())


def read(descriptor: int, use: Callable[[bytearray, int], int]) -> None:
    """Read the file in pieces; `use` returns how far it has dealt with one."""
    piece = bytearray(PIECE_BYTES)
    view = memoryview(piece)
    position = left = 0
    while count := os.preadv(descriptor, [view[left:]], position):
        position += count
        size = left + count
        used = use(piece, size)
        left = size - used
        view[:left] = bytes(view[used:size])


def build(descriptor: int, expected_keys: int) -> OffsetMap:
    offset_map = OffsetMap(128 << 20, 0, expected_keys=expected_keys)
    pass_1 = MapPass(compaction_kernels.required(), offset_map, 0, RECORDS)

    def use(piece: bytearray, size: int) -> int:
        stop = pass_1.run(piece, size)
        assert stop.reason is Reason.END
        return stop.position

    read(descriptor, use)
    return offset_map


def rewrite(descriptor: int, offset_map: OffsetMap, with_bitmap: bool) -> None:
    bitmap = offset_map.survivors_bitmap(0, RECORDS) if with_bitmap else None
    rules = FilterRules(NOW_MS, 86_400_000, bitmap=bitmap)
    pass_2 = FilterPass(compaction_kernels.required(), offset_map, rules, 4096)
    output = bytearray(PIECE_BYTES)

    def use(piece: bytearray, size: int) -> int:
        stop = pass_2.run(piece, size, output)
        assert stop.reason is Reason.END
        return stop.position

    read(descriptor, use)


def figure(name: str, size: int, work: Callable[[], Any]) -> None:
    seconds = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        work()
        seconds.append(time.thread_time() - start)
    best = min(seconds)
    print(f"{name:40s} {size / best / 1e6:7.0f} MB/s {best / RECORDS * 1e9:7.1f} ns a record")


def main() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if compaction_kernels.loaded is None:
        raise SystemExit("there are no kernels to measure")
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryFile(dir=folder) as file:
        size = write_log(file)
        descriptor = file.fileno()
        figure("reading alone", size, lambda: read(descriptor, lambda _, size: size))
        for name, expected in (("full map", KEYS), ("roomy map", RECORDS)):
            figure(f"pass 1, {name}", size, functools.partial(build, descriptor, expected))
            offset_map = build(descriptor, expected)
            used = offset_map.memory_bytes / offset_map.count
            print(f"  {used:.1f} bytes a key, {offset_map.utilisation:.0%} of the capacity")
            for kind, with_bitmap in (("map", False), ("bitmap", True)):
                figure(
                    f"pass 2, {name}, by {kind}",
                    size,
                    functools.partial(rewrite, descriptor, offset_map, with_bitmap),
                )
        offset_map.latest_offset = -1
        figure("pass 2, nothing dies", size, lambda: rewrite(descriptor, offset_map, False))


if __name__ == "__main__":
    main()
