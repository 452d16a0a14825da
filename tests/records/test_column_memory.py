"""Memory of columns is used again, and never while anybody can still read what is in it."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from drumlin.records.column_memory import ColumnMemory

_COUNT = 100_000
_HOLDS = {
    "array": lambda numbers: pa.array(numbers),
    "view": lambda numbers: numbers[5:10],
    "memoryview": lambda numbers: memoryview(numbers),
    "buffer": lambda numbers: pa.py_buffer(numbers),
    "slice-of-buffer": lambda numbers: pa.py_buffer(numbers).slice(8, 16),
    "slice-of-batch": lambda numbers: _batch(numbers).slice(3, 4),
    "column-of-batch": lambda numbers: _batch(numbers).column(0),
    "table": lambda numbers: pa.Table.from_batches([_batch(numbers)]),
}

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="nothing tells there whether memory is in use"
)


def _batch(numbers: np.ndarray) -> pa.RecordBatch:
    column = pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)], 0)
    return pa.RecordBatch.from_arrays([column], names=["number"])


def _address(numbers: np.ndarray) -> int:
    return numbers.ctypes.data


def test_memory_that_nobody_holds_is_used_again() -> None:
    memory = ColumnMemory()
    numbers = memory.numbers(_COUNT, np.int64)
    address = _address(numbers)
    batch = _batch(numbers)
    del numbers, batch
    assert _address(memory.numbers(_COUNT, np.int64)) == address


@pytest.mark.parametrize("hold", _HOLDS.values(), ids=_HOLDS)
def test_memory_that_is_held_is_left_alone(hold: Callable[[Any], Any]) -> None:
    memory = ColumnMemory()
    numbers = memory.numbers(_COUNT, np.int64)
    numbers[:] = 7
    held = hold(numbers)
    del numbers
    for _ in range(5):
        memory.numbers(_COUNT, np.int64)[:] = 9
    if isinstance(held, pa.RecordBatch | pa.Table):
        held = held.column(0)
    if isinstance(held, pa.Buffer):
        held = np.frombuffer(held, np.int64)
    assert set(np.asarray(held).tolist()) == {7}


def test_what_is_taken_at_random_keeps_its_numbers() -> None:
    memory, choose = ColumnMemory(), random.Random(3)
    held: list[tuple[int, pa.RecordBatch]] = []
    for number in range(300):
        numbers = memory.numbers(choose.choice([40_000, _COUNT, 900_000]), np.int64)
        numbers[:] = number
        held.append((number, _batch(numbers).slice(choose.randrange(100))))
        while len(held) > choose.randrange(12):
            held.pop(choose.randrange(len(held)))
        for expected, batch in held:
            column = batch.column(0)
            assert column[0].as_py() == column[-1].as_py() == expected


def test_what_is_kept_is_limited() -> None:
    memory = ColumnMemory()
    held = [memory.numbers(1 << 20, np.int64) for _ in range(20)]
    for number, numbers in enumerate(held):
        numbers[:] = number
    assert [int(numbers[-1]) for numbers in held] == list(range(20))
    assert memory.kept_bytes <= 40 << 20


def test_small_and_very_large_columns_are_plain_arrays() -> None:
    memory = ColumnMemory()
    for count in (0, 10, 20 << 20):
        assert len(memory.numbers(count, np.uint8)) == count
    assert memory.kept_bytes == 0
