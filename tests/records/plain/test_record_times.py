"""Times of records, found without the records."""

from __future__ import annotations

import contextlib
import tracemalloc
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.compression.compression import CODECS
from drumlin.records.plain.record import Record, decode_batch, encode_batch
from drumlin.records.plain.record_times import record_times
from records.strategies import QUICK, THOROUGH, damaged, record_lists


@QUICK
@given(
    record_lists(), st.sampled_from(list(CODECS)), st.sampled_from(["CreateTime", "LogAppendTime"])
)
def test_they_are_those_of_the_records(
    records: list[Record], codec: str, timestamp_type: str
) -> None:
    batch = encode_batch(records, compression=codec, timestamp_type=timestamp_type)
    expected = [(record.offset, record.timestamp) for record in decode_batch(batch)]
    assert list(record_times(batch)) == expected


@THOROUGH
@given(record_lists(), st.data())
def test_damage_is_met_or_passed_over(records: list[Record], data: st.DataObject) -> None:
    batch = data.draw(damaged(bytes(encode_batch(records))))
    times = None
    with contextlib.suppress(CorruptRecord):
        times = list(record_times(batch))
    with contextlib.suppress(CorruptRecord):
        assert times == [(record.offset, record.timestamp) for record in decode_batch(batch)]


def test_a_batch_without_a_header_is_refused() -> None:
    with pytest.raises(CorruptRecord):
        next(record_times(bytes(20)))


def test_a_batch_of_very_many_records_takes_little_memory() -> None:
    count = 50_000
    batch = encode_batch([Record(i, i, None, None) for i in range(count)], compression="zstd")
    tracemalloc.start()
    try:
        last = next(islice(record_times(batch), count - 1, None))
        assert last == (count - 1, count - 1)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 20 * count  # the records, unfolded, take some 10 each
