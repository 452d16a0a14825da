"""The last row of every key, against a dict; shares of keys, and the index below both."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.records.kernels.machine_code import Kernels
from drumlin.records.kernels.row_index_layout import NOWHERE
from drumlin.records.latest import latest_rows
from drumlin.records.latest.key_shares import key_shares
from drumlin.records.latest.latest_rows import LatestRows
from drumlin.records.latest.row_index import CompiledRowIndex
from records.conftest import without_kernels
from records.strategies import QUICK

SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("note", pa.string()),
    ]
)
SEED = bytes(range(16))

Row = tuple[int, int, bytes | None, bytes | None]

KEYS = st.none() | st.sampled_from([b"", b"a", b"b" * 9, b"\0", b"\0\0"]) | st.binary(max_size=3)
ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2**62), KEYS, st.none() | st.binary(max_size=3)),
    max_size=60,
    unique_by=lambda row: row[:2],
)


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    dicts = [dict(zip(SCHEMA.names, [*row, f"{row[0]}-{row[1]}"], strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(dicts, SCHEMA)


def twin(rows: list[Row], *, with_tombstones: bool = False) -> list[Row]:
    """What a dict makes of the same rows."""
    last: dict[tuple[int, bytes], Row] = {}
    for row in sorted(rows, key=lambda row: row[1]):
        if row[2] is not None:
            last[row[0], row[2]] = row
    return sorted(row for row in last.values() if with_tombstones or row[3] is not None)


def rows_of(latest: LatestRows, *, with_tombstones: bool = False) -> list[Row]:
    rows = []
    for batch in latest.rows(with_tombstones=with_tombstones):
        for row in batch.to_pylist():
            assert row.pop("note") == f"{row['partition']}-{row['offset']}"
            rows.append(tuple(row.values()))
    return sorted(rows)


def pieces(rows: list[Any], size: int) -> list[Any]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


@QUICK
@given(ROWS, st.integers(1, 60), st.integers(0, 60), st.booleans())
@pytest.mark.usefixtures("kernels")
def test_keeps_the_last_row_of_each_key(
    rows: list[Row], size: int, kernels_after: int, copies: bool
) -> None:
    # Kernels are met in the midst; old rows are thrown out as often as may be.
    with mock.patch.multiple(
        latest_rows,
        _ROWS_WORTH_KERNELS=kernels_after,
        _DEAD_ROWS_AT_LEAST=0,
        _PIECE_ROWS=7,
        _ROWS_MIN=60 if copies else 0,
        _WANTED_PART_MIN=0.1,
    ):
        latest = LatestRows()
        for piece in pieces(rows, size):
            latest.add(batch_of(piece))
    assert rows_of(latest) == twin(rows)
    everything = twin(rows, with_tombstones=True)
    assert rows_of(latest, with_tombstones=True) == everything
    assert latest.key_count == len(everything)


@QUICK
@given(ROWS, st.integers(1, 9), st.randoms(use_true_random=False))
def test_results_of_several_are_put_together(
    rows: list[Row], size: int, chance: random.Random
) -> None:
    whole = LatestRows()
    chance.shuffle(rows)
    for piece in pieces(rows, size):
        part = LatestRows()
        part.add(batch_of(piece))
        for batch in part.rows(with_tombstones=True):
            whole.add(batch)
            whole.add(batch)  # a row that comes twice is there once
    assert rows_of(whole) == twin(rows)


def test_many_keys_many_times(either_path: str) -> None:
    chance = np.random.default_rng(7)
    numbers = chance.integers(0, 5000, 40_000)
    keys = pa.array([b"%d" % number if number else b"" for number in numbers], pa.binary())
    offsets = chance.permutation(40_000)
    latest = LatestRows()
    columns = {"offset": pa.array(offsets), "key": keys}
    with mock.patch.multiple(latest_rows, _DEAD_ROWS_AT_LEAST=100, _PIECE_ROWS=2000):
        for batch in pa.table(columns).to_batches(max_chunksize=1500):
            latest.add(batch)  # each is a slice of one array
    expected: dict[bytes, int] = {}
    for key, offset in zip(keys.to_pylist(), offsets.tolist(), strict=True):
        expected[key] = max(offset, expected.get(key, -1))
    table = pa.Table.from_batches(list(latest.rows()))
    assert table.num_rows == latest.key_count == len(expected)
    found = zip(table["key"].to_pylist(), table["offset"].to_pylist(), strict=True)
    assert dict(found) == expected
    assert sum(each.rows.num_rows for each in latest._pieces) <= 2 * len(expected)


def test_few_large_rows_are_thrown_out_too(either_path: str) -> None:
    latest = LatestRows()
    rows: list[Row] = [(0, number, b"k%d" % number, b"v") for number in range(1000)]
    latest.add(batch_of(rows))
    with mock.patch.multiple(latest_rows, _ROW_BYTES_AT_LEAST=500_000):
        for number in range(1000, 1100):
            latest.add(batch_of([(0, number, b"large", bytes(100_000))]))
            assert latest.nbytes < 1_000_000
    assert latest.key_count == 1001


def test_old_rows_are_thrown_out_before_a_limit_is_reached(either_path: str) -> None:
    latest, more = LatestRows(), LatestRows()
    rows: list[Row] = [(0, number, b"k%d" % (number % 500), bytes(200)) for number in range(12_000)]
    latest.add(batch_of(rows[:500]))
    size_bytes = latest.nbytes
    assert latest.outgrow(size_bytes - 1)
    assert not latest.outgrow(size_bytes)
    for piece in pieces(rows, 100):
        more.add(batch_of(piece))
        assert not more.outgrow(size_bytes * 3 // 2)
        assert more.nbytes <= size_bytes * 3 // 2
    assert rows_of(more) == twin(rows)


def test_rows_say_in_a_column_of_its_own_whether_they_have_a_value(either_path: str) -> None:
    latest = LatestRows()
    rows = {"offset": [0, 1, 2], "key": [b"a", b"b", b"a"], "has_value": [True, True, False]}
    schema = pa.schema([("offset", pa.int64()), ("key", pa.binary()), ("has_value", pa.bool_())])
    latest.add(pa.record_batch(rows, schema))
    assert [each.column("key").to_pylist() for each in latest.rows()] == [[b"b"]]
    assert [each.num_rows for each in latest.rows(with_tombstones=True)] == [2]


def test_no_row_and_no_key_is_nothing(either_path: str) -> None:
    latest = LatestRows()
    latest.add(batch_of([]))
    latest.add(batch_of([(0, 5, None, b"v")] * 100))
    assert latest.key_count == 0
    assert list(latest.rows()) == []


def test_a_table_of_many_keys_takes_about_40_bytes_a_key(kernels: Kernels) -> None:
    index = CompiledRowIndex(kernels)
    count = 300_000
    keys = pa.array(np.arange(count), pa.int64()).cast(pa.string()).cast(pa.binary())
    offsets = np.arange(count)
    ids = index.add(keys, offsets, None)
    assert np.array_equal(np.sort(ids), np.arange(count, dtype=np.int32))
    assert np.array_equal(index.add(keys, offsets + 1, None), ids)
    assert np.all(index.add(keys, offsets, None) == NOWHERE)
    assert not index.is_last(ids, offsets).any()
    assert index.is_last(ids, offsets + 1).all()
    assert 24 * count < index.nbytes < 50 * count


def test_every_index_has_a_secret_of_its_own(kernels: Kernels) -> None:
    one, other = (list(CompiledRowIndex(kernels)._state[5:7]) for _ in range(2))
    assert one != other


@QUICK
@given(ROWS, st.integers(1, 2**31 - 1), st.booleans())
@pytest.mark.usefixtures("kernels")
def test_shares_are_the_same_with_and_without_kernels(
    rows: list[Row], count: int, with_partitions: bool
) -> None:
    batch = batch_of(rows)
    places = batch.column("partition").to_numpy() if with_partitions else None
    shares = key_shares(batch.column("key"), places, seed=SEED, count=count)
    with without_kernels():
        plain = key_shares(batch.column("key"), places, seed=SEED, count=count)
    assert shares.tolist() == plain.tolist()
    has_key = batch.column("key").is_valid().to_pylist()
    assert [0 <= share < count for share in shares.tolist()] == has_key


def test_shares_are_even_and_divide_into_halves(kernels: Kernels) -> None:
    keys = pa.array([b"%d" % number for number in range(10_000)], pa.binary())
    shares = key_shares(keys, None, seed=SEED, count=8)
    assert np.bincount(shares, minlength=8).min() > 1000
    halves = key_shares(keys, None, seed=SEED, count=16)
    assert np.array_equal(halves // 2, shares)
    assert not np.array_equal(key_shares(keys, None, seed=SEED[::-1], count=8), shares)


@pytest.mark.parametrize(("seed", "count"), [(b"short", 2), (SEED, 0), (SEED, 2**31)])
def test_shares_that_cannot_be(seed: bytes, count: int) -> None:
    with pytest.raises(ValueError, match="no shares"):
        key_shares(pa.array([b"k"]), None, seed=seed, count=count)
