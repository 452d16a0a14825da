"""How fast records are surveyed, decoded and encoded on one core: `python bench/kernels.py`.

Counts seconds of the processor, and takes the best of several rounds: what the code can do, not
what a busy machine lets it do.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from drumlin.records.batch.batch import HEADER_SIZE, parse_header
from drumlin.records.columns.columns import encode_from_arrow, iterate_arrow, partition_for_keys
from drumlin.records.compression.compression import CODECS
from drumlin.records.kernels import record_kernels
from drumlin.records.plain.record import Record, encode_batch
from drumlin.records.validation.survey import survey, survey_plain
from drumlin.records.validation.validation import AppendRules, prepare_produce

ROUNDS = 7
TOTAL_BYTES = 64 << 20
BATCH_BYTES = 1 << 20
NOW_MS = 1_700_000_000_000


def best(work: Callable[[], Any]) -> float:
    """Processor seconds of the fastest round."""
    times = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times)


def _repeat(work: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        work()


def figure(name: str, seconds: float, records: int, size: int) -> None:
    rate, throughput = records / seconds / 1e6, size / seconds / 1e9
    print(f"{name:34s} {rate:8.2f} M records/s {throughput:8.2f} GB/s")


def sample(value_bytes: int) -> tuple[pa.Array, pa.Array]:
    """Keys, and values that compress about as well as text does."""
    rows = TOTAL_BYTES // (value_bytes + 20)
    letters = np.random.default_rng(1).integers(97, 113, rows * value_bytes, np.uint8)
    ends = np.arange(0, (rows + 1) * value_bytes, value_bytes, dtype=np.int32)
    values = pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(letters)]
    )
    return pa.array([b"key-%08d" % (row % 100_000) for row in range(rows)]), values


def decode(fetched: list[bytes], columns: list[str] | None = None) -> int:
    return sum(batch.num_rows for batch in iterate_arrow(fetched, columns=columns))


def bulk(value_bytes: int, compression: str) -> None:
    keys, values = sample(value_bytes)

    def encode() -> list[memoryview]:
        return encode_from_arrow(
            values,
            keys=keys,
            default_timestamp_ms=NOW_MS,
            max_batch_bytes=BATCH_BYTES,
            compression=compression,
        )

    rows = len(values)
    batches = encode()
    fetched = b"".join(batches)
    # Compressed data counts by what it unfolds to.
    size = rows * (value_bytes + 20)
    label = f"{value_bytes} B, {compression}"
    figure(f"encode from Arrow, {label}", best(encode), rows, size)
    figure(f"decode into Arrow, {label}", best(lambda: decode([fetched])), rows, size)
    batch = bytearray(batches[0])
    count = parse_header(batch).record_count
    seconds = best(lambda: prepare_produce(batch, AppendRules(2 * BATCH_BYTES), NOW_MS))
    figure(f"validate a batch, {label}", seconds, count, count * (value_bytes + 20))
    if compression == "none":
        seconds = best(lambda: partition_for_keys(keys, 12))
        figure("hash keys (murmur2)", seconds, rows, rows * 12)


def _decoding(fetched: bytes, columns: list[str] | None) -> float:
    return best(lambda: decode([fetched], columns))


def batch_sizes() -> None:
    """How the size of batches tells, by codec, and what unwanted columns would cost."""
    print("\ndecode records of 100 B, M records/s      1 KiB   16 KiB    1 MiB   (batches of)")
    keys, values = (column[:70_000] for column in sample(100))
    for compression in CODECS:
        for columns in (None, ["value", "offset"], ["offset"]):
            rates = []
            for batch_bytes in (1 << 10, 16 << 10, 1 << 20):
                batches = encode_from_arrow(
                    values,
                    keys=keys,
                    default_timestamp_ms=NOW_MS,
                    max_batch_bytes=batch_bytes,
                    compression=compression,
                )
                fetched = b"".join(batches)
                rates.append(len(values) / _decoding(fetched, columns))
            label = f"{compression}, {'all' if columns is None else ' and '.join(columns)}"
            print(f"{label:38s}" + "".join(f"{rate / 1e6:9.2f}" for rate in rates))


def border() -> None:
    """From how many records on a kernel is faster than plain Python."""
    print("\nrecords in a batch    plain us    kernel us    whole validation us")
    repeat = 2000
    for count in (1, 2, 3, 5, 10, 100):
        records = [Record(index, NOW_MS, b"key", bytes(300)) for index in range(count)]
        batch = encode_batch(records)
        body = memoryview(batch)[HEADER_SIZE:]
        steps: list[Callable[[], Any]] = [
            functools.partial(survey_plain, body, count, NOW_MS),
            functools.partial(survey, body, count, NOW_MS),
            functools.partial(prepare_produce, batch, AppendRules(), NOW_MS),
        ]
        times = [best(functools.partial(_repeat, step, repeat)) for step in steps]
        plain, kernel, whole = (seconds / repeat * 1e6 for seconds in times)
        print(f"{count:18d} {plain:11.2f} {kernel:12.2f} {whole:22.2f}")


def main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    start = time.perf_counter()
    if record_kernels.loaded is None:
        raise SystemExit("there are no kernels to measure")
    print(f"kernels there after {time.perf_counter() - start:.3f} s\n")
    for value_bytes in (100, 1000):
        bulk(value_bytes, "none")
    for compression in list(CODECS)[1:]:
        bulk(1000, compression)
    batch_sizes()
    border()


if __name__ == "__main__":
    main()
