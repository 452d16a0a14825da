"""Pass 2 beside its plain twin and the rule of survival: the same bytes, stops and facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction.passes.batches import (
    KEYS,
    MAKES,
    NOW_MS,
    SEED,
    batch,
    cuts,
    filter_pass,
    logs,
    spoilt,
)
from compaction.passes.guarded import Fenced, at_the_edge
from compaction.passes.plain_map import PlainMap
from compaction.passes.rule_twin import survives
from drumlin.compaction.passes.passes import FilterRules, FilterStop, IndexEntry, Reason
from drumlin.records.batch.batch import (
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    crc_matches,
    iterate_headers,
    parse_header,
    seal,
    write_header,
)
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.plain.record import Record, decode_batch
from records.strategies import QUICK
from rig.depth import so_many

TWIN = settings(QUICK, max_examples=so_many(50, 150))
RETENTION_MS = 86_400_000


def a_map(offsets: dict[bytes, int] | None = None, latest_offset: int = 1 << 40) -> PlainMap:
    offset_map = PlainMap(5000, 0, seed=SEED)
    for key, offset in (offsets or {}).items():
        assert offset_map.put(key, offset)
    offset_map.latest_offset = latest_offset
    return offset_map


def rules(**options: Any) -> FilterRules:
    return FilterRules(**{"now_ms": NOW_MS, "delete_retention_ms": RETENTION_MS} | options)


def clean(
    make: str,
    log: bytes,
    offset_map: PlainMap,
    the_rules: FilterRules,
    *,
    room: int = 1 << 20,
    pieces: Sequence[int] = (1 << 30,),
    interval: int = -1,
) -> tuple[Any, bytes]:
    """The whole of pass 2, special batches left out, through an output of `room` bytes.

    All that can be seen of it, and what it has written.
    """
    a_pass = filter_pass(make, offset_map, the_rules, interval)
    output, written = Fenced(room), bytearray()
    entries: list[IndexEntry] = []
    position = filled = 0
    stop = FilterStop(Reason.END, 0, 0, "", 0, 0)
    for end in cuts(len(log), pieces):
        chunk = at_the_edge(log[position:end])
        place = 0
        while True:
            stop = a_pass.run(
                chunk,
                len(chunk),
                output.view,
                position=place,
                output_size=filled,
                file_position=len(written),
            )
            output.check()
            assert bytes(chunk) == log[position:end]
            entries += a_pass.entries
            place, filled = stop.position, stop.output_size
            if stop.reason is Reason.SPECIAL:
                place += stop.batch_size
            elif stop.reason is not Reason.FULL or (filled == 0 and stop.room_needed > room):
                break
            else:
                written += output.view[:filled]
                filled = 0
        position += place
        if stop.reason is not Reason.END:
            break
    written += output.view[:filled]
    last = (stop.reason, position, stop.batch_size, stop.fault, stop.room_needed)
    progress = (a_pass.largest_timestamp, a_pass.unindexed_bytes, a_pass.earliest_horizon_ms)
    return (last, entries, progress, a_pass.facts), bytes(written)


_maps = st.dictionaries(
    st.sampled_from([key for key in KEYS if key is not None]), st.integers(0, 400)
)


@st.composite
def any_rules(draw: st.DrawFn, offset_map: PlainMap) -> FilterRules:
    bitmap, start = None, 0
    if draw(st.booleans()):
        start = draw(st.integers(0, 50))
        bitmap = offset_map.survivors_bitmap(start, draw(st.integers(start, 500)))
    return rules(
        delete_retention_ms=draw(st.sampled_from([0, 1, 63, RETENTION_MS, 2**40, 2**63])),
        kept_empty=sorted(draw(st.sets(st.integers(0, 300), max_size=60))),
        bitmap=bitmap,
        bitmap_start=start,
    )


@TWIN
@given(st.data(), logs(special=True), _maps, st.integers(-1, 500))
def test_the_same_as_the_twin(
    data: st.DataObject, batches: list[bytearray], offsets: dict[bytes, int], latest: int
) -> None:
    log = b"".join(batches)
    if data.draw(st.booleans()):
        log = bytes(data.draw(spoilt(batches)))
    offset_map = a_map(offsets, latest)
    options: dict[str, Any] = {
        "room": data.draw(st.just(1 << 20) | st.integers(0, 2000)),
        "pieces": data.draw(st.just([1 << 30]) | st.lists(st.integers(1, 900), min_size=1)),
        "interval": data.draw(st.sampled_from([-1, 0, 300])),
    }
    the_rules = data.draw(any_rules(offset_map))
    outcomes = [clean(make, log, offset_map, the_rules, **options) for make in MAKES]
    assert outcomes[0] == outcomes[1]


@TWIN
@given(st.data(), logs(max_batches=1), _maps, st.integers(-1, 500))
def test_bodies_the_same_as_the_twin(
    data: st.DataObject, batches: list[bytearray], offsets: dict[bytes, int], latest: int
) -> None:
    log = batches[0]
    if data.draw(st.booleans()):
        log = data.draw(spoilt(batches))
    if len(log) < HEADER_SIZE:
        return
    header, offset_map = parse_header(log), a_map(offsets, latest)
    the_rules = data.draw(any_rules(offset_map))
    outcomes: list[Any] = []
    for make in MAKES:
        a_pass = filter_pass(make, offset_map, the_rules)
        try:
            left = a_pass.filter_body(at_the_edge(log[HEADER_SIZE:]), header)
        except CorruptRecord as corrupt:
            outcomes.append((str(corrupt), a_pass.facts))
        else:
            seen = (a_pass.facts, a_pass.earliest_horizon_ms)
            outcomes.append((left._replace(body=bytes(left.body)), seen))
    assert outcomes[0] == outcomes[1]


@QUICK
@given(st.binary(max_size=300), st.booleans())
def test_random_bytes(noise: bytes, with_magic: bool) -> None:
    log = bytearray(noise)
    if with_magic and len(log) > HEADER_SIZE:
        log[16], log[21], log[22] = 2, 0, 0
        log[8:12] = (len(log) - 12).to_bytes(4)
        seal(log, 0, len(log))
    outcomes = [clean(make, bytes(log), a_map(), rules()) for make in MAKES]
    assert outcomes[0] == outcomes[1]


def read(log: bytes) -> list[tuple[BatchHeader, list[Record]]]:
    """Batches, their headers checked against their records."""
    batches = []
    end = 0
    for position, header in iterate_headers(log):
        assert position == end
        end += header.size
        assert crc_matches(log, position, header)
        batches.append((header, decode_batch(log, position)))
    assert end == len(log)
    return batches


@QUICK
@given(logs(), _maps, st.integers(-1, 500))
def test_follows_the_rule_of_survival(
    batches: list[bytearray], offsets: dict[bytes, int], latest: int
) -> None:
    log = b"".join(batches)
    offset_map = a_map(offsets, latest)
    facts, written = clean("kernel", log, offset_map, rules())
    assert facts[0] == (Reason.END, len(log), 0, "", 0)
    expected = []
    for header, records in read(log):
        horizon_ms = header.base_timestamp if header.has_delete_horizon else None
        expected += [
            record
            for record in records
            if survives(
                record.offset,
                record.key,
                record.value,
                last_offset_of_key=offsets.get(record.key or b"", -1),
                horizon_ms=horizon_ms,
                round_end_offset=latest + 1,
                now_ms=NOW_MS,
            )
        ]
    # Keys, values, headers, timestamps and offsets, in their order.
    assert [record for _, records in read(written) for record in records] == expected


@pytest.fixture(params=MAKES)
def make(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def values(first: int, keys: Sequence[bytes | None], value: bytes | None = b"v") -> list[Record]:
    return [
        Record(first + index, NOW_MS - 1000 + index, key, value, (("header", b"x"),))
        for index, key in enumerate(keys)
    ]


def test_untouched_batches_are_copied_as_they_are(make: str) -> None:
    log = batch(values(0, [b"a", b"b"])) + batch(values(2, [b"c"]), last_offset=9)
    (stop, entries, progress, facts), written = clean(make, log, a_map({b"a": 0}), rules())
    assert written == log
    assert stop[0] is Reason.END
    first = parse_header(log)
    assert entries == [
        IndexEntry(1, 0, first.max_timestamp, 1),
        IndexEntry(9, first.size, first.max_timestamp, 1),
    ]
    assert progress[:2] == ((first.max_timestamp, 1), len(log) - first.size)
    assert (facts.batches_read, facts.batches_written, facts.records_written) == (2, 2, 3)
    assert facts.bytes_read == facts.bytes_written == len(log)


def test_what_a_rewritten_batch_keeps_and_what_changes(make: str) -> None:
    records = values(10, [b"a", None, b"b", b"a", b"c", b"b"])
    log = batch(records, base_offset=8, last_offset=20)
    (_, _, _, facts), written = clean(make, log, a_map({b"a": 13, b"b": 30, b"c": 14}), rules())
    ((header, kept),) = read(written)
    assert kept == [records[3], records[4]]
    old = parse_header(log)
    assert header == old._replace(
        batch_length=header.batch_length,
        crc=header.crc,
        max_timestamp=records[4].timestamp,
        record_count=2,
    )
    assert (facts.superseded, facts.keyless, facts.records_read) == (3, 1, 6)
    assert (facts.records_written, facts.bytes_written) == (2, len(written))


def test_log_append_time_stays(make: str) -> None:
    records = values(0, [b"a", b"b", b"c"])
    log = batch(records, attributes=TIMESTAMP_TYPE_MASK, max_timestamp=NOW_MS)
    _, written = clean(make, log, a_map({b"c": 9, b"b": 9}), rules())
    ((header, kept),) = read(written)
    assert (header.max_timestamp, header.is_log_append_time) == (NOW_MS, True)
    assert [record.timestamp for record in kept] == [NOW_MS]


def test_nothing_left(make: str) -> None:
    gone = batch(values(0, [b"a", b"a"]), base_offset=0, last_offset=4)
    log = gone + batch(values(5, [b"a"]))
    (_, entries, _, facts), written = clean(make, log, a_map({b"a": 5}), rules())
    assert written == log[len(gone) :]
    assert [entry.position for entry in entries] == [0]
    assert (facts.batches_read, facts.batches_written) == (2, 1)


@pytest.mark.parametrize("attributes", [0, TIMESTAMP_TYPE_MASK, DELETE_HORIZON_MASK])
def test_an_empty_batch_that_stays(make: str, attributes: int) -> None:
    log = batch(values(3, [b"a"]), base_offset=2, last_offset=4, attributes=attributes)
    the_rules = rules(kept_empty=[1, 4, 9])
    (_, _, progress, _), written = clean(make, log, a_map({b"a": 50}), the_rules)
    ((header, kept),) = read(written)
    old = parse_header(log)
    assert kept == []
    assert header == old._replace(
        batch_length=HEADER_SIZE - 12,
        crc=header.crc,
        attributes=attributes & ~DELETE_HORIZON_MASK,
        base_timestamp=-1,
        record_count=0,
    )
    assert progress[0] == (old.max_timestamp, 4)
    # It stays as it is the next time, and goes when nothing needs it any more.
    assert clean(make, written, a_map({b"a": 50}), the_rules)[1] == written
    assert clean(make, written, a_map({b"a": 50}), rules(kept_empty=[3, 5]))[1] == b""


def test_first_sight_of_a_tombstone_sets_the_horizon(make: str) -> None:
    records = [
        Record(0, NOW_MS - 5, b"a", b"value", (("h", None),)),
        Record(1, -1, b"b", None, (("h", b""),)),
        Record(2, NOW_MS + 2**41, b"c", b"v" * 120),
        Record(3, 0, b"d", b"v" * 114),  # becomes so long that its size needs another byte
    ]
    log = batch(records)
    (_, _, _, facts), written = clean(make, log, a_map({b"b": 1}), rules())
    ((header, kept),) = read(written)
    assert kept == records  # the same timestamps, against another base
    assert header.base_timestamp == NOW_MS + RETENTION_MS
    assert header.has_delete_horizon
    assert header.max_timestamp == NOW_MS + 2**41
    assert (facts.tombstones_kept, facts.tombstones_dropped) == (1, 0)
    # From then on it stays as it is, until the horizon.
    horizon = NOW_MS + RETENTION_MS
    assert clean(make, written, a_map(), rules(now_ms=horizon - 1))[1] == written
    (_, _, _, facts), written = clean(make, written, a_map(), rules(now_ms=horizon))
    ((header, kept),) = read(written)
    assert kept == [records[0], *records[2:]]
    assert (header.base_timestamp, header.has_delete_horizon) == (horizon, True)
    assert (facts.tombstones_kept, facts.tombstones_dropped) == (0, 1)


def test_a_superseded_tombstone_needs_no_horizon(make: str) -> None:
    log = batch([*values(0, [b"a"], None), *values(1, [b"b"])])
    _, written = clean(make, log, a_map({b"a": 7}), rules())
    ((header, _),) = read(written)
    assert not header.has_delete_horizon


def test_behind_the_round_nothing_is_touched(make: str) -> None:
    log = batch([*values(0, [b"a", None, b"b"]), *values(3, [b"b", b"a"], None)])
    offset_map = a_map({b"a": 90, b"b": 90}, latest_offset=-1)
    (_, _, _, facts), written = clean(make, log, offset_map, rules())
    assert written == log
    assert (facts.keyless, facts.superseded, facts.tombstones_kept) == (0, 0, 2)
    offset_map.latest_offset = 1
    ((_, kept),) = read(clean(make, log, offset_map, rules())[1])
    assert [record.offset for record in kept] == [2, 3, 4]


def test_a_batch_at_the_end_of_the_round_gets_its_horizon_from_the_next_one(make: str) -> None:
    # One tombstone was looked at, the other one was not: a horizon would be for both.
    log = batch(values(0, [b"a", b"b"], None))
    offset_map = a_map(latest_offset=0)
    assert clean(make, log, offset_map, rules())[1] == log
    body, header = memoryview(log)[HEADER_SIZE:], parse_header(log)
    assert filter_pass(make, offset_map, rules()).filter_body(body, header).is_unchanged
    offset_map.latest_offset = 1
    ((header, kept),) = read(clean(make, log, offset_map, rules())[1])
    assert (header.has_delete_horizon, len(kept)) == (True, 2)


def test_timestamps_too_far_from_a_horizon(make: str) -> None:
    log = batch([Record(0, -(2**63), b"a", None)])
    assert clean(make, log, a_map(), rules())[1] == log
    log = batch([Record(0, -(2**63) + NOW_MS + RETENTION_MS, b"a", None)])
    ((header, kept),) = read(clean(make, log, a_map(), rules())[1])
    assert header.has_delete_horizon
    assert kept[0].timestamp == -(2**63) + NOW_MS + RETENTION_MS


def test_bitmap_and_map_say_the_same(make: str) -> None:
    offset_map = PlainMap(5000, 0, seed=SEED)
    log = bytearray()
    for start in range(0, 400, 40):
        keys = [b"%d" % (offset * 31 % 97) for offset in range(start, start + 40)]
        log += batch(values(start, keys))
        for index, key in enumerate(keys):
            offset_map.put(key, start + index)
    offset_map.latest_offset = 399
    with_map = clean(make, log, offset_map, rules())
    for start, end in [(0, 400), (100, 300), (399, 400)]:
        bitmap = offset_map.survivors_bitmap(start, end)
        marked = rules(bitmap=bitmap, bitmap_start=start)
        if end == 300:
            # The last byte's spare bits say nothing of the offsets that they would stand for.
            marked = marked._replace(bitmap=offset_map.survivors_bitmap(start, start + 200))
        assert clean(make, log, offset_map, marked) == with_map


def test_a_full_output_is_emptied_and_the_pass_goes_on(make: str) -> None:
    log = batch(values(0, [b"a"])) + batch(values(1, [b"b"])) + batch(values(2, [b"c"]))
    size = len(log) // 3
    a_pass = filter_pass(make, a_map(), rules(), -1)
    output = bytearray(2 * size + 1)
    stop = a_pass.run(log, len(log), output)
    assert stop == FilterStop(Reason.FULL, 2 * size, size, "", 2 * size, size)
    stop = a_pass.run(log, len(log), output, position=stop.position, file_position=2 * size)
    assert stop == FilterStop(Reason.END, 3 * size, 0, "", size, 0)
    assert [entry.position for entry in a_pass.entries] == [2 * size]
    a_pass.next_offset = 0
    stop = a_pass.run(log, len(log), bytearray(size - 1))
    assert stop == FilterStop(Reason.FULL, 0, size, "", 0, size)


def test_room_for_a_batch_that_grows(make: str) -> None:
    log = batch(values(0, [b"a"], None))
    a_pass = filter_pass(make, a_map(), rules(), -1)
    stop = a_pass.run(log, len(log), bytearray(len(log)))
    assert stop.reason is Reason.FULL
    assert stop.room_needed > len(log)
    assert a_pass.facts.records_read == 0
    stop = a_pass.run(log, len(log), bytearray(stop.room_needed))
    assert (stop.reason, stop.position) == (Reason.END, len(log))
    assert a_pass.facts.records_read == 1


def test_more_index_entries_than_one_run_has_room_for(make: str) -> None:
    one = batch(values(0, [b"a"]))
    log = b"".join(batch(values(offset, [b"a"])) for offset in range(1500))
    assert len(log) == 1500 * len(one)
    (stop, entries, _, facts), written = clean(make, log, a_map(), rules())
    assert stop[0] is Reason.END
    assert written == log
    assert [entry.position for entry in entries] == list(range(0, len(log), len(one)))
    assert facts.batches_written == 1500


def test_what_changes_must_be_sound(make: str) -> None:
    log = batch(values(0, [b"a", b"b"]))
    log[-1] ^= 1  # within a header's value: only the CRC can tell
    (stop, _, _, _), written = clean(make, log, a_map({b"a": 5}), rules())
    assert (stop[0], written) == (Reason.CORRUPT, b"")
    assert "CRC" in stop[3]
    (stop, _, _, _), _ = clean(make, log, a_map({b"a": 5, b"b": 5}), rules())
    assert stop[0] is Reason.CORRUPT


def test_special_batches_are_the_callers(make: str) -> None:
    ordinary = batch(values(0, [b"a"]))
    special = batch(values(1, [b"a", b"b", b"c"]), attributes=TRANSACTIONAL_MASK)
    a_pass = filter_pass(make, a_map({b"a": 9, b"b": 2}), rules(kept_empty=[3]), -1)
    log = ordinary + special
    stop = a_pass.run(log, len(log), bytearray(1000))
    assert stop == FilterStop(Reason.SPECIAL, len(ordinary), len(special), "", 0, 0)
    header = parse_header(special)
    left = a_pass.filter_body(memoryview(special)[HEADER_SIZE:], header)
    assert (left.record_count, left.is_unchanged, left.is_dropped) == (2, False, False)
    assert left.max_timestamp == header.max_timestamp
    assert (left.base_timestamp, left.has_delete_horizon) == (header.base_timestamp, False)
    rewritten = bytearray(HEADER_SIZE) + left.body
    write_header(rewritten, 0, header._replace(record_count=2, batch_length=len(rewritten) - 12))
    assert [record.key for record in decode_batch(rewritten)] == [b"b", b"c"]
    assert a_pass.facts.superseded == 2
    again = a_pass.filter_body(bytes(rewritten[HEADER_SIZE:]), parse_header(rewritten))
    assert again.is_unchanged
    nothing = batch(values(1, [b"a"]), last_offset=3)
    left = a_pass.filter_body(nothing[HEADER_SIZE:], parse_header(nothing))
    assert (left.record_count, left.is_dropped) == (0, False)
    nothing = batch(values(1, [b"a"]), last_offset=4)
    assert a_pass.filter_body(nothing[HEADER_SIZE:], parse_header(nothing)).is_dropped


def test_progress_belongs_to_the_caller(make: str) -> None:
    log = batch(values(7, [b"a"]))
    a_pass = filter_pass(make, a_map(), rules(), 100)
    a_pass.unindexed_bytes, a_pass.largest_timestamp = 101, (NOW_MS, 3)
    a_pass.run(log, len(log), bytearray(1000), file_position=5000)
    assert a_pass.entries == [IndexEntry(7, 5000, NOW_MS, 3)]
    assert (a_pass.unindexed_bytes, a_pass.largest_timestamp) == (len(log), (NOW_MS, 3))
    a_pass.unindexed_bytes, a_pass.largest_timestamp, a_pass.next_offset = 0, (-1, -1), 0
    a_pass.run(log, len(log), bytearray(1000))
    assert a_pass.entries == []
    assert a_pass.largest_timestamp == (NOW_MS - 1000, 7)
