"""Plain encoding and decoding, against Kafka's bytes and against each other."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.records.batch.batch import (
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    crc_matches,
    parse_header,
    seal,
    write_header,
)
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.compression.compression import CODECS
from drumlin.records.plain.record import (
    Record,
    decode_batch,
    decode_records,
    encode_batch,
    renumber,
    seal_body,
)
from records.golden import BATCHES, RECORDS, TRANSACTIONS
from records.strategies import QUICK, THOROUGH, damaged, record_lists


@pytest.mark.parametrize("codec", BATCHES)
def test_reads_what_kafka_wrote(codec: str) -> None:
    assert decode_batch(BATCHES[codec]) == RECORDS


def test_writes_what_kafka_stores() -> None:
    assert bytes(encode_batch(RECORDS, leader_epoch=0)) == BATCHES["none"]


def test_control_batches_are_skipped() -> None:
    values = [record.value for record in decode_records(TRANSACTIONS)]
    assert values == [b"a0", b"a1", b"c0", b"c1", b"a0"]


@QUICK
@given(record_lists(), st.sampled_from(list(CODECS)))
def test_round_trip(records: list[Record], codec: str) -> None:
    batch = encode_batch(records, compression=codec, producer_id=7, base_sequence=3)
    header = parse_header(batch)
    assert decode_batch(batch) == records
    assert crc_matches(batch, 0, header)
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert header.max_timestamp == max(record.timestamp for record in records)


def test_log_append_time_is_every_records_time() -> None:
    batch = encode_batch(RECORDS, timestamp_type="LogAppendTime")
    assert {record.timestamp for record in decode_batch(batch)} == {1700000000005}


def test_timestamps_count_from_the_delete_horizon() -> None:
    batch = encode_batch(RECORDS)
    header = parse_header(batch)
    horizon = header.base_timestamp + 1000
    changed = header._replace(attributes=DELETE_HORIZON_MASK, base_timestamp=horizon)
    write_header(batch, 0, changed)
    seal(batch, 0, len(batch))
    times = [record.timestamp for record in decode_batch(batch)]
    assert times == [record.timestamp + 1000 for record in RECORDS]


def test_renumber_closes_holes() -> None:
    holes = [Record(offset, 5, b"k", b"v" * offset) for offset in (0, 3, 70, 9000)]
    body = encode_batch(holes)[HEADER_SIZE:]
    expected = [Record(index, 5, b"k", holes[index].value) for index in range(4)]
    assert renumber(body, 4) == encode_batch(expected)[HEADER_SIZE:]


def test_refuses_older_formats() -> None:
    batch = bytearray(BATCHES["none"])
    batch[16] = 1
    with pytest.raises(CorruptRecord, match="magic 1"):
        decode_batch(batch)


@pytest.mark.parametrize("size", range(len(BATCHES["none"])))
def test_every_cut_is_refused(size: int) -> None:
    with pytest.raises(CorruptRecord):
        decode_batch(BATCHES["none"][:size])


def test_a_record_is_as_long_as_its_fields() -> None:
    # attributes, deltas of time and offset, null key and value, no headers
    fields = bytes([0, 0, 0, 1, 1, 0])
    assert decode_batch(seal_body(b"\x0c" + fields, 1, 0, 0)) == [Record(0, 0, None, None)]
    with pytest.raises(CorruptRecord, match="1 bytes after a record's last field"):
        decode_batch(seal_body(b"\x0e" + fields + b"\x00", 1, 0, 0))


@THOROUGH
@given(st.data(), st.sampled_from(list(BATCHES)))
def test_damage_raises_nothing_else(data: st.DataObject, codec: str) -> None:
    with contextlib.suppress(CorruptRecord):
        decode_batch(data.draw(damaged(BATCHES[codec])))
