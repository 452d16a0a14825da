"""Fetched bytes with batches of all kinds: kernels find and decode what plain Python does."""

from __future__ import annotations

import tracemalloc
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.records.batch.batch import HEADER_SIZE, LOG_OVERHEAD, parse_header, seal, write_header
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.sizes import LARGE_RECORD_BYTES
from drumlin.records.columns import arrow_decode
from drumlin.records.columns.columns import RECORD_SCHEMA_WITH_HEADERS, iterate_arrow
from drumlin.records.columns.decompressed_bodies import decompressed
from drumlin.records.columns.found_bodies import find_bodies
from drumlin.records.compression.compression import CODECS
from drumlin.records.kernels import loader
from drumlin.records.kernels.layout import (
    BODY_BASE_OFFSET,
    BODY_COUNT,
    BODY_END,
    BODY_START,
    BODY_WIDTH,
)
from drumlin.records.plain.bodies import Selection, select_bodies
from drumlin.records.plain.record import Record, encode_batch, encode_record
from records.conftest import without_kernels
from records.decoding import decode_to_arrow
from records.strategies import QUICK, THOROUGH, damaged, fetched, record_lists

COLUMNS = RECORD_SCHEMA_WITH_HEADERS.names


def batch(first: int, count: int = 3, **options: Any) -> bytes:
    records = [Record(first + i, 5 + i, b"k", b"v" * i) for i in range(count)]
    return bytes(encode_batch(records, **options))


PLAIN = batch(0) + batch(3) + batch(10, 1)


def outcome(buffer: bytes, **options: Any) -> Any:
    try:
        decoded = decode_to_arrow([buffer], **options)
    except CorruptRecord:
        return CorruptRecord
    decoded.validate(full=True)
    return decoded


@pytest.mark.usefixtures("kernels")
@THOROUGH
@given(st.data(), fetched())
def test_the_same_comes_out(data: st.DataObject, found: tuple[bytes, Any, int]) -> None:
    buffer, aborted, end = found
    if data.draw(st.integers(0, 3)) == 0:
        buffer = data.draw(damaged(buffer))
    options: dict[str, Any] = {
        "start_offset": data.draw(st.just(0) | st.integers(max(0, end - 20), end)),
        "end_offset": data.draw(st.just(2**63 - 1) | st.integers(max(0, end - 10), end + 1)),
        "aborted": data.draw(st.sampled_from([aborted, []])),
        "columns": data.draw(st.lists(st.sampled_from(COLUMNS), unique=True)),
        "verify_crc": data.draw(st.booleans()),
        "partition": 4,
    }
    fast = outcome(buffer, **options)
    with without_kernels():
        slow = outcome(buffer, **options)
    assert fast == slow


@pytest.mark.usefixtures("kernels")
@QUICK
@given(st.data(), fetched(), st.integers(1, 10), st.sampled_from([1, 50, 200, 8 << 20]))
def test_in_pieces(
    data: st.DataObject, found: tuple[bytes, Any, int], max_rows: int, max_bytes: int
) -> None:
    buffer, _, _ = found
    columns = data.draw(st.lists(st.sampled_from(COLUMNS), unique=True, min_size=1))
    batches = list(iterate_arrow([buffer], columns=columns, max_rows=max_rows, max_bytes=max_bytes))
    assert all(0 < len(each) <= max_rows for each in batches)
    whole = decode_to_arrow([buffer], columns=columns)
    assert pa.Table.from_batches(batches, whole.schema).equals(pa.Table.from_batches([whole]))


def test_all_bodies_are_found(kernels: loader.Kernels) -> None:
    found = find_bodies(kernels, PLAIN + batch(11)[:-1], Selection())
    assert found is not None
    bodies = list(select_bodies(PLAIN, Selection()))
    columns = [BODY_START, BODY_END, BODY_COUNT, BODY_BASE_OFFSET]
    assert found[:, columns].tolist() == [
        [each.start, each.end, each.header.record_count, each.header.base_offset] for each in bodies
    ]


@pytest.mark.parametrize(
    ("start", "end", "bases"),
    [(0, 100, [0, 3, 10]), (2, 3, [0]), (3, 11, [3, 10]), (6, 10, []), (11, 100, [])],
)
def test_only_what_is_selected(
    kernels: loader.Kernels, start: int, end: int, bases: list[int]
) -> None:
    found = find_bodies(kernels, PLAIN, Selection(start, end))
    assert found is not None
    assert found[:, BODY_BASE_OFFSET].tolist() == bases


def test_many_batches_and_none(kernels: loader.Kernels) -> None:
    many = b"".join(batch(offset, 1) for offset in range(3000))
    found = find_bodies(kernels, many, Selection())
    assert found is not None
    assert found[:, BODY_BASE_OFFSET].tolist() == list(range(3000))
    for buffer in (b"", PLAIN[:40]):
        found = find_bodies(kernels, buffer, Selection())
        assert found is not None
        assert found.shape == (0, BODY_WIDTH)


def changed(position: int, data: bytes = PLAIN) -> bytes:
    buffer = bytearray(data)
    buffer[position] ^= 0x80
    return bytes(buffer)


LARGE = bytes(encode_batch([Record(0, 5, None, bytes(100_000))]))


@pytest.mark.parametrize(
    "buffer",
    [
        pytest.param(changed(len(PLAIN) - 1), id="wrong CRC"),
        pytest.param(changed(len(LARGE) - 1, LARGE), id="wrong CRC of a large batch"),
        pytest.param(changed(16), id="another magic"),
        pytest.param(PLAIN + batch(11)[:16] + b"\x01", id="another magic, cut off"),
        pytest.param(changed(8), id="a size below zero"),
        pytest.param(changed(57), id="more records than there is room for"),
    ],
)
def test_what_is_wrong_is_left_to_others(kernels: loader.Kernels, buffer: bytes) -> None:
    assert find_bodies(kernels, buffer, Selection()) is None
    with pytest.raises(CorruptRecord):
        decode_to_arrow([buffer])


def test_a_crc_that_is_not_asked_for_is_not_looked_at(kernels: loader.Kernels) -> None:
    for buffer in (changed(len(PLAIN) - 1), changed(len(LARGE) - 1, LARGE)):
        assert find_bodies(kernels, buffer, Selection(verify_crc=False)) is not None


@pytest.mark.parametrize("codec", list(CODECS)[1:])
def test_small_batches_are_decompressed_together(kernels: loader.Kernels, codec: str) -> None:
    buffer = b"".join(batch(offset, 3, compression=codec) for offset in range(0, 300, 3))
    found = find_bodies(kernels, buffer, Selection())
    assert found is not None
    ((source, run),) = [(bytes(source), len(run)) for source, run in decompressed(buffer, found)]
    assert run == 100
    assert source == b"".join(
        bytes(body.source[body.start : body.end]) for body in select_bodies(buffer, Selection())
    )


@pytest.mark.parametrize("codec", list(CODECS)[1:])
def test_a_batch_that_decompresses_to_much_comes_out_in_pieces(
    kernels: loader.Kernels, codec: str
) -> None:
    large = [Record(offset, 5, None, bytes(1 << 20)) for offset in range(20)]
    buffer = bytes(encode_batch(large, compression=codec)) + batch(20, compression=codec)
    pieces = list(iterate_arrow([buffer], max_bytes=4 << 20))
    assert [len(piece) for piece in pieces] == [3] * 6 + [5]
    assert [len(value) for piece in pieces for value in piece["value"].to_pylist()][:20] == [
        1 << 20
    ] * 20


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("codec", list(CODECS)[1:])
def test_batches_that_fill_the_memory_to_the_last_byte(codec: str) -> None:
    size = 1 << 20  # four of them are all there is room for
    smaller = len(encode_record(Record(0, 5, None, bytes(size - 100)), 0, 5))
    records = [Record(offset, 5, None, bytes(2 * size - 100 - smaller)) for offset in range(6)]
    assert len(encode_record(records[0], 0, 5)) == size
    buffer = b"".join(bytes(encode_batch([each], compression=codec)) for each in records)
    assert decode_to_arrow([buffer], columns=["offset"])["offset"].to_pylist() == list(range(6))


def with_header(data: bytes, **fields: int) -> bytes:
    """A sound batch, but that its header says something else."""
    damaged = bytearray(data)
    header = parse_header(damaged, 0)._replace(batch_length=len(data) - LOG_OVERHEAD, **fields)
    write_header(damaged, 0, header)
    seal(damaged, 0, len(damaged))
    return bytes(damaged)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("codec", list(CODECS)[1:])
def test_a_frame_cut_in_two_is_no_batch_twice(codec: str) -> None:
    first, second = batch(0, 3, compression=codec), batch(3, 2, compression=codec)
    rest = second[:HEADER_SIZE] + first[-5:] + second[HEADER_SIZE:]
    buffer = with_header(first[:-5]) + with_header(rest)
    with pytest.raises(CorruptRecord):
        decode_to_arrow([buffer])


@pytest.mark.usefixtures("kernels")
def test_a_count_that_is_a_lie_takes_no_memory() -> None:
    small = batch(5, 5, compression="zstd")
    buffer = batch(0, 5) + with_header(small, record_count=2**31 - 1)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecord, match="2147483647 records in"):
            decode_to_arrow([buffer])
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_offsets_below_zero_are_left_to_others(kernels: loader.Kernels) -> None:
    for base, last_delta in [(-(2**63), -1), (-(2**63), 0), (-1, 0)]:
        buffer = with_header(PLAIN[: parse_header(PLAIN, 0).size], last_offset_delta=last_delta)
        buffer = base.to_bytes(8, "big", signed=True) + buffer[8:]
        assert find_bodies(kernels, buffer, Selection()) is None
        assert decode_to_arrow([buffer]).num_rows == 0


@pytest.mark.usefixtures("either_path")
def test_records_with_very_many_headers() -> None:
    headers = tuple((f"h{number}", None) for number in range(3000))
    records = [Record(0, 5, None, None), Record(1, 5, None, b"v", headers), Record(2, 5, b"k", b"")]
    decoded = decode_to_arrow([encode_batch(records)], with_headers=True)
    assert [len(each) for each in decoded["headers"].to_pylist()] == [0, 3000, 0]
    assert decoded["offset"].to_pylist() == [0, 1, 2]


@pytest.mark.usefixtures("either_path")
def test_columns_in_any_order_and_none() -> None:
    chosen = decode_to_arrow([PLAIN], columns=["value", "offset"], end_offset=2)
    assert chosen.schema.names == ["value", "offset"]
    assert chosen.to_pylist() == [{"value": b"", "offset": 0}, {"value": b"v", "offset": 1}]
    assert [len(each) for each in iterate_arrow([PLAIN], columns=[])] == [7]
    with pytest.raises(ValueError, match="no such columns: \\['nonsense'\\]"):
        decode_to_arrow([PLAIN], columns=["nonsense"])


def test_what_is_not_wanted_takes_no_memory(kernels: loader.Kernels) -> None:
    records = [Record(n, 5, bytes(1000), bytes(1000), (("h", bytes(1000)),)) for n in range(100)]
    (decoded,) = iterate_arrow([bytes(encode_batch(records))], columns=["offset"])
    assert decoded.nbytes == 800


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("codec", CODECS)
def test_a_large_record_is_not_copied(codec: str) -> None:
    size = LARGE_RECORD_BYTES
    headers = (("h", b"1"), ("n", None))
    records = [
        Record(0, 5, b"k", b"v", headers),
        Record(1, 6, b"key", b"\x01" * size, headers),
        Record(2, 7, None, b"v"),
    ]
    buffer = bytes(encode_batch(records, compression=codec))
    pieces = list(iterate_arrow([buffer], with_headers=True))
    assert (
        pa.Table.from_batches(pieces).to_pylist()
        == decode_to_arrow([buffer], with_headers=True).to_pylist()
    )
    (large,) = [piece for piece in pieces if piece["offset"].to_pylist() == [1]]
    if codec == "none":
        start = pa.py_buffer(buffer).address
        assert start < large["value"].buffers()[2].address < start + len(buffer)


@pytest.mark.usefixtures("kernels")
@QUICK
@given(st.data(), record_lists(max_size=12), st.sampled_from(["CreateTime", "LogAppendTime"]))
def test_records_as_if_all_were_large(
    data: st.DataObject, records: list[Record], timestamp_type: str
) -> None:
    buffer = bytes(encode_batch(records, timestamp_type=timestamp_type))
    columns = data.draw(st.lists(st.sampled_from(COLUMNS), unique=True, min_size=1))
    start_offset = data.draw(st.sampled_from([each.offset for each in records]))
    options: dict[str, Any] = {"columns": columns, "start_offset": start_offset, "partition": 2}
    with mock.patch.object(arrow_decode, "LARGE_RECORD_BYTES", 0):
        pieces = list(iterate_arrow([buffer], max_bytes=40, **options))
    whole = decode_to_arrow([buffer], **options)
    assert pa.Table.from_batches(pieces, whole.schema).equals(pa.Table.from_batches([whole]))
