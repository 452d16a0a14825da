"""Record batches in and out of Arrow, with kernels and without."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.records.batch.batch import iterate_headers, parse_header, seal, write_header
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.columns.columns import (
    RECORD_SCHEMA,
    RECORD_SCHEMA_WITH_HEADERS,
    encode_from_arrow,
    iterate_arrow,
    next_offset,
    partition_for_keys,
)
from drumlin.records.plain.record import Record, decode_batch, decode_records, encode_batch
from records.decoding import decode_to_arrow
from records.golden import ABORTED, BATCHES, RECORDS, TRANSACTIONS
from records.strategies import QUICK, damaged

pytestmark = pytest.mark.usefixtures("either_path")

NUMBERED = [Record(offset, 5, b"k%d" % offset, b"v%d" % offset) for offset in range(10)]


def as_records(batch: pa.RecordBatch) -> list[Record]:
    columns = [batch["offset"], batch["timestamp"].cast(pa.int64()), batch["key"], batch["value"]]
    headers = batch["headers"].to_pylist() if "headers" in batch.schema.names else [[]] * len(batch)
    rows = zip(*(column.to_pylist() for column in columns), headers, strict=True)
    return [
        Record(*fields, tuple((each["key"], each["value"]) for each in pairs))
        for *fields, pairs in rows
    ]


@pytest.mark.parametrize("codec", BATCHES)
def test_decodes_what_kafka_wrote(codec: str) -> None:
    batch = decode_to_arrow([BATCHES[codec]], partition=6, with_headers=True)
    assert batch.schema == RECORD_SCHEMA_WITH_HEADERS
    assert batch["partition"].to_pylist() == [6, 6, 6]
    assert batch["timestamp_type"].to_pylist() == [0, 0, 0]
    assert as_records(batch) == RECORDS


def test_nothing_fetched() -> None:
    assert decode_to_arrow([]).schema == RECORD_SCHEMA
    assert len(decode_to_arrow([b"", BATCHES["none"][:80]])) == 0
    assert next_offset(b"") is None


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    whole = encode_batch(NUMBERED[:5])
    rest = encode_batch(NUMBERED[5:])
    for size in range(len(rest)):
        fetched = bytes(whole + rest[:size])
        assert len(decode_to_arrow([fetched])) == 5
        assert next_offset(fetched) == 5


def test_offsets_are_trimmed() -> None:
    batches = [bytes(encode_batch(NUMBERED[first : first + 3])) for first in (0, 3, 6)]
    batch = decode_to_arrow([b"".join(batches)], start_offset=2, end_offset=7)
    assert batch["offset"].to_pylist() == [2, 3, 4, 5, 6]


def test_read_committed() -> None:
    everything = decode_to_arrow([TRANSACTIONS])
    assert everything["offset"].to_pylist() == [0, 1, 3, 4, 6]
    committed = decode_to_arrow([TRANSACTIONS], aborted=ABORTED)
    assert committed["value"].to_pylist() == [b"c0", b"c1"]
    assert next_offset(TRANSACTIONS) == 8


def test_a_producer_goes_on_after_an_abort() -> None:
    # One producer's aborted transaction, its marker, and then the same producer's next one.
    aborted, marker, later = (
        TRANSACTIONS[position : position + header.size]
        for position, header in list(iterate_headers(TRANSACTIONS))[:3]
    )
    committed = bytearray(later)
    write_header(committed, 0, parse_header(later)._replace(producer_id=ABORTED[0][0]))
    seal(committed, 0, len(committed))
    batch = decode_to_arrow([aborted + marker + bytes(committed)], aborted=ABORTED[:1])
    assert batch["offset"].to_pylist() == [3, 4]


def test_log_append_time() -> None:
    batch = decode_to_arrow([encode_batch(RECORDS, timestamp_type="LogAppendTime")])
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [1700000000005] * 3
    assert batch["timestamp_type"].to_pylist() == [1, 1, 1]


def test_batches_are_bounded() -> None:
    fetched = b"".join(bytes(encode_batch([record])) for record in NUMBERED)
    assert [len(batch) for batch in iterate_arrow([fetched], max_rows=4)] == [4, 4, 2]
    assert [len(batch) for batch in iterate_arrow([fetched], max_bytes=1)] == [1] * 10
    offsets = [batch["offset"][0].as_py() for batch in iterate_arrow([fetched], max_rows=4)]
    assert offsets == [0, 4, 8]


def test_header_keys_that_are_no_text() -> None:
    batch = encode_batch([Record(0, 5, None, None, (("kK", b"v"),))])
    batch[batch.index(b"K")] = 0xFF
    decoded = decode_to_arrow([batch], with_headers=True, verify_crc=False)
    assert decoded["headers"].to_pylist() == [[{"key": "k�", "value": b"v"}]]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_corruption(codec: str) -> None:
    batch = bytearray(encode_batch(NUMBERED, compression=codec))
    batch[-1] ^= 0xFF
    with pytest.raises(CorruptRecord, match="CRC"):
        decode_to_arrow([batch])
    older = bytearray(BATCHES["none"])
    older[16] = 1
    with pytest.raises(CorruptRecord, match="magic 1"):
        decode_to_arrow([older])


@QUICK
@given(st.data(), st.sampled_from([*BATCHES.values(), TRANSACTIONS]), st.booleans())
def test_damage_raises_nothing_else(data: Any, fetched: bytes, verify_crc: bool) -> None:
    with contextlib.suppress(CorruptRecord):
        odd = data.draw(damaged(fetched))
        decode_to_arrow([odd], aborted=ABORTED, verify_crc=verify_crc, with_headers=True)


@pytest.mark.parametrize("count", [-1, 4, 2**31 - 1])
def test_a_count_that_is_not_true(count: int) -> None:
    batch = bytearray(BATCHES["none"])
    write_header(batch, 0, parse_header(batch)._replace(record_count=count))
    with pytest.raises(CorruptRecord):
        decode_to_arrow([batch], verify_crc=False)


@pytest.mark.parametrize("compression", BATCHES)
def test_encodes_columns(compression: str) -> None:
    batch = decode_to_arrow([BATCHES["none"]], with_headers=True)
    (encoded,) = encode_from_arrow(
        batch["value"],
        keys=batch["key"],
        timestamps=batch["timestamp"],
        headers=batch["headers"],
        default_timestamp_ms=0,
        compression=compression,
    )
    assert decode_batch(encoded) == RECORDS
    if compression == "none":
        assert encoded[21:] == BATCHES["none"][21:]  # all but the leader epoch


def test_encodes_what_arrow_has_for_bytes() -> None:
    texts = ["a", None, "ccc"]
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()):
        (encoded,) = encode_from_arrow(pa.array(texts, kind), default_timestamp_ms=9)
        values = [record.value for record in decode_batch(encoded)]
        assert values == [b"a", None, b"ccc"], kind
    chunks = pa.chunked_array([["a"], [None, "ccc"]])
    (encoded,) = encode_from_arrow(chunks, default_timestamp_ms=9)
    assert [record.timestamp for record in decode_batch(encoded)] == [9, 9, 9]


def test_timestamps_of_any_unit() -> None:
    values = pa.array([b"v", b"v"])
    micros = pa.array([1_500_999, None], pa.timestamp("us"))
    (encoded,) = encode_from_arrow(values, timestamps=micros, default_timestamp_ms=9)
    assert [record.timestamp for record in decode_batch(encoded)] == [1500, 9]


def test_timestamps_too_far_apart() -> None:
    times = pa.array([-(2**63), 2**63 - 1])
    with pytest.raises(ValueError, match="row 1"):
        encode_from_arrow(pa.array([b"a", b"b"]), timestamps=times, default_timestamp_ms=0)


def test_chosen_rows() -> None:
    values = pa.array([b"%d" % number for number in range(10)])
    rows = np.array([7, 0, 3], np.int64)
    (encoded,) = encode_from_arrow(values, rows=rows, default_timestamp_ms=0)
    assert [record.value for record in decode_batch(encoded)] == [b"7", b"0", b"3"]
    assert encode_from_arrow(values, rows=rows[:0], default_timestamp_ms=0) == []


def test_batches_are_split() -> None:
    sizes = [10, 500, 5000, 10, 10]  # the third is too large for any batch
    values = pa.array([bytes(size) for size in sizes])
    batches = encode_from_arrow(
        values,
        default_timestamp_ms=0,
        max_batch_bytes=600,
        producer_id=3,
        producer_epoch=0,
        base_sequence=2**31 - 2,
    )
    headers = [parse_header(batch) for batch in batches]
    assert [header.record_count for header in headers] == [2, 1, 2]
    assert [header.base_sequence for header in headers] == [2**31 - 2, 0, 1]
    assert [header.size for header in headers] == [len(batch) for batch in batches]
    read = [len(record.value or b"") for batch in batches for record in decode_records(batch)]
    assert read == sizes


def test_a_header_without_a_key_is_refused() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": None, "value": b"x"}]], kind)
    with pytest.raises(ValueError, match="key"):
        encode_from_arrow(pa.array([b"v"]), headers=headers, default_timestamp_ms=0)


def test_partitions_of_keys() -> None:
    # Hashes that Kafka's own default partitioner gives, as partitions of 2^31 - 1.
    keys = [b"", b"a", b"21", b"foobar", b"a-little-bit-long-string", None]
    hashes = [275646681, 584102524, 1173551340, 1357151166, 1161502112, -1]
    assert partition_for_keys(pa.array(keys), 2**31 - 1).tolist() == hashes
    assert partition_for_keys(pa.array([], pa.binary()), 3).tolist() == []
    assert partition_for_keys(pa.array(["foobar"]), 7).tolist() == [1357151166 % 7]
