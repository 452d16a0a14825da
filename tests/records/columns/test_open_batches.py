"""Open batches: every row is in its place, in order, and batches are as large as may be."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.records.columns.columns import HEADERS_TYPE, RecordColumns
from drumlin.records.columns.open_batches import OpenBatches, Sealed
from drumlin.records.plain.record import Record, decode_batch
from records.conftest import without_kernels
from records.strategies import QUICK, record_lists


def columns_of(records: list[Record]) -> RecordColumns:
    headers = [[{"key": k, "value": v} for k, v in each.headers] or None for each in records]
    return RecordColumns(
        pa.array([each.value for each in records], pa.binary()),
        keys=pa.array([each.key for each in records], pa.binary()),
        timestamps=pa.array([each.timestamp for each in records], pa.int64()),
        headers=pa.array(headers, HEADERS_TYPE),
        default_timestamp_ms=7,
    )


def of_values(values: list[bytes], timestamps: list[int] | None = None) -> RecordColumns:
    return RecordColumns(
        pa.array(values, pa.binary()),
        timestamps=None if timestamps is None else pa.array(timestamps, pa.int64()),
        default_timestamp_ms=7,
    )


def places(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def fields(record: Record) -> tuple[object, ...]:
    return record.timestamp, record.key, record.value, record.headers


def by_place(batches: Iterable[Sealed]) -> dict[int, list[list[bytes | None]]]:
    """The values in each batch of each place."""
    found: dict[int, list[list[bytes | None]]] = {}
    for place, batch in batches:
        found.setdefault(place, []).append([each.value for each in decode_batch(batch)])
    return found


@QUICK
@given(
    st.data(),
    st.lists(record_lists(max_size=20), max_size=3),
    st.sampled_from([100, 300, 2000]),
    st.sampled_from([1, 200, 5000]),
    st.sampled_from(["none", "lz4"]),
)
@pytest.mark.usefixtures("kernels")
def test_every_row_is_in_its_place(
    data: st.DataObject, pieces: list[list[Record]], batch_bytes: int, window: int, codec: str
) -> None:
    chosen = [
        data.draw(st.lists(st.integers(0, 3), min_size=len(each), max_size=len(each)))
        for each in pieces
    ]

    def batches() -> list[Sealed]:
        opened = OpenBatches(batch_bytes, window, codec)
        found: list[Sealed] = []
        for piece, where in zip(pieces, chosen, strict=True):
            found += opened.add(columns_of(piece), places(*where))
            if opened.size_bytes > window:
                found += opened.reduce(window // 2)
                assert opened.size_bytes <= window // 2
        return found + list(opened.reduce(0))

    fast = batches()
    with without_kernels():
        slow = batches()
    assert [(place, bytes(batch)) for place, batch in fast] == [
        (place, bytes(batch)) for place, batch in slow
    ]
    for place in range(4):
        written = [each for at, batch in fast if at == place for each in decode_batch(batch)]
        expected = [
            record
            for piece, where in zip(pieces, chosen, strict=True)
            for record, at in zip(piece, where, strict=True)
            if at == place
        ]
        assert list(map(fields, written)) == list(map(fields, expected))


@pytest.mark.usefixtures("either_path")
def test_a_batch_goes_when_it_is_full() -> None:
    opened = OpenBatches(1000, 1 << 20)
    values = [b"%03d" % number + bytes(97) for number in range(20)]
    full = by_place(opened.add(of_values(values), places(*[0, 1] * 10)))
    assert full == {0: [values[:16:2]], 1: [values[1:16:2]]}
    assert by_place(opened.reduce(0)) == {0: [values[16::2]], 1: [values[17::2]]}
    assert opened.size_bytes == 0


@pytest.mark.usefixtures("either_path")
def test_memory_grows_with_what_comes() -> None:
    opened = OpenBatches(10_000, 100)  # a place begins with less than two records
    values = [b"%03d" % number + bytes(97) for number in range(50)]
    for value in values:
        assert not by_place(opened.add(of_values([value]), places(0)))
    assert by_place(opened.reduce(0)) == {0: [values]}


@pytest.mark.usefixtures("either_path")
def test_a_record_larger_than_a_batch_has_one_of_its_own() -> None:
    opened = OpenBatches(1000, 1 << 20)
    values = [b"first", bytes(5000), b"last"]
    found = by_place([*opened.add(of_values(values), places(0, 0, 0)), *opened.reduce(0)])
    assert found == {0: [[each] for each in values]}


@pytest.mark.usefixtures("either_path")
def test_timestamps_too_far_apart_for_one_batch() -> None:
    opened = OpenBatches(1000, 1 << 20)
    columns = of_values([b"a", b"b", b"c"], [-(2**63), 2**63 - 1, 2**63 - 1])
    found = by_place([*opened.add(columns, places(0, 0, 0)), *opened.reduce(0)])
    assert found == {0: [[b"a"], [b"b", b"c"]]}


@pytest.mark.usefixtures("either_path")
def test_the_largest_go_first_and_what_is_cleared_is_gone() -> None:
    opened = OpenBatches(1000, 1 << 20)
    columns = of_values([b"small", b"larger than it", b"also small"])
    assert not list(opened.add(columns, places(2, 0, 1)))
    assert list(by_place(opened.reduce(opened.size_bytes - 1))) == [0]
    opened.clear()
    assert not list(opened.reduce(0))
    assert not list(opened.add(of_values([]), places()))
