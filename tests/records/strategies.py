"""Random records, and random damage."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st

from drumlin.records.compression.compression import CODECS
from drumlin.records.plain.record import Record, encode_batch
from rig.depth import so_many

#: Modest and repeatable: the twins are compared on thousands of batches in all.
QUICK = settings(max_examples=60, database=None)
THOROUGH = settings(QUICK, max_examples=so_many(120, 400))

PRODUCERS = [7, 8]
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


def marker(offset: int, producer_id: int, *, aborts: bool) -> bytes:
    key = (0).to_bytes(2, "big") + (not aborts).to_bytes(2, "big")
    options = {"producer_id": producer_id, "is_transactional": True, "is_control": True}
    return bytes(encode_batch([Record(offset, 5, key, bytes(6))], **options))


@st.composite
def fetched(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int]], int]:
    """Batches of every kind, aborted transactions among them, and the offset after them."""
    data = bytearray()
    aborted = []
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, 6))):
        producer_id = draw(st.sampled_from(PRODUCERS))
        if draw(st.integers(0, 4)) == 0:
            aborts = draw(st.booleans())
            data += marker(offset, producer_id, aborts=aborts)
            offset += 1
            continue
        records = draw(record_lists(max_size=5))
        moved = [replace(each, offset=each.offset - records[0].offset + offset) for each in records]
        is_transactional = draw(st.booleans())
        if is_transactional and draw(st.booleans()):
            aborted.append((producer_id, offset))
        data += encode_batch(
            moved,
            compression=draw(st.sampled_from(list(CODECS))),
            is_transactional=is_transactional,
            producer_id=producer_id,
            timestamp_type=draw(st.sampled_from(["CreateTime", "LogAppendTime"])),
        )
        offset = moved[-1].offset + draw(st.integers(1, 3))
    return bytes(data), aborted, offset
