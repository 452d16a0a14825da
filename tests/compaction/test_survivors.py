"""The rule of survival on columns, against a loop that tells it record by record."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.compaction.survivors import NO_DELETE_HORIZON, is_kept
from drumlin.compaction.tables import survivors

_NOW_MS = 1000

Row = tuple[bytes | None, bytes | None, int, bool]  # key, value, delete horizon, aborted

_rows = st.lists(
    st.tuples(
        st.sampled_from((None, b"", b"a", b"b", b"\x00\x00\x00\x01")),
        st.sampled_from((None, b"", b"value")),
        st.sampled_from((NO_DELETE_HORIZON, 0, _NOW_MS - 1, _NOW_MS, _NOW_MS + 1)),
        st.booleans(),
    ),
    max_size=30,
)


def offsets_of(rows: list[Row], step: int) -> list[int]:
    return [5 + step * number for number in range(len(rows))]


def expected(rows: list[Row], step: int, round_end: int) -> list[int]:
    """One record after the other."""
    offsets = offsets_of(rows, step)
    last: dict[bytes, int] = {}
    for offset, (key, _, _, is_aborted) in zip(offsets, rows, strict=True):
        if key is not None and not is_aborted and offset < round_end:
            last[key] = offset
    kept = []
    for offset, (key, value, horizon_ms, is_aborted) in zip(offsets, rows, strict=True):
        if is_aborted:
            continue
        is_expired = value is None and NO_DELETE_HORIZON < horizon_ms <= _NOW_MS
        if offset >= round_end or (key is not None and last[key] == offset and not is_expired):
            kept.append(offset)
    return kept


@given(rows=_rows, step=st.sampled_from((1, 3)), behind=st.integers(0, 40))
def test_on_numpy_columns(rows: list[Row], step: int, behind: int) -> None:
    offsets = offsets_of(rows, step)
    round_end = 5 + behind
    last: dict[bytes, int] = {}
    for offset, (key, _, _, is_aborted) in zip(offsets, rows, strict=True):
        if key is not None and not is_aborted and offset < round_end:
            last[key] = offset
    mask = is_kept(
        offset=np.array(offsets, np.int64),
        has_key=np.array([row[0] is not None for row in rows], np.bool_),
        has_value=np.array([row[1] is not None for row in rows], np.bool_),
        last_offset_of_key=np.array(
            [-1 if row[0] is None else last.get(row[0], -1) for row in rows], np.int64
        ),
        is_aborted=np.array([row[3] for row in rows], np.bool_),
        delete_horizon_ms=np.array([row[2] for row in rows], np.int64),
        round_end_offset=round_end,
        now_ms=_NOW_MS,
    )
    assert [offset for offset, keep in zip(offsets, mask, strict=True) if keep] == expected(
        rows, step, round_end
    )


@given(rows=_rows, step=st.sampled_from((1, 3)), behind=st.none() | st.integers(0, 40))
def test_on_arrow_tables(rows: list[Row], step: int, behind: int | None) -> None:
    rows = [(key, value, horizon_ms, False) for key, value, horizon_ms, _ in rows]
    horizons = [None if row[2] == NO_DELETE_HORIZON else row[2] for row in rows]
    table = pa.table(
        {
            "offset": pa.array(offsets_of(rows, step), pa.int64()),
            "key": pa.array([row[0] for row in rows], pa.binary()),
            "value": pa.array([row[1] for row in rows], pa.binary()),
            "delete_horizon_ms": pa.array(horizons, pa.int64()),
        }
    )
    round_end = None if behind is None else 5 + behind
    found = survivors(table, now_ms=_NOW_MS, round_end_offset=round_end)
    end = 1 << 40 if round_end is None else round_end
    assert found["offset"].to_pylist() == expected(rows, step, end)
    assert found.schema == table.schema


def test_a_table_of_many_chunks_and_without_horizons() -> None:
    parts = [
        pa.table({"offset": [n], "key": [b"%d" % (n % 3)], "value": [None if n == 8 else b"v"]})
        for n in range(9)
    ]
    found = survivors(pa.concat_tables([part.cast(parts[0].schema) for part in parts]), now_ms=0)
    assert found["offset"].to_pylist() == [6, 7, 8]


def test_a_column_that_is_missing() -> None:
    with pytest.raises(KeyError):
        survivors(pa.table({"offset": [1], "key": [b"k"]}), now_ms=0)
