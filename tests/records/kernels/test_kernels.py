"""Every kernel against its slow twin: the same result, or both refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.records.batch.batch import HEADER_SIZE, parse_header, write_header
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.varint import varint
from drumlin.records.columns.columns import HEADERS_TYPE, encode_from_arrow, partition_for_keys
from drumlin.records.plain.record import Record, encode_batch
from drumlin.records.validation.survey import Survey, survey, survey_plain
from records.conftest import without_kernels
from records.decoding import decode_to_arrow
from records.strategies import QUICK, THOROUGH, damaged, record_lists

pytestmark = pytest.mark.usefixtures("kernels")

INT64 = st.integers(-(2**63), 2**63 - 1)


def outcome(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    try:
        return function(*arguments, **options)
    except CorruptRecord:
        return CorruptRecord


@THOROUGH
@given(st.data(), record_lists())
def test_survey(data: st.DataObject, records: list[Record]) -> None:
    body = bytes(encode_batch(records)[HEADER_SIZE:])
    if data.draw(st.booleans()):
        body = data.draw(damaged(body))
    count = len(records) + data.draw(st.sampled_from([0, 0, 0, 1]))
    base = data.draw(st.just(records[0].timestamp) | INT64)
    fast = outcome(survey, bytearray(body), count, base)
    assert fast == outcome(survey_plain, body, count, base)


def test_survey_of_read_only_bytes() -> None:
    records = [Record(index, 10 - index, None, b"v") for index in range(3)]
    body = bytes(encode_batch(records)[HEADER_SIZE:])
    assert survey(body, 3, 10) == Survey(8, 10, True, True)
    assert survey(memoryview(body), 3, 10) == Survey(8, 10, True, True)


@pytest.mark.parametrize("value", [0, -1, 2**31 - 1, -(2**31), 2**31, 2**33, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("field", [2, 3])
def test_integers_at_their_limits(value: int, field: int) -> None:
    # attributes, timestamp delta, offset delta, null key, null value, no headers
    fields = bytearray([0])
    fields += varint(value if field == 2 else 0)
    fields += varint(value if field == 3 else 0)
    fields += bytes([1, 1, 0])
    body = bytearray()
    for _ in range(2):
        body += varint(len(fields)) + fields
    for base in (0, 1, -2):
        assert outcome(survey, body, 2, base) == outcome(survey_plain, body, 2, base)


@THOROUGH
@given(st.data(), record_lists())
def test_decode(data: st.DataObject, records: list[Record]) -> None:
    batch = bytes(encode_batch(records))
    if data.draw(st.booleans()):
        batch = data.draw(damaged(batch, first=HEADER_SIZE))
        header = parse_header(batch)._replace(batch_length=len(batch) - 12)
        odd = data.draw(st.sampled_from([header.attributes, 0x08, 0x40, 0x48]))
        patched = bytearray(batch)
        base = data.draw(st.just(header.base_timestamp) | INT64)
        write_header(patched, 0, header._replace(attributes=odd, base_timestamp=base))
        batch = bytes(patched)
    first, last = records[0].offset, records[-1].offset
    options = {
        "start_offset": data.draw(st.integers(0, last + 1)),
        "end_offset": data.draw(st.just(2**63 - 1) | st.integers(first, last + 1)),
        "with_headers": data.draw(st.booleans()),
        "verify_crc": False,
        "partition": 3,
    }
    buffers = [batch + bytes(encode_batch(records)), memoryview(batch)]
    fast = outcome(decode_to_arrow, buffers, **options)
    with without_kernels():
        slow = outcome(decode_to_arrow, buffers, **options)
    if isinstance(fast, pa.RecordBatch):
        fast.validate(full=True)
        assert fast.equals(slow)
    else:
        assert fast is slow


@QUICK
@given(
    st.data(),
    record_lists(max_size=30),
    st.sampled_from([100, 300, 2000]),
    st.sampled_from(["none", "lz4"]),
)
def test_encode(
    data: st.DataObject, records: list[Record], max_batch_bytes: int, compression: str
) -> None:
    headers = [
        [{"key": key, "value": value} for key, value in record.headers] or None
        for record in records
    ]
    skipped = data.draw(st.integers(0, 3))  # arrays that begin within their buffers
    options: dict[str, Any] = {
        "keys": pa.array([record.key for record in records], pa.binary())[skipped:],
        "timestamps": pa.array([record.timestamp for record in records])[skipped:],
        "headers": pa.array(headers, HEADERS_TYPE)[skipped:] if data.draw(st.booleans()) else None,
        "default_timestamp_ms": 7,
        "max_batch_bytes": max_batch_bytes,
        "compression": compression,
    }
    values = pa.array([record.value for record in records], pa.binary())[skipped:]
    fast = encode_from_arrow(values, **options)
    with without_kernels():
        slow = encode_from_arrow(values, **options)
    assert fast == slow


@QUICK
@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(0, 9))
def test_murmur2(keys: list[bytes | None], skipped: int) -> None:
    array = pa.array(keys, pa.binary())[skipped:]
    fast = partition_for_keys(array, 1000)
    with without_kernels():
        slow = partition_for_keys(array, 1000)
    assert fast.tolist() == slow.tolist()
