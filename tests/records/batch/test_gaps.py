"""Offsets without a record, found in batches."""

from __future__ import annotations

from drumlin.records.batch.batch import assign_offsets
from drumlin.records.batch.gaps import Stretch, stretch_of
from rig.data.batches import batch


def at(base_offset: int, *values: bytes) -> bytes:
    data = bytearray(batch(*values))
    assign_offsets(data, 0, base_offset, 0)
    return bytes(data)


def test_batches_that_follow_each_other() -> None:
    data = at(3, b"a", b"b") + at(5, b"c")
    assert stretch_of(data, 3, 6) == Stretch(6, None)
    assert stretch_of(data, 4, 6) == Stretch(6, None)  # a fetch from the midst of a batch


def test_a_batch_is_gone() -> None:
    data = at(3, b"a") + at(6, b"c")
    assert stretch_of(data, 3, 9) == Stretch(7, 4)
    assert stretch_of(data, 3, 4) == Stretch(4, None)
    assert stretch_of(data, 2, 4).gap_offset == 2


def test_a_record_is_gone() -> None:
    data = bytearray(at(3, b"a", b"b"))
    data[57:61] = (1).to_bytes(4, "big")  # the number of records
    assert stretch_of(data, 3, 5).gap_offset == 3


def test_a_batch_that_is_cut_off() -> None:
    assert stretch_of(at(3, b"a") + at(4, b"b")[:-1], 3, 9) == Stretch(4, None)
