"""Fetched bytes as lines: what the kernel writes is what the records say one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.kernels.machine_code import Kernels
from drumlin.records.plain.bodies import Selection, select_bodies
from drumlin.records.plain.plain_columns import decode_plain
from drumlin.records.plain.record import Record, encode_batch
from drumlin.records.text import lines
from drumlin.records.text.line_form import Field, LineForm
from records.strategies import QUICK, damaged, fetched

PARTS = st.lists(st.sampled_from([*Field, b"\t", b" a text of more than eight bytes "]), max_size=5)


def line(form: LineForm, record: Record) -> bytes:
    fields = {
        Field.KEY: form.null if record.key is None else record.key,
        Field.VALUE: form.null if record.value is None else record.value,
        Field.OFFSET: b"%d" % record.offset,
        Field.TIMESTAMP: b"%d" % record.timestamp,
    }
    parts = (fields[each] if isinstance(each, Field) else each for each in form.parts)
    return b"".join(parts)


def written(
    kernels: Kernels, buffer: bytes, selection: Selection, form: LineForm, count: int = 2**40
) -> Any:
    """The text, the number of lines and the last offset; or the class of the error."""
    text, records, last = bytearray(), 0, None
    try:
        for piece in lines.lines_of(kernels, buffer, selection, form, count):
            text += piece.text
            records += piece.records
            last = piece.last_offset
    except CorruptRecord:
        return CorruptRecord
    return bytes(text), records, last


def expected(buffer: bytes, selection: Selection, form: LineForm, count: int = 2**40) -> Any:
    try:
        bodies = list(select_bodies(buffer, selection))
        pieces = decode_plain(bodies, selection, 2**40, 2**40)
        records = [record for rows in pieces for record, _ in rows][:count]
    except CorruptRecord:
        return CorruptRecord
    text = b"".join(line(form, each) for each in records)
    return text, len(records), records[-1].offset if records else None


@QUICK
@given(st.data(), fetched(), PARTS, st.sampled_from([b"", b"NULL"]))
def test_the_same_is_written(
    kernels: Kernels, data: st.DataObject, found: Any, parts: list[Any], null: bytes
) -> None:
    buffer, aborted, end = found
    if is_damaged := data.draw(st.integers(0, 3)) == 0:
        buffer = data.draw(damaged(buffer))
    selection = Selection(
        data.draw(st.just(0) | st.integers(max(0, end - 20), end)),
        data.draw(st.just(2**63 - 1) | st.integers(max(0, end - 10), end + 1)),
        data.draw(st.sampled_from([aborted, []])),
    )
    form = LineForm([*parts, b"\n"], null)
    count = 2**40 if is_damaged else data.draw(st.just(2**40) | st.integers(1, 10))
    assert written(kernels, buffer, selection, form, count) == expected(
        buffer, selection, form, count
    )


def test_lines_larger_than_a_piece(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_PIECE_BYTES", 100)
    records = [Record(each, 5, b"k", b"v" * (each % 300)) for each in range(400)]
    form = LineForm([Field.VALUE, b"|", Field.VALUE, Field.KEY, b"\n"], b"")
    buffer = bytes(encode_batch(records))
    assert written(kernels, buffer, Selection(), form) == expected(buffer, Selection(), form)
    assert written(kernels, buffer, Selection(), form, 7)[1:] == (7, 6)


def test_very_many_batches(kernels: Kernels) -> None:
    small = b"".join(encode_batch([Record(each, 5, None, b"v")]) for each in range(2500))
    packed = bytes(encode_batch([Record(2500, 5, None, b"w")], compression="gzip"))
    form = LineForm([Field.OFFSET, Field.VALUE, b"\n"], b"")
    for buffer in (small, small + packed, packed + small):
        found = written(kernels, buffer, Selection(), form)
        assert found == expected(buffer, Selection(), form)


@pytest.mark.parametrize("timestamp", [0, 9, 10, -1, -10, 2**62, -(2**62)])
def test_numbers(kernels: Kernels, timestamp: int) -> None:
    buffer = bytes(encode_batch([Record(2**53, timestamp, None, None)]))
    form = LineForm([Field.OFFSET, b" ", Field.TIMESTAMP], b"")
    text, _, _ = written(kernels, buffer, Selection(), form)
    assert text == b"%d %d" % (2**53, timestamp)
