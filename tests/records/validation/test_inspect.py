"""The kernel that lets ordinary batches pass decides nothing: all is the same without it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.records.batch.batch import HEADER_SIZE, parse_header, seal, write_header
from drumlin.records.plain.record import Record, encode_batch
from drumlin.records.validation.validation import AppendRules, InvalidBatch, prepare_produce
from records.conftest import without_kernels
from records.strategies import THOROUGH, damaged, record_lists

pytestmark = pytest.mark.usefixtures("kernels")

NOW = 1_700_000_000_000
RULES = [
    AppendRules(),
    AppendRules(is_compacted=True),
    AppendRules(max_message_bytes=200),
    AppendRules(timestamp_before_max_ms=1000, timestamp_after_max_ms=0),
    AppendRules(timestamp_type="LogAppendTime"),
    AppendRules(compression_type="uncompressed"),
]
FIELDS = st.sampled_from(
    [
        "base_offset",
        "batch_length",
        "magic",
        "attributes",
        "last_offset_delta",
        "base_timestamp",
        "max_timestamp",
        "producer_id",
        "base_sequence",
        "record_count",
    ]
)
NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 8, 16, 32, 64, 127])


def outcome(batch: bytes, rules: AppendRules) -> Any:
    try:
        prepared = prepare_produce(bytearray(batch), rules, NOW)
    except InvalidBatch as refused:
        return refused.code, refused.message, refused.record_errors
    return bytes(prepared.buffer), prepared.header, prepared.log_append_time_ms


@THOROUGH
@given(st.data(), record_lists(), st.sampled_from(RULES))
def test_the_same_with_and_without(
    data: st.DataObject, records: list[Record], rules: AppendRules
) -> None:
    batch = bytearray(encode_batch(records))
    write_header(batch, 0, parse_header(batch)._replace(base_offset=0))
    if data.draw(st.booleans()):
        batch = bytearray(data.draw(damaged(bytes(batch))))
    if len(batch) >= HEADER_SIZE and data.draw(st.booleans()):
        field, number = data.draw(FIELDS), data.draw(NUMBERS)
        write_header(batch, 0, parse_header(batch)._replace(**{field: number}))
        seal(batch, 0, len(batch))
    with_kernels = outcome(bytes(batch), rules)
    with without_kernels():
        assert outcome(bytes(batch), rules) == with_kernels


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("distance_ms", [-1001, -1000, 0, 1])
def test_at_the_limits_of_time(rules: AppendRules, distance_ms: int) -> None:
    batch = bytes(encode_batch([Record(0, NOW + distance_ms, b"k", b"v")]))
    with_kernels = outcome(batch, rules)
    with without_kernels():
        assert outcome(batch, rules) == with_kernels
