"""The last rows of a log in little memory: each once, and with no more reads than that takes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.records.latest.latest_rows import LatestRows
from drumlin.records.latest.state_passes import passes, pieces
from rig.depth import so_many

#: Key and value of each record, in the order of offsets.
Log = list[tuple[bytes | None, bytes | None]]
LOGS = st.lists(
    st.tuples(
        st.none() | st.sampled_from([b"", *(b"key-%d" % number for number in range(12))]),
        st.none() | st.binary(max_size=30),
    ),
    max_size=120,
)


def batches(log: Log, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(log), rows):
        part = log[start : start + rows]
        keys, values = ([each[column] for each in part] for column in (0, 1))
        columns = {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "offset": pa.array(range(start, start + len(part)), pa.int64()),
        }
        yield pa.RecordBatch.from_pydict(columns)


@settings(max_examples=so_many(40, 500))
@given(LOGS, st.integers(1, 40), st.none() | st.integers(1, 3000))
def test_each_last_row_comes_once(log: Log, rows: int, memory_bytes: int | None) -> None:
    found = [
        offset
        for latest in passes(lambda: batches(log, rows), memory_bytes)
        for batch in latest.rows()
        for offset in batch["offset"].to_pylist()
    ]
    last = {key: offset for offset, (key, _) in enumerate(log) if key is not None}
    assert sorted(found) == sorted(each for each in last.values() if log[each][1] is not None)


@settings(max_examples=so_many(40, 500))
@given(LOGS, st.integers(1, 40), st.integers(1, 3000))
def test_later_pieces_replace_earlier_ones(log: Log, rows: int, memory_bytes: int) -> None:
    found: dict[bytes, bytes | None] = {}
    for latest in pieces(batches(log, rows), memory_bytes):
        for batch in latest.rows(with_tombstones=True):
            found |= dict(zip(*(batch[each].to_pylist() for each in ("key", "value")), strict=True))
    assert found == {key: value for key, value in log if key is not None}


def test_a_piece_takes_no_more_than_its_limit() -> None:
    log: Log = [(b"key-%d" % (number % 500), b"x" * 100) for number in range(2000)]
    batch_bytes = max(each.nbytes for each in batches(log, 10))
    limit_bytes = 20_000
    sizes = [each.nbytes for each in pieces(batches(log, 10), limit_bytes)]
    assert len(sizes) > 10
    assert max(sizes) <= limit_bytes + 2 * batch_bytes
    few_keys: Log = [(b"key-%d" % (number % 5), b"x" * 100) for number in range(2000)]
    assert len(list(pieces(batches(few_keys, 10), limit_bytes))) == 1


def test_the_log_is_read_as_often_as_its_keys_ask_for() -> None:
    log: Log = [(b"key-%d" % (number % 500), b"x" * 100) for number in range(2000)]
    needed = LatestRows()
    for batch in batches(log[-500:], 100):
        needed.add(batch)

    def reads(memory_bytes: int | None) -> int:
        times = 0

        def read() -> Iterator[pa.RecordBatch]:
            nonlocal times
            times += 1
            return batches(log, 100)

        for _ in passes(read, memory_bytes):
            pass
        return times

    assert reads(None) == reads(20 * needed.nbytes) == 1
    assert 3 <= reads(needed.nbytes // 3) <= 24
