"""Random records, and random damage."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from drumlin.records.plain.record import Record
from rig.depth import so_many

#: Modest and repeatable: the twins are compared on thousands of batches in all.
QUICK = settings(max_examples=60, database=None)
THOROUGH = settings(QUICK, max_examples=so_many(120, 400))

_small = st.binary(max_size=70)
_maybe = st.none() | _small
_headers = st.lists(st.tuples(st.text(max_size=5), _maybe), max_size=3).map(tuple)
_timestamps = st.integers(0, 2**41) | st.integers(-(2**40), 2**62) | st.just(-1)


@st.composite
def record_lists(draw: st.DrawFn, max_size: int = 8) -> list[Record]:
    """Records with ascending offsets, not always without holes."""
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, max_size))):
        records.append(
            Record(offset, draw(_timestamps), draw(_maybe), draw(_maybe), draw(_headers))
        )
        offset += draw(st.just(1) | st.integers(1, 300))
    return records


@st.composite
def damaged(draw: st.DrawFn, data: bytes, first: int = 0) -> bytes:
    """`data` with a few bytes changed, lost or added from `first` on."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(first, len(changed)))
        kind = draw(st.sampled_from(["change", "change", "change", "lose", "add", "cut"]))
        odd = draw(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF]) | st.integers(0, 255))
        if kind == "change" and position < len(changed):
            changed[position] = odd
        elif kind == "lose":
            del changed[position : position + 1]
        elif kind == "add":
            changed.insert(position, odd)
        elif kind == "cut":
            del changed[max(position, first) :]
    return bytes(changed)
