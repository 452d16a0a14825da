"""What a key costs in the cleaner's offset map: maps of growing size, filled until they are full.

Kafka's map has slots of 24 bytes (16 of hash, 8 of offset), of which it fills nine tenths by
default; that figure is calculated, ours are measured.
"""

from __future__ import annotations

import contextlib
import struct
import sys
import time
from pathlib import Path

import numpy as np

from bench.compacted_topics import encoded_keys
from bench.harness import Comparison, Metric, Options
from drumlin.compaction.passes.kernel_passes import MapPass
from drumlin.compaction.passes.offset_map import OffsetMap
from drumlin.compaction.passes.passes import Reason
from drumlin.records.columns.arrow_encode import RecordColumns
from drumlin.records.kernels import compaction_kernels

_KAFKA_BYTES_PER_KEY = 24 / 0.9
_SIZES = [mebibytes << 20 for mebibytes in (16, 64, 256, 1024)]
_BUDGET_BYTES, _BUDGET_KEYS = 8 << 30, 490e6
_KEYS_AT_ONCE = 1 << 18
_PAGE_BYTES = 4096


def run(options: Options) -> list[Comparison]:
    """A comparison for every size, and what follows for a map of 8 GiB."""
    if compaction_kernels.loaded is None:
        raise SystemExit("there are no kernels to measure")
    results = []
    for full_size in _SIZES:
        size = round(full_size * options.scale)
        keys, resident_bytes, seconds = _fill(size)
        print(
            f"offset_map: {keys:,} distinct keys in {resident_bytes / 2**20:,.0f} MiB of memory: "
            f"{resident_bytes / keys:.2f} bytes each, {keys / seconds / 1e6:.1f} M keys/s",
            file=sys.stderr,
        )
        metric = Metric("bytes", "bytes/key", higher_is_better=False, limit=16.0)
        scenario = f"{size / 2**20:,.0f} MiB"
        results.append(
            Comparison(
                "offset_map",
                scenario,
                metric,
                "Drumlin",
                "Kafka",
                [resident_bytes / keys],
                [_KAFKA_BYTES_PER_KEY],
            )
        )
    results.append(_budget())
    return results


def _budget() -> Comparison:
    """Keys of one cleaning with 8 GiB: the capacity of such a map, of which nothing is touched."""
    with contextlib.closing(OffsetMap(_BUDGET_BYTES, 0)) as offset_map:
        capacity = offset_map.capacity
    theirs = _BUDGET_BYTES / _KAFKA_BYTES_PER_KEY
    metric = Metric("keys", "M keys in 8 GiB", target=_BUDGET_KEYS / theirs)
    return Comparison(
        "offset_map", "8 GiB", metric, "Drumlin", "Kafka", [capacity / 1e6], [theirs / 1e6]
    )


def _fill(memory_bytes: int) -> tuple[int, int, float]:
    """Fill one map: distinct keys in it, bytes that it has made resident, and seconds of it.

    Raises:
        RuntimeError: two keys were taken for one, or the map was full before its capacity.
    """
    with contextlib.closing(OffsetMap(memory_bytes, 0)) as offset_map:
        filling = MapPass(compaction_kernels.required(), offset_map, 0, 1 << 32)
        put, resident_bytes, seconds = 0, 0, 0.0
        reason = Reason.END
        while reason is not Reason.FULL:
            chunk = _log(put)
            before_bytes, before = _resident_bytes(), time.perf_counter()
            stop = filling.run(chunk, len(chunk))
            seconds += time.perf_counter() - before
            resident_bytes += _resident_bytes() - before_bytes
            reason = stop.reason
            put = offset_map.latest_offset + 1
        if offset_map.count != put or put != offset_map.capacity:
            raise RuntimeError(
                f"{put} distinct keys went in, {offset_map.count} are there, "
                f"{offset_map.capacity} should be"
            )
        return put, resident_bytes, seconds


def _log(first_offset: int) -> bytearray:
    """Batches of records with keys that are all different."""
    numbers = np.arange(first_offset, first_offset + _KEYS_AT_ONCE, dtype=np.int64)
    keys = encoded_keys(numbers)
    columns = RecordColumns(keys, keys=keys, default_timestamp_ms=0)
    log, offset = bytearray(), first_offset
    for batch in columns.encode(max_batch_bytes=16 << 10):
        position = len(log)
        log += batch
        struct.pack_into(">q", log, position, offset)
        offset += struct.unpack_from(">i", batch, 57)[0]
    return log


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
