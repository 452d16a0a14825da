"""Which partition a group or a transactional id belongs to: other programs compute it, too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.coordination.shards.state_partitions import partition_for


def in_java(key: str, partition_count: int) -> int:
    """`abs(key.hashCode()) % partitionCount`, unit by unit."""
    value = 0
    units = key.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    if value >= 1 << 31:
        value = (1 << 32) - value
    return 0 if value == 1 << 31 else value % partition_count


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ("", 0),
        ("group", 47),
        ("polygenelubricants", 0),
        ("my-transactional-id", 46),
        ("höher😀", 40),
    ],
)
def test_known_keys(key: str, partition: int) -> None:
    assert partition_for(key, 50) == partition


@given(st.text(max_size=120), st.integers(0, 300), st.integers(1, 200))
def test_any_key(key: str, repeats: int, partition_count: int) -> None:
    assert partition_for(key, partition_count) == in_java(key, partition_count)
    longer = key * repeats
    assert partition_for(longer, partition_count) == in_java(longer, partition_count)
