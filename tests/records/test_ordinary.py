"""What counts as ordinary; that it decodes as everything else does is shown by the twins."""

from __future__ import annotations

import pytest

from drumlin.records.bodies import Selection, select_bodies
from drumlin.records.ordinary import ordinary_batches
from drumlin.records.record import Record, encode_batch


def batch(first: int, count: int = 3, **options: object) -> bytes:
    records = [Record(first + i, 5 + i, b"k", b"v" * i) for i in range(count)]
    return bytes(encode_batch(records, **options))  # type: ignore[arg-type]


PLAIN = batch(0) + batch(3) + batch(10, 1)


def test_all_bodies_are_found() -> None:
    found = ordinary_batches(PLAIN + batch(11)[:-1], Selection())
    assert found is not None
    bodies = list(select_bodies(PLAIN, Selection()))
    assert (found.record_count, len(found.table)) == (7, 3)
    assert found.size_bytes == sum(body.end - body.start for body in bodies)
    assert [tuple(row[:5]) for row in found.table.tolist()] == [
        (each.start, each.end, each.header.record_count, each.header.base_offset, 5)
        for each in bodies
    ]


@pytest.mark.parametrize(
    ("start", "end", "bases"),
    [(0, 100, [0, 3, 10]), (2, 3, [0]), (3, 11, [3, 10]), (6, 10, []), (11, 100, [])],
)
def test_only_what_is_selected(start: int, end: int, bases: list[int]) -> None:
    found = ordinary_batches(PLAIN, Selection(start, end))
    assert found is not None
    assert found.table[:, 3].tolist() == bases


def test_nothing_is_ordinary_too() -> None:
    for buffer in (b"", PLAIN[:40]):
        found = ordinary_batches(buffer, Selection())
        assert found is not None
        assert (found.record_count, found.table.shape) == (0, (0, 7))


def damaged(position: int) -> bytes:
    buffer = bytearray(PLAIN)
    buffer[position] ^= 0x80
    return bytes(buffer)


@pytest.mark.parametrize(
    "buffer",
    [
        pytest.param(PLAIN + batch(11, compression="lz4"), id="compressed"),
        pytest.param(PLAIN + batch(11, is_transactional=True), id="transactional"),
        pytest.param(PLAIN + batch(11, is_control=True), id="control"),
        pytest.param(damaged(len(PLAIN) - 1), id="wrong CRC"),
        pytest.param(damaged(16), id="another magic"),
        pytest.param(PLAIN + batch(11)[:16] + b"\x01", id="another magic, cut off"),
        pytest.param(damaged(8), id="a size below zero"),
        pytest.param(damaged(57), id="more records than there is room for"),
    ],
)
def test_everything_else_is_left_to_others(buffer: bytes) -> None:
    assert ordinary_batches(buffer, Selection()) is None


def test_a_crc_that_is_not_asked_for_is_not_looked_at() -> None:
    found = ordinary_batches(damaged(len(PLAIN) - 1), Selection(verify_crc=False))
    assert found is not None
    assert len(found.table) == 3
