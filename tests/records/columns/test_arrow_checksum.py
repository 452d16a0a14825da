"""Checksums of rows: the same for the same rows, another for any others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.records.columns.arrow_checksum import RowChecksum
from drumlin.records.columns.columns import HEADERS_TYPE
from drumlin.records.kernels.layout import NO_TIMESTAMP
from drumlin.records.plain.row_hash import combined
from records.conftest import without_kernels
from records.strategies import QUICK

BYTES = st.none() | st.binary(max_size=40)
ROWS = st.lists(
    st.tuples(
        BYTES,
        BYTES,
        st.none() | st.lists(st.tuples(st.text(max_size=9), BYTES), max_size=3),
        st.integers(-1, 9),
        st.just(NO_TIMESTAMP) | st.integers(-(2**62), 2**62),
    ),
    max_size=12,
)


def checksum_of(rows: list[Any], topic: str = "t", chosen: list[int] | None = None) -> int:
    keys, values, headers, partitions, timestamps = (
        zip(*rows, strict=True) if rows else ([], [], [], [], [])
    )
    columns = RowChecksum(
        pa.array(values, pa.binary()),
        keys=pa.array(keys, pa.binary()),
        headers=pa.array(headers, HEADERS_TYPE),
        partitions=np.array(partitions, np.int64),
        timestamps=np.array(timestamps, np.int64),
    )
    return columns.of(topic, None if chosen is None else np.array(chosen, np.int64))


@QUICK
@given(st.data(), ROWS)
@pytest.mark.usefixtures("kernels")
def test_neither_order_nor_cuts_nor_kernels_matter(data: st.DataObject, rows: list[Any]) -> None:
    whole = checksum_of(rows)
    with without_kernels():
        assert checksum_of(rows) == whole
    assert checksum_of(data.draw(st.permutations(rows))) == whole
    cut = data.draw(st.integers(0, len(rows)))
    assert combined(checksum_of(rows[:cut]), checksum_of(rows[cut:])) == whole
    some = data.draw(
        st.lists(st.sampled_from(range(len(rows))), unique=True) if rows else st.just([])
    )
    assert checksum_of(rows, chosen=some) == checksum_of([rows[each] for each in some])


def test_any_difference_shows(either_path: str) -> None:
    plain = (b"k", b"v", [("h", b"x")], 1, 5)
    others: list[list[Any]] = [
        [],
        [plain, plain],
        [plain, plain, plain],
        [(None, *plain[1:])],
        [(b"", *plain[1:])],
        [(b"kv", b"", *plain[2:])],
        [(b"v", b"k", *plain[2:])],
        [(b"k", None, *plain[2:])],
        [(b"k", b"", *plain[2:])],
        [(b"k", b"v\0", *plain[2:])],
        [(b"k", b"v" * 257, *plain[2:])],
        [(b"k", b"v", None, 1, 5)],
        [(b"k", b"v", [("h", None)], 1, 5)],
        [(b"k", b"v", [("h", b"")], 1, 5)],
        [(b"k", b"v", [("h", b"x"), ("h", b"x")], 1, 5)],
        [(b"k", b"v", [("h", b"x")], -1, 5)],
        [(b"k", b"v", [("h", b"x")], 5, 1)],
        [(b"k", b"v", [("h", b"x")], 1, NO_TIMESTAMP)],
        [(b"k", b"v", [("h", b"x")], 1, 6)],
    ]
    sums = [checksum_of(each) for each in ([plain], *others)]
    sums.append(checksum_of([plain], topic="other"))
    assert len(set(sums)) == len(sums)


def test_each_half_tells_what_kind_a_number_is(either_path: str) -> None:
    rows = [
        (None, b"v", None, partition, timestamp)
        for partition, timestamp in [(-1, 0), (-1, 1), (-1, 2), (0, -1), (1, -1), (2, -1), (3, -1)]
    ]
    rows = [(*each[:4], NO_TIMESTAMP if each[4] < 0 else each[4]) for each in rows]
    sums = [checksum_of([each]) for each in rows]
    assert len({each >> 64 for each in sums}) == len(rows)
    assert len({each & (1 << 64) - 1 for each in sums}) == len(rows)


def test_columns_that_are_not_there_are_as_nulls(either_path: str) -> None:
    rows = [(None, b"v", None, -1, NO_TIMESTAMP), (None, b"w", [], -1, NO_TIMESTAMP)]
    assert RowChecksum(pa.array(["v", "w"])).of("t") == checksum_of(rows)
