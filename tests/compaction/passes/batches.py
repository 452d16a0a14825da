"""Batches as a cleaner meets them: any kind, any damage, and both makes of the passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from compaction.passes.plain_map import PlainMap
from compaction.passes.plain_passes import PlainFilterPass, PlainMapPass
from drumlin.compaction.passes.kernel_passes import FilterPass, MapPass
from drumlin.compaction.passes.passes import FilterRules
from drumlin.records.batch.batch import (
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    seal,
    write_header,
)
from drumlin.records.kernels import compaction_kernels
from drumlin.records.plain.record import Record, encode_record

SEED = bytes(range(16))
MAKES = ("kernel", "plain")
NOW_MS = 1_700_000_000_000
KEYS = (
    b"",
    b"a",
    b"b",
    b"seven77",
    b"eight888",
    b"nine99999",
    b"k" * 40,
    b"0123456789abcdef",
    None,
)


def map_pass(
    make: str, offset_map: PlainMap, first_offset: int, end_offset: int
) -> MapPass | PlainMapPass:
    if make == "plain":
        return PlainMapPass(offset_map, first_offset, end_offset)
    return MapPass(compaction_kernels.required(), offset_map, first_offset, end_offset)


def filter_pass(
    make: str, offset_map: PlainMap, rules: FilterRules, interval: int = -1
) -> FilterPass | PlainFilterPass:
    if make == "plain":
        return PlainFilterPass(offset_map, rules, interval)
    return FilterPass(compaction_kernels.required(), offset_map, rules, interval)


def batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    attributes: int = 0,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
) -> bytearray:
    """A sealed batch, its header as it is wanted; `base_timestamp` may be a delete horizon."""
    base_offset = records[0].offset if base_offset is None else base_offset
    last_offset = records[-1].offset if last_offset is None else last_offset
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else -1
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=-1)
    body = b"".join(encode_record(record, base_offset, base_timestamp) for record in records)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_SIZE - LOG_OVERHEAD + len(body),
        leader_epoch=3,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=77,
        producer_epoch=5,
        base_sequence=1000,
        record_count=len(records),
    )
    sealed = bytearray(HEADER_SIZE) + body
    write_header(sealed, 0, header)
    seal(sealed, 0, len(sealed))
    return sealed


_values = st.none() | st.binary(max_size=20) | st.binary(min_size=120, max_size=130)
_headers = st.just(()) | st.lists(
    st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=2
).map(tuple)
_timestamps = st.integers(NOW_MS - 10_000, NOW_MS) | st.sampled_from([-1, 0, 2**61, -(2**61)])
_kinds = st.sampled_from(
    [
        0,
        0,
        0,
        0,
        DELETE_HORIZON_MASK,
        TIMESTAMP_TYPE_MASK,
        DELETE_HORIZON_MASK | TIMESTAMP_TYPE_MASK,
    ]
)
_special_kinds = st.sampled_from([TRANSACTIONAL_MASK, CONTROL_MASK, 1, 2, 3, 4, 7])


@st.composite
def logs(draw: st.DrawFn, special: bool = False, max_batches: int = 6) -> list[bytearray]:
    """Batches with ascending offsets and holes between them, some of them empty."""
    offset = draw(st.integers(0, 50))
    batches = []
    for _ in range(draw(st.integers(1, max_batches))):
        base_offset = offset
        records = []
        for _ in range(draw(st.sampled_from([0, 1, 2, 3, 5, 5, 5, 70]))):
            offset += draw(st.sampled_from([0, 0, 0, 1, 200]))
            records.append(
                Record(
                    offset,
                    draw(_timestamps),
                    draw(st.sampled_from(KEYS)),
                    draw(_values),
                    draw(_headers),
                )
            )
            offset += 1
        last_offset = max(base_offset, offset - 1) + draw(st.sampled_from([0, 0, 3]))
        kind = draw(_kinds)
        if special and draw(st.integers(0, 3)) == 0:
            kind |= draw(_special_kinds)
        horizon = draw(st.sampled_from([NOW_MS - 1, NOW_MS, NOW_MS + 1]))
        batches.append(
            batch(
                records,
                base_offset=base_offset,
                last_offset=last_offset,
                attributes=kind,
                base_timestamp=horizon if kind & DELETE_HORIZON_MASK else None,
            )
        )
        offset = last_offset + 1 + draw(st.sampled_from([0, 0, 5]))
    return batches


@st.composite
def spoilt(draw: st.DrawFn, batches: list[bytearray]) -> bytearray:
    """The batches in a row, with damage; its CRC may be right all the same."""
    log = bytearray()
    for each in batches:
        changed = bytearray(each)
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            position = draw(st.integers(0, len(changed) - 1) | st.integers(0, HEADER_SIZE - 1))
            odd = st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]) | st.integers(0, 255)
            changed[position] = draw(odd)
            if draw(st.integers(0, 4)):
                seal(changed, 0, len(changed))
        log += changed
    if draw(st.integers(0, 3)) == 0:
        del log[draw(st.integers(0, len(log))) :]
    return log


def cuts(total: int, sizes: Sequence[int]) -> Iterator[int]:
    """Ends of pieces whose sizes come around again and again, up to `total`."""
    end, index = 0, 0
    while end < total:
        end = min(total, end + sizes[index % len(sizes)])
        index += 1
        yield end
