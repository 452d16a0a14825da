"""Which record of a key is the latest."""

from __future__ import annotations

import pyarrow as pa

from drumlin.spark.landing.rows.latest import last_of_partitions, latest


def _records(*rows: tuple[bytes, int, int, int]) -> pa.Table:
    names = ("key", "partition", "offset", "timestamp")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def _places(table: pa.Table) -> list[tuple[bytes, int, int]]:
    return sorted(zip(*(table[name].to_pylist() for name in ("key", "partition", "offset"))))  # noqa: B905


def test_within_a_partition_the_last_offset_counts() -> None:
    found = last_of_partitions(_records((b"a", 0, 2, 1), (b"a", 0, 1, 9), (b"b", 0, 0, 5)))
    assert _places(found) == [(b"a", 0, 2), (b"b", 0, 0)]


def test_among_partitions_the_later_time_counts_and_then_the_higher_partition() -> None:
    records = _records((b"a", 0, 7, 5), (b"a", 1, 0, 6), (b"b", 0, 3, 5), (b"b", 2, 1, 5))
    assert _places(latest(records)) == [(b"a", 1, 0), (b"b", 2, 1)]
    assert _places(latest(last_of_partitions(records))) == [(b"a", 1, 0), (b"b", 2, 1)]
