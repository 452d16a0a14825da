"""Random bodies with every feature of their formats: our two rules, and Apache Kafka's classes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.plain.record import decode_batch
from drumlin.records.validation.append_rules import AppendRules
from drumlin.records.validation.validation import InvalidBatch, prepare_produce
from records.validation.odd_bodies import (
    EMPTY_LZ4_BLOCK,
    EMPTY_STORED_LZ4_BLOCK,
    gzip_member,
    lz4_frame,
    raw_snappy,
    skippable_frame,
    xerial,
    zstd_frame,
)
from rig.data.batches import Batch, Rec
from rig.depth import so_many
from rig.jvm.jars import java
from rig.jvm.kafka_bodies import KafkaBodies, digest
from rig.servers.apache_kafka import JVM

pytestmark = pytest.mark.kafka

NOW_MS = 1_700_000_000_000
#: The codes of batches that are refused: INVALID_RECORD and UNKNOWN_SERVER_ERROR.
_REFUSED = (87, -1)


@pytest.fixture(scope="module")
def kafka(kafka_classes: str) -> Iterator[KafkaBodies]:
    bodies = KafkaBodies([java(), *JVM], kafka_classes)
    yield bodies
    bodies.close()


class Odd(NamedTuple):
    """A batch, and how it came about."""

    codec: str
    records: tuple[Rec, ...]
    count: int
    payload: bytes

    def encode(self) -> bytes:
        return Batch(
            self.records[: self.count], codec=self.codec, payload=self.payload, timestamp=NOW_MS
        ).encode()


def _rarely(*others: object, usual: object = None) -> st.SearchStrategy:
    return st.sampled_from([usual] * 4 * len(others) + list(others))


def _gzip(data: bytes) -> st.SearchStrategy[bytes]:
    return st.builds(
        gzip_member,
        st.just(data),
        flags=st.just(0) | st.integers(0, 255),
        header_checksum=_rarely(1, usual=0),
        method=_rarely(7, usual=8),
        level=st.sampled_from([0, 1, 6]),
        checksum=_rarely(1, usual=0),
        size=_rarely(1, usual=0),
    )


def _snappy(data: bytes) -> st.SearchStrategy[bytes]:
    return st.builds(
        xerial,
        st.just(data),
        version=st.sampled_from([1, 1, 1, 0, 2, -1]),
        compatible=st.sampled_from([1, 1, 0, 2]),
        block_bytes=st.sampled_from([1, 7, 1000, 32 << 10]),
        empty_blocks=st.booleans(),
    ) | st.builds(raw_snappy, st.just(data), st.none() | st.integers(1, 7))


def _lz4(data: bytes) -> st.SearchStrategy[bytes]:
    return st.builds(
        lz4_frame,
        st.just(data),
        version=_rarely(0, 2, 3, usual=1),
        is_independent=_rarely(False, usual=True),
        block_checksum=_rarely(0, 0, 1),
        content_size=_rarely(0, 0, 1, -1, -len(data)),
        content_checksum=_rarely(0, 0, 1),
        dictionary_id=_rarely(0, 7),
        reserved=_rarely(1, usual=0),
        descriptor=_rarely(0x50, 0x60, 0x70, 0x30, 0x80, 0x41, usual=0x40),
        header_checksum=_rarely(1, usual=0),
        block_bytes=st.sampled_from([1, 7, 1000, 64 << 10]),
        is_stored=st.booleans(),
        empty_block=_rarely(EMPTY_LZ4_BLOCK, EMPTY_STORED_LZ4_BLOCK, usual=b""),
        has_end=_rarely(False, usual=True),
    )


def _zstd(data: bytes) -> st.SearchStrategy[bytes]:
    return st.builds(
        zstd_frame,
        st.just(data),
        block=st.sampled_from(["compressed", "raw", "run"]),
        is_single_segment=_rarely(True, usual=False),
        window=_rarely(0x00, 0x50, 0x88, 0x89, 0xA8, usual=0x38),
        unused=_rarely(1, usual=0),
        reserved=_rarely(1, usual=0),
        checksum=_rarely(0, 0, 1),
        dictionary=_rarely((1, 0), (3, 0), (1, 7), (2, 700)),
        content_size=_rarely((2, 0), (3, 0), (2, 1), (3, -1)),
    )


_STREAMS = {"gzip": _gzip, "snappy": _snappy, "lz4": _lz4, "zstd": _zstd}


@st.composite
def odd_batches(draw: st.DrawFn) -> Odd:
    """Records in one to three streams, with this and that before and after them."""
    codec = draw(st.sampled_from(sorted(_STREAMS)))
    sizes = draw(st.lists(st.sampled_from([0, 5, 40, 3000]), min_size=1, max_size=4))
    records = tuple(Rec(b"ab%d" % size * (size // 3), b"k") for size in sizes)
    encoded = [record.encode(index) for index, record in enumerate(records)]
    borders = sorted(draw(st.lists(st.integers(0, len(records)), max_size=2)))
    borders = [0, *borders, len(records)] if draw(st.booleans()) else [0, len(records)]
    streams = [
        draw(_STREAMS[codec](b"".join(encoded[start:end])))
        for start, end in itertools.pairwise(borders)
    ]
    count = draw(st.sampled_from([len(records), borders[1] or len(records)]))
    before = draw(_rarely(skippable_frame(), usual=b""))
    after = draw(
        _rarely(skippable_frame(), streams[0], b"\0", bytes(20), b"rubbish! " * 3, usual=b"")
    )
    payload = before + b"".join(streams) + after
    # Of a zstd frame that is cut off after others, Kafka gives whole blocks, and we do not.
    is_several = codec == "zstd" and len(streams) + len(after) > 1
    cut = 0 if is_several else draw(_rarely(1, 2, 5, 9, 30, usual=0))
    return Odd(codec, records, count, payload[: max(0, len(payload) - cut)])


@settings(max_examples=so_many(100, 1500))
@given(odd_batches())
def test_we_read_what_kafka_reads_and_take_less(kafka: KafkaBodies, odd: Odd) -> None:
    batch = odd.encode()
    verdict = kafka.of(batch)
    try:
        ours = digest(decode_batch(batch))
    except CorruptRecord:
        ours = None
    if verdict.records is not None:
        assert ours == verdict.records
    try:
        prepare_produce(bytearray(batch), AppendRules(), NOW_MS)
    except InvalidBatch as refused:
        assert refused.code in _REFUSED
        assert verdict.code or refused.code == _REFUSED[0]  # ours alone has its own code
    else:
        assert (verdict.code, verdict.records) == (0, ours)


def test_the_classes_judge_ordinary_batches(kafka: KafkaBodies) -> None:
    for codec in _STREAMS:
        records = (Rec(b"a", b"k"), Rec(None, None), Rec(b"b" * 30_000))
        batch = Batch(records, codec=codec, timestamp=NOW_MS).encode()
        assert kafka.of(batch) == (0, digest(decode_batch(batch)))
