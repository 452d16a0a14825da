"""The hash of rows: every bit counts, and the kernel computes what its plain twin does."""

from __future__ import annotations

import pyarrow as pa
import pytest

from drumlin.records.columns.arrow_checksum import RowChecksum
from drumlin.records.plain.row_hash import row_hash
from records.conftest import without_kernels

SEED = (7, 2**64 - 1)


def test_depends_on_every_bit_of_data_and_seed() -> None:
    data = bytes(range(100, 177))
    changed = []
    for index in range(8 * len(data)):
        other = bytearray(data)
        other[index // 8] ^= 1 << index % 8
        changed.append(row_hash(other, *SEED))
    for bit in range(64):
        changed.append(row_hash(data, SEED[0] ^ 1 << bit, SEED[1]))
        changed.append(row_hash(data, SEED[0], SEED[1] ^ 1 << bit))
    changed += [row_hash(data[:size], *SEED) for size in range(1, len(data) + 1)]
    changed += [row_hash(bytes(size), *SEED) for size in range(300)]
    assert len(set(changed)) == len(changed)


@pytest.mark.usefixtures("kernels")
def test_the_kernel_computes_the_same() -> None:
    data = [bytes((7 * size + index) % 256 for index in range(size)) for size in range(130)]
    data.append(b"\xff" * 70_001)
    for one in data:
        rows = RowChecksum(pa.array([one], pa.binary()), keys=pa.array([one[::-1]], pa.binary()))
        with_kernel = rows.of("t")
        with without_kernels():
            rows = RowChecksum(
                pa.array([one], pa.binary()), keys=pa.array([one[::-1]], pa.binary())
            )
            assert rows.of("t") == with_kernel
