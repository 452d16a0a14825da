"""A program that reads one partition as a Spark worker does, and tells what memory that took.

`python reading_program.py ADDRESS TOPIC HEADERS [LIMIT]` prints the records, the size of the
largest RecordBatch, and how far resident memory and address space grew beyond what an idle client
has. LIMIT bounds the address space, in bytes.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pyarrow as pa

import drumlin
from drumlin.records.kernels import record_kernels


class Sink:
    """What Arrow writes to: a pipe to the JVM would hold as little of it."""

    closed = False

    def write(self, data: bytes | memoryview) -> int:
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None: ...


def status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise LookupError(name)


def main(address: str, topic: str, headers: str, limit_bytes: str = "") -> None:
    if limit_bytes:  # what Spark sets for `spark.executor.pyspark.memory`
        resource.setrlimit(resource.RLIMIT_AS, (int(limit_bytes),) * 2)
    with drumlin.connect(address) as client:
        end = client.offsets(topic)[0]
        assert record_kernels.loaded is not None
        resident, space = status("VmRSS"), status("VmPeak")
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak
        records = largest = 0
        writer = None
        for batch in client.read_range(topic, 0, 0, end, headers=headers == "headers"):
            writer = writer or pa.RecordBatchStreamWriter(Sink(), batch.schema)
            writer.write_batch(batch)
            records += batch.num_rows
            largest = max(largest, batch.nbytes)
        grown = status("VmHWM") - resident, status("VmPeak") - space
        print(records, largest, *grown, space)


if __name__ == "__main__":
    main(*sys.argv[1:])
