"""Compressed bodies as odd producers make them: what Produce takes of them, and what is read."""

from __future__ import annotations

import struct
import zlib

import pytest

from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.compression.arena import DecompressedTooLarge
from drumlin.records.compression.compression import CODECS
from drumlin.records.compression.stored_bodies import decoder_of, decompress
from drumlin.records.plain.record import decode_batch
from drumlin.records.validation.append_rules import AppendRules
from drumlin.records.validation.validation import InvalidBatch, prepare_produce
from drumlin.wire.error_codes import ErrorCode
from records.decoding import decode_to_arrow
from records.validation.odd_bodies import (
    EMPTY_LZ4_BLOCK,
    EMPTY_STORED_LZ4_BLOCK,
    gzip_member,
    lz4_block,
    lz4_frame,
    raw_snappy,
    skippable_frame,
    xerial,
    zstd_frame,
)
from rig.data.batches import Batch, Rec

NOW_MS = 1_700_000_000_000
RECORDS = tuple(Rec(b"%06d" % number * 4, b"k") for number in range(3))
_EACH = [record.encode(index) for index, record in enumerate(RECORDS)]
BODY = b"".join(_EACH)
FIRST, REST = _EACH[0], _EACH[1] + _EACH[2]

#: What each of Kafka's Java clients, librdkafka, sarama, franz-go and kafka-go reads.
READ_BY_ALL = {
    "gzip": gzip_member(BODY),
    "gzip: stored": gzip_member(BODY, level=0),
    "gzip: every flag that means something": gzip_member(BODY, flags=0x1F),
    "snappy": xerial(BODY),
    "snappy: raw": raw_snappy(BODY),
    "snappy: raw, its length in five bytes": raw_snappy(BODY, 5),
    "snappy: blocks of a byte": xerial(BODY, block_bytes=1),
    "snappy: empty blocks": xerial(BODY, block_bytes=9, empty_blocks=True),
    "snappy: version 2": xerial(BODY, version=2, compatible=2),
    "snappy: version 0": xerial(BODY, version=0, compatible=0),
    "lz4": lz4_frame(BODY),
    "lz4: stored": lz4_frame(BODY, is_stored=True),
    "lz4: blocks up to 4 MiB": lz4_frame(BODY, descriptor=0x70),
    "lz4: blocks of 7 bytes": lz4_frame(BODY, block_bytes=7),
    "lz4: checksums of blocks": lz4_frame(BODY, block_checksum=0),
    "lz4: its size": lz4_frame(BODY, content_size=0),
    "lz4: its checksum": lz4_frame(BODY, content_checksum=0),
    "lz4: all of them": lz4_frame(BODY, block_checksum=0, content_size=0, content_checksum=0),
    "zstd": zstd_frame(BODY),
    "zstd: raw": zstd_frame(BODY, block="raw"),
    "zstd: its checksum": zstd_frame(BODY, checksum=0),
    "zstd: its size": zstd_frame(BODY, content_size=(2, 0)),
    "zstd: one segment": zstd_frame(BODY, is_single_segment=True),
    "zstd: dictionary 0, which is none": zstd_frame(BODY, dictionary=(3, 0)),
    "zstd: the unused bit": zstd_frame(BODY, unused=1),
    "zstd: a window of 128 MiB": zstd_frame(BODY, window=0x88),
    "zstd: two frames": zstd_frame(FIRST) + zstd_frame(REST),
    "zstd: frames of users": skippable_frame() + zstd_frame(BODY) + skippable_frame(b""),
}

#: What Kafka's decoders read. Another client fails at it, or at one that is much like it.
READ_BY_KAFKA = {
    "gzip: two members": gzip_member(FIRST) + gzip_member(REST),
    "gzip: an empty member first": gzip_member(b"") + gzip_member(BODY),
    "gzip: an empty member last": gzip_member(BODY) + gzip_member(b""),
    "gzip: zeros after it": gzip_member(BODY) + bytes(16),
    "gzip: bytes after it": gzip_member(BODY) + b"rubbish! " * 1000,
    "gzip: a cut member after it": gzip_member(BODY) + gzip_member(BODY)[:18],
    "gzip: another method after it": gzip_member(BODY) + gzip_member(BODY, method=7),
    "gzip: flags that mean nothing": gzip_member(BODY, flags=0xFF),
    "snappy: two streams": xerial(FIRST) + xerial(REST),
    "snappy: an empty stream last": xerial(BODY) + xerial(b""),
    "snappy: three bytes after it": xerial(BODY) + b"abc",
    "snappy: half a magic after it": xerial(BODY) + xerial(b"")[:4] + b"x" * 12,
    "lz4: a size that is too large": lz4_frame(BODY, content_size=7),
    "lz4: a size of 0": lz4_frame(BODY, content_size=-len(BODY)),
    "lz4: a wrong checksum": lz4_frame(BODY, content_checksum=1),
    "lz4: a second frame, not counted": lz4_frame(BODY) + lz4_frame(REST),
    "lz4: an empty frame last": lz4_frame(BODY) + lz4_frame(b""),
    "lz4: a frame of users last": lz4_frame(BODY) + skippable_frame(),
    "lz4: bytes after it": lz4_frame(BODY) + b"rubbish",
    "lz4: a byte after it": lz4_frame(BODY) + b"\0",
    "lz4: an empty block last": lz4_frame(BODY, empty_block=EMPTY_LZ4_BLOCK),
    "lz4: an empty block for its end": lz4_frame(BODY, has_end=False) + EMPTY_STORED_LZ4_BLOCK,
    "zstd: a cut frame after it": zstd_frame(BODY) + zstd_frame(BODY)[:-1],
    "zstd: half a magic after it": zstd_frame(BODY) + zstd_frame(b"")[:3],
    "zstd: a cut frame of users after it": zstd_frame(BODY) + skippable_frame(zstd_frame(BODY))[:8],
}

#: What Kafka refuses, too.
READ_BY_NONE = {
    "gzip: empty": b"",
    "gzip: zlib's format": zlib.compress(BODY),
    "gzip: another method": gzip_member(BODY, method=7),
    "gzip: a wrong checksum": gzip_member(BODY, checksum=1),
    "gzip: a wrong size": gzip_member(BODY, size=1),
    "gzip: a wrong checksum of its header": gzip_member(BODY, flags=2, header_checksum=1),
    "gzip: no trailer": gzip_member(BODY)[:-8],
    "gzip: a damaged second member": gzip_member(FIRST) + gzip_member(REST, checksum=1),
    "snappy: empty": b"",
    "snappy: raw, cut": raw_snappy(BODY)[:-1],
    "snappy: raw, its length in six bytes": raw_snappy(BODY, 6),
    "snappy: half a header": xerial(BODY)[:12],
    "snappy: cut": xerial(BODY)[:-1],
    "snappy: a length of 0": xerial(BODY) + bytes(4),
    "snappy: a negative length": xerial(BODY) + b"\xff" * 4,
    "snappy: half a header after it": xerial(BODY) + xerial(b"")[:12],
    "snappy: a second stream of version 0": xerial(FIRST) + xerial(REST, version=0),
    "lz4: empty": b"",
    "lz4: blocks that depend on each other": lz4_frame(BODY, is_independent=False),
    "lz4: a dictionary": lz4_frame(BODY, dictionary_id=7),
    "lz4: the reserved bit": lz4_frame(BODY, reserved=1),
    "lz4: version 2": lz4_frame(BODY, version=2),
    "lz4: blocks of no size": lz4_frame(BODY, descriptor=0x30),
    "lz4: a reserved bit of the descriptor": lz4_frame(BODY, descriptor=0xC0),
    "lz4: a wrong checksum of its header": lz4_frame(BODY, header_checksum=1),
    "lz4: a wrong checksum of a block": lz4_frame(BODY, block_checksum=1),
    "lz4: no end": lz4_frame(BODY, has_end=False),
    "lz4: its checksum cut": lz4_frame(BODY, content_checksum=0)[:-1],
    "lz4: a frame of users first": skippable_frame() + lz4_frame(BODY),
    "lz4: the format before frames": b"\x02\x21\x4c\x18"
    + struct.pack("<I", len(lz4_block(BODY)))
    + lz4_block(BODY),
    "lz4: an empty frame first": lz4_frame(b"") + lz4_frame(BODY),
    "lz4: two frames": lz4_frame(FIRST) + lz4_frame(REST),
    "zstd: empty": b"",
    "zstd: cut": zstd_frame(BODY)[:-1],
    "zstd: a wrong checksum": zstd_frame(BODY, checksum=1),
    "zstd: a wrong size": zstd_frame(BODY, content_size=(2, 1)),
    "zstd: a dictionary": zstd_frame(BODY, dictionary=(1, 7)),
    "zstd: the reserved bit": zstd_frame(BODY, reserved=1),
    "zstd: a window of more than 128 MiB": zstd_frame(BODY, window=0x89),
    "zstd: bytes after it": zstd_frame(BODY) + b"rubbish!",
    "zstd: a byte after it": zstd_frame(BODY) + b"\0",
}


def batch_of(name: str, payload: bytes, base_offset: int = 0) -> bytes:
    """A batch of the three records; the name begins with the codec's."""
    codec = name.partition(":")[0]
    return Batch(
        RECORDS, codec=codec, payload=payload, timestamp=NOW_MS, base_offset=base_offset
    ).encode()


def values_in(batch: bytes) -> list[bytes | None]:
    return [record.value for record in decode_batch(batch)]


VALUES = [record.value for record in RECORDS]


def refusal(batch: bytes) -> InvalidBatch:
    with pytest.raises(InvalidBatch) as caught:
        prepare_produce(bytearray(batch), AppendRules(), NOW_MS)
    return caught.value


@pytest.mark.parametrize("name", READ_BY_ALL)
def test_what_all_clients_read_comes_in_and_is_read(name: str) -> None:
    batch = batch_of(name, READ_BY_ALL[name])
    assert values_in(batch) == VALUES
    prepared = prepare_produce(bytearray(batch), AppendRules(), NOW_MS)
    assert bytes(prepared.buffer) == batch


@pytest.mark.parametrize("name", READ_BY_KAFKA)
def test_what_only_kafka_reads_is_read_and_does_not_come_in(name: str) -> None:
    batch = batch_of(name, READ_BY_KAFKA[name])
    assert values_in(batch) == VALUES
    refused = refusal(batch)
    assert refused.code == ErrorCode.invalid_record
    assert "not every client can read that" in str(refused)
    assert "-2108469695" not in str(refused)


@pytest.mark.parametrize("name", READ_BY_NONE)
def test_what_kafka_does_not_read_does_not_come_in(name: str) -> None:
    batch = batch_of(name, READ_BY_NONE[name])
    assert refusal(batch).code in (ErrorCode.unknown_server_error, ErrorCode.invalid_record)
    with pytest.raises(CorruptRecord):
        decode_batch(batch)


@pytest.mark.parametrize("name", READ_BY_KAFKA)
def test_a_body_that_is_put_right_comes_in_no_more_than_others(name: str) -> None:
    rules = AppendRules(compression_type="zstd", timestamp_type="LogAppendTime")
    with pytest.raises(InvalidBatch):
        prepare_produce(bytearray(batch_of(name, READ_BY_KAFKA[name])), rules, NOW_MS)


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("name", [*READ_BY_ALL, *READ_BY_KAFKA])
def test_how_a_body_is_read_does_not_depend_on_its_neighbours(name: str) -> None:
    codec = name.partition(":")[0]
    payload = (READ_BY_ALL | READ_BY_KAFKA)[name]
    names = [codec, name, codec, codec, name]
    batches = [
        batch_of(each, payload if each == name else READ_BY_ALL[codec], 3 * index)
        for index, each in enumerate(names)
    ]
    table = decode_to_arrow([b"".join(batches)])
    assert table["value"].to_pylist() == VALUES * 5
    assert table["offset"].to_pylist() == list(range(15))


@pytest.mark.parametrize("name", [*READ_BY_ALL, *READ_BY_KAFKA])
def test_limits_hold_for_every_body(name: str) -> None:
    codec = CODECS[name.partition(":")[0]]
    payload = (READ_BY_ALL | READ_BY_KAFKA)[name]
    assert bytes(decompress(codec, payload, len(BODY))) == BODY
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, payload, len(BODY) - 1)
    assert decoder_of(codec)(memoryview(payload), memoryview(bytearray(len(BODY) - 1))) is None
    room = memoryview(bytearray(len(BODY) + 1))
    assert decoder_of(codec)(memoryview(payload), room) == len(BODY)
    assert room[:-1] == BODY
