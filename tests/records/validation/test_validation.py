"""What becomes of a produced batch. The expected codes and texts are Apache Kafka 4.3's."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.records.batch.batch import (
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    TIMESTAMP_TYPE_MASK,
    crc_matches,
    parse_header,
    seal,
    write_header,
)
from drumlin.records.compression.compression import CODECS, compress
from drumlin.records.plain.record import Record, decode_batch, encode_batch, encode_record
from drumlin.records.validation.validation import (
    AppendRules,
    InvalidBatch,
    prepare_at_once,
    prepare_produce,
)
from drumlin.wire.error_codes import ErrorCode
from records.strategies import THOROUGH, damaged

NOW = 1_700_000_000_000
RECORDS = [Record(index, NOW + index, b"k", b"v%d" % index) for index in range(3)]
COMPACTED = AppendRules(is_compacted=True)
STAMPED = AppendRules(timestamp_type="LogAppendTime")

pytestmark = pytest.mark.usefixtures("either_path")


def changed(batch: bytes | bytearray, *, sealed: bool = True, **fields: int) -> bytearray:
    copy = bytearray(batch)
    write_header(copy, 0, parse_header(copy)._replace(**fields))
    if sealed:
        seal(copy, 0, len(copy))
    return copy


def with_body(body: bytes, count: int, codec: int = 0) -> bytearray:
    batch = bytearray(encode_batch(RECORDS)[:HEADER_SIZE]) + body
    return changed(
        batch,
        batch_length=len(batch) - 12,
        record_count=count,
        last_offset_delta=count - 1,
        attributes=codec,
    )


def refusal(batch: bytes | bytearray, rules: AppendRules | None = None) -> InvalidBatch:
    with pytest.raises(InvalidBatch) as caught:
        prepare_produce(bytearray(batch), rules or AppendRules(), NOW, log_name="t-0")
    return caught.value


BATCH = encode_batch(RECORDS)
BODY = bytes(BATCH[HEADER_SIZE:])
HOLES = changed(
    encode_batch([Record(offset, NOW, b"k", b"v") for offset in (0, 2, 3)]), last_offset_delta=2
)

REFUSED: dict[str, tuple[ErrorCode, bytes | bytearray]] = {
    "nothing": (ErrorCode.invalid_record, b""),
    "less than a header": (ErrorCode.invalid_record, BATCH[:16]),
    "cut off": (ErrorCode.invalid_record, BATCH[:-1]),
    "two batches": (ErrorCode.invalid_record, BATCH + BATCH),
    "garbage behind": (ErrorCode.corrupt_message, BATCH + bytes(20)),
    "magic 0": (ErrorCode.invalid_record, changed(BATCH, magic=0)),
    "magic 1": (ErrorCode.invalid_record, changed(BATCH, magic=1)),
    "a header cut off": (ErrorCode.corrupt_message, changed(BATCH, sealed=False, batch_length=40)),
    "another CRC": (ErrorCode.corrupt_message, changed(BATCH, sealed=False, crc=1)),
    "a base offset": (ErrorCode.invalid_record, changed(BATCH, base_offset=5)),
    "fewer records": (
        ErrorCode.invalid_record,
        changed(BATCH, record_count=4, last_offset_delta=3),
    ),
    "more records": (
        ErrorCode.invalid_record,
        changed(BATCH, record_count=2, last_offset_delta=1),
    ),
    "count against deltas": (ErrorCode.invalid_record, changed(BATCH, record_count=2)),
    "deltas against count": (ErrorCode.invalid_record, changed(BATCH, last_offset_delta=1)),
    "deltas beyond count": (ErrorCode.invalid_record, changed(BATCH, last_offset_delta=5)),
    "no records": (ErrorCode.invalid_record, changed(BATCH, record_count=0, last_offset_delta=-1)),
    "a huge count": (
        ErrorCode.invalid_record,
        changed(BATCH, record_count=2**31 - 1, last_offset_delta=2**31 - 2),
    ),
    "control records": (ErrorCode.invalid_record, changed(BATCH, attributes=CONTROL_MASK)),
    "no sequence": (ErrorCode.invalid_record, changed(BATCH, producer_id=7, producer_epoch=0)),
    "codec 5": (ErrorCode.unknown_server_error, changed(BATCH, attributes=5)),
    "no gzip": (ErrorCode.unknown_server_error, changed(BATCH, attributes=CODECS["gzip"])),
    "compressed garbage": (
        ErrorCode.invalid_record,
        with_body(compress(CODECS["lz4"], b"\xff" * 30), 1, CODECS["lz4"]),
    ),
    "compressed rest": (
        ErrorCode.invalid_record,
        with_body(compress(CODECS["zstd"], BODY + b"x"), 3, CODECS["zstd"]),
    ),
    "record of no bytes": (ErrorCode.invalid_record, with_body(b"\x00", 1)),
    "record of -1 bytes": (ErrorCode.invalid_record, with_body(b"\x01", 1)),
    "-1 headers": (ErrorCode.invalid_record, with_body(bytes([12, 0, 0, 0, 1, 1, 1]), 1)),
    "50 headers": (ErrorCode.invalid_record, with_body(bytes([12, 0, 0, 0, 1, 1, 100]), 1)),
    "null header key": (
        ErrorCode.invalid_record,
        with_body(bytes([16, 0, 0, 0, 1, 1, 2, 1, 1]), 1),
    ),
    "rest in a record": (ErrorCode.invalid_record, with_body(bytes([14, 0, 0, 0, 1, 1, 0, 0]), 1)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    code, batch = REFUSED[case]
    error = refusal(batch)
    assert (error.code, error.message, error.record_errors) == (code, None, [])
    assert error.reason
    with suppress(InvalidBatch):
        assert prepare_at_once(bytearray(batch), AppendRules(), NOW) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"batch_length": -5}, "Record size -5 is less than the minimum record overhead (14)"),
        ({"magic": 3}, "Invalid magic found in record: 3"),
        ({"magic": -1}, "Invalid magic found in record: -1"),
    ],
)
def test_no_batch_at_all(fields: dict[str, int], message: str) -> None:
    error = refusal(changed(BATCH, sealed=False, **fields))
    assert (error.code, error.message) == (ErrorCode.corrupt_message, message)


@pytest.mark.parametrize("codec", CODECS)
def test_accepted_as_it_is(codec: str) -> None:
    batch = encode_batch(RECORDS, compression=codec)
    prepared = prepare_produce(memoryview(bytearray(batch + b"12345")), AppendRules(), NOW)
    assert prepared.buffer == batch
    assert prepared.header == parse_header(batch)
    assert prepared.log_append_time_ms == -1


def test_too_large() -> None:
    assert refusal(BATCH, AppendRules(len(BATCH) - 1)).code == ErrorCode.message_too_large
    prepare_produce(bytearray(BATCH), AppendRules(len(BATCH)), NOW)


def test_too_large_only_after_recompression() -> None:
    batch = encode_batch([Record(0, NOW, b"k", bytes(5000))], compression="gzip")
    rules = AppendRules(max_message_bytes=1000, compression_type="uncompressed")
    assert refusal(batch, rules).code == ErrorCode.message_too_large


def test_a_bomb_is_too_large() -> None:
    batch = with_body(compress(CODECS["zstd"], bytes(200 << 20)), 1, CODECS["zstd"])
    assert refusal(batch).code == ErrorCode.message_too_large


def test_zstd_needs_a_newer_version_of_produce() -> None:
    batch = encode_batch(RECORDS, compression="zstd")
    with pytest.raises(InvalidBatch) as caught:
        prepare_produce(batch, AppendRules(), NOW, allows_zstd=False)
    assert caught.value.code == ErrorCode.unsupported_compression_type


def test_null_keys_on_a_compacted_topic() -> None:
    keys = [None, b"k", None, None, None]
    batch = encode_batch([Record(index, NOW, key, b"v") for index, key in enumerate(keys)])
    prepare_produce(bytearray(batch), AppendRules(), NOW)
    error = refusal(batch, COMPACTED)
    text = "t-0 is compacted, so each record needs a key"
    assert error.code == ErrorCode.invalid_record
    assert error.record_errors == [(index, text) for index in (0, 2, 3, 4)]
    assert error.message == (
        f"bad records, by their place in the batch: 0: {text}; 2: {text}; 3: {text}; and 1 more"
    )


@pytest.mark.parametrize("distance_ms", [-10_001, 3_600_001])
def test_timestamps_out_of_range(distance_ms: int) -> None:
    rules = AppendRules(timestamp_before_max_ms=10_000)
    bad = NOW + distance_ms
    batch = encode_batch([Record(0, NOW, b"k", b"v"), Record(1, bad, b"k", b"v")])
    error = refusal(batch, rules)
    assert error.code == ErrorCode.invalid_timestamp
    assert error.message == "there are records whose timestamps are not allowed here"
    bounds = f"{NOW - 10_000} and {NOW + 3_600_000}"
    text = f"record 1 has timestamp {bad}, which is not between {bounds}"
    assert error.record_errors == [(1, text)]


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize(("at", "beyond"), [(-10_000, -1), (3_600_000, 1)])
def test_timestamps_at_their_limits(codec: str, at: int, beyond: int) -> None:
    rules = AppendRules(timestamp_before_max_ms=10_000)
    batch = encode_batch([Record(0, NOW + at, b"k", b"v")], compression=codec)
    assert prepare_produce(bytearray(batch), rules, NOW).buffer == batch
    batch = encode_batch([Record(0, NOW + at + beyond, b"k", b"v")], compression=codec)
    assert refusal(batch, rules).code == ErrorCode.invalid_timestamp


def folded(*runs: tuple[Record, int]) -> bytearray:
    """Runs of equal records, in some hundred bytes."""
    body = b"".join(encode_record(record, 0, NOW) * count for record, count in runs)
    codec, count = CODECS["zstd"], sum(count for _, count in runs)
    batch = with_body(bytes(compress(codec, body)), count, codec)
    return changed(batch, base_timestamp=NOW, max_timestamp=NOW)


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (Record(0, NOW, None, b""), ErrorCode.invalid_record),
        (Record(0, NOW + 7_200_000, b"", b""), ErrorCode.invalid_timestamp),
    ],
)
def test_what_is_said_of_bad_records_grows_with_what_was_sent(bad: Record, code: ErrorCode) -> None:
    batch = folded((bad, 150_000))
    assert len(batch) < 1_000
    error = refusal(batch, COMPACTED)
    assert error.code == code
    said = sum(len(text) for _, text in error.record_errors) + len(error.message or "")
    assert 0 < said < 20 * len(batch)
    good = Record(0, NOW, b"", b"")
    error = refusal(folded((good, 150_000), (bad, 1)), COMPACTED)  # nothing looks so far
    assert (error.code, error.record_errors) == (code, [])


def test_the_first_of_many_bad_records_are_named() -> None:
    batch = encode_batch([Record(index, NOW, None, b"v" * 20) for index in range(500)])
    error = refusal(batch, COMPACTED)
    assert [index for index, _ in error.record_errors] == list(range(100))
    assert error.message is not None
    assert error.message.endswith("; and perhaps more")


def test_no_timestamp_is_always_in_range() -> None:
    batch = encode_batch([Record(index, -1, b"k", b"v") for index in range(3)])
    rules = AppendRules(timestamp_before_max_ms=0, timestamp_after_max_ms=0)
    assert prepare_produce(batch, rules, NOW).header.max_timestamp == -1


def test_both_kinds_of_bad_record() -> None:
    far = NOW + 7_200_000
    batch = encode_batch([Record(0, far, b"k", b"v"), Record(1, far, None, b"v")])
    error = refusal(batch, COMPACTED)
    assert error.code == ErrorCode.invalid_timestamp
    assert [index for index, _ in error.record_errors] == [0, 1]


def test_a_producer_may_not_stamp() -> None:
    batch = changed(BATCH, attributes=TIMESTAMP_TYPE_MASK)
    error = refusal(batch, STAMPED)
    assert error.code == ErrorCode.invalid_timestamp
    index, text = error.record_errors[0]
    assert index == 0
    assert text == (
        f"record 0 with timestamp {NOW + 2} claims to have the time of its append, "
        "which a producer cannot know"
    )
    # Where producers' times count, Kafka lets the mark pass, and takes it away.
    assert not prepare_produce(batch, AppendRules(), NOW).header.is_log_append_time


def test_log_append_time() -> None:
    prepared = prepare_produce(bytearray(BATCH), STAMPED, NOW + 99)
    assert prepared.log_append_time_ms == NOW + 99
    assert crc_matches(prepared.buffer, 0, prepared.header)
    times = {record.timestamp for record in decode_batch(prepared.buffer)}
    assert times == {NOW + 99}


def test_a_wrong_max_timestamp_is_corrected() -> None:
    prepared = prepare_produce(changed(BATCH, max_timestamp=5), AppendRules(), NOW)
    assert prepared.header.max_timestamp == NOW + 2
    assert prepared.buffer == BATCH


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", [*CODECS, "uncompressed", "producer"])
def test_recompression(source: str, target: str) -> None:
    batch = encode_batch(RECORDS, compression=source, producer_id=4, base_sequence=9)
    prepared = prepare_produce(batch, AppendRules(compression_type=target), NOW)
    expected = {"uncompressed": 0, "producer": CODECS[source]}.get(target, CODECS.get(target))
    header = prepared.header
    assert header.compression == expected
    assert (header.producer_id, header.base_sequence) == (4, 9)
    assert header == parse_header(prepared.buffer)
    assert header.size == len(prepared.buffer)
    assert crc_matches(prepared.buffer, 0, header)
    assert decode_batch(prepared.buffer) == RECORDS


def test_a_delete_horizon_of_a_client_goes_with_recompression() -> None:
    batch = changed(BATCH, attributes=DELETE_HORIZON_MASK)
    prepared = prepare_produce(batch, AppendRules(compression_type="lz4"), NOW)
    assert not prepared.header.has_delete_horizon
    assert decode_batch(prepared.buffer) == RECORDS


@pytest.mark.parametrize("codec", CODECS)
def test_offset_deltas_are_renumbered(codec: str) -> None:
    body = bytes(HOLES[HEADER_SIZE:])
    batch = with_body(compress(CODECS[codec], body), 3, CODECS[codec])
    prepared = prepare_produce(batch, AppendRules(), NOW)
    assert [record.offset for record in decode_batch(prepared.buffer)] == [0, 1, 2]
    assert crc_matches(prepared.buffer, 0, prepared.header)


def test_raw_snappy_of_librdkafka() -> None:
    batch = with_body(bytes(cramjam.snappy.compress_raw(BODY)), 3, CODECS["snappy"])
    assert prepare_produce(bytearray(batch), AppendRules(), NOW).buffer == batch


REWRITES: list[Callable[[], AppendRules]] = [
    AppendRules,
    lambda: COMPACTED,
    lambda: STAMPED,
    lambda: AppendRules(compression_type="snappy"),
]


@THOROUGH
@given(data=st.data(), codec=st.sampled_from(list(CODECS)), rules=st.sampled_from(REWRITES))
def test_damage_is_refused_or_harmless(data: Any, codec: str, rules: Any) -> None:
    batch = encode_batch(RECORDS, compression=codec)
    odd = bytearray(data.draw(damaged(bytes(batch), first=17)))
    if len(odd) >= HEADER_SIZE:
        write_header(odd, 0, parse_header(odd)._replace(batch_length=len(odd) - 12, base_offset=0))
        seal(odd, 0, len(odd))
    try:
        prepared = prepare_produce(odd, rules(), NOW)
    except InvalidBatch:
        return
    # Whatever is accepted can be read by everybody later.
    records = decode_batch(prepared.buffer)
    assert [record.offset for record in records] == list(range(len(records)))
    assert crc_matches(prepared.buffer, 0, prepared.header)


# -- on an event loop ----------------------------------------------------------------------------


def decompressing_to(size: int, codec: str) -> bytearray:
    """A batch of one record whose records part has this many bytes."""
    around = len(encode_record(Record(0, NOW, None, b"v" * (size - 50)), 0, NOW)) - (size - 50)
    record = Record(0, NOW, None, b"v" * (size - around))
    assert len(encode_record(record, 0, NOW)) == size
    return bytearray(encode_batch([record], compression=codec))


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "none"])
def test_what_decompresses_to_more_than_32_kib_is_not_for_the_loop(codec: str) -> None:
    batch = decompressing_to(32 << 10, codec)
    prepared = prepare_at_once(batch, AppendRules(), NOW)
    assert prepared is not None
    assert bytes(prepared.buffer) == batch
    larger = decompressing_to((32 << 10) + 1, codec)
    before = bytes(larger)
    assert prepare_at_once(larger, AppendRules(), NOW) is None
    assert larger == before
    assert bytes(prepare_produce(larger, AppendRules(), NOW).buffer) == before


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "none"])
def test_much_that_is_compressed_is_not_for_the_loop(codec: str) -> None:
    noise = random.Random(1).randbytes(24 << 10)
    batch = bytearray(encode_batch([Record(0, NOW, None, noise)], compression=codec))
    assert prepare_at_once(batch, AppendRules(), NOW) is None
    assert prepare_produce(batch, AppendRules(), NOW).header.record_count == 1


def test_only_what_a_topic_takes_by_default_is_looked_at_by_the_loop(either_path: str) -> None:
    """Whatever its `max.message.bytes` is: fifty megabytes take too long to look at."""
    default = AppendRules().max_message_bytes
    rules = AppendRules(max_message_bytes=50 << 20)
    around = len(encode_batch([Record(0, NOW, None, bytes(10**6))])) - 10**6

    def of_size(size: int) -> bytearray:
        batch = bytearray(encode_batch([Record(0, NOW, None, bytes(size - around))]))
        assert len(batch) == size
        return batch

    is_passed = prepare_at_once(of_size(default), rules, NOW) is not None
    assert is_passed == (either_path == "kernels")
    larger = of_size(default + 1)
    assert prepare_at_once(larger, rules, NOW) is None
    assert bytes(prepare_produce(larger, rules, NOW).buffer) == larger
