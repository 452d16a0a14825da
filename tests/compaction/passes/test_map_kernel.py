"""Pass 1 beside its plain twin: the same map, the same stops, on sound and on damaged logs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction.passes.batches import KEYS, MAKES, SEED, batch, logs, map_pass, spoilt
from compaction.passes.guarded import at_the_edge
from compaction.passes.plain_map import PlainMap
from drumlin.compaction.passes.passes import MapFacts, Reason, Stop
from drumlin.records.batch.batch import (
    CONTROL_MASK,
    HEADER_SIZE,
    TRANSACTIONAL_MASK,
    parse_header,
    seal,
    write_header,
)
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.plain.record import Record
from records.strategies import QUICK
from rig.depth import so_many

END = 1 << 40
TWIN = settings(QUICK, max_examples=so_many(50, 150))


def a_map(keys: int = 1000, base_offset: int = 0) -> PlainMap:
    return PlainMap(keys * 20 + 28, base_offset, load_factor=0.9, seed=SEED)


def content(offset_map: PlainMap) -> list[int | None]:
    return [offset_map.get(key) for key in KEYS if key is not None]


def go(make: str, log: bytes, offset_map: PlainMap, first: int, end: int) -> list[Any]:
    """The whole of pass 1, special batches passed over; all that can be seen of it."""
    chunk = at_the_edge(log)
    a_pass = map_pass(make, offset_map, first, end)
    stops = [a_pass.run(chunk, len(chunk))]
    while stops[-1].reason is Reason.SPECIAL:
        header = parse_header(chunk, stops[-1].position)
        position = stops[-1].position + header.size
        if a_pass.pass_over(header) is Reason.DONE:
            break
        stops.append(a_pass.run(chunk, len(chunk), position))
    assert bytes(chunk) == log
    seen: list[Any] = [stops]
    if stops[-1].reason is not Reason.CORRUPT:
        seen += [content(offset_map), offset_map.count, offset_map.latest_offset]
    if stops[-1].reason not in (Reason.CORRUPT, Reason.FULL):
        seen.append(a_pass.facts)
    return seen


@TWIN
@given(st.data(), logs(special=True), st.integers(0, 300), st.integers(0, 10))
def test_the_same_as_the_twin(
    data: st.DataObject, batches: list[bytearray], first: int, capacity: int
) -> None:
    log = bytes(
        data.draw(spoilt(batches) if data.draw(st.booleans()) else st.just(b"".join(batches)))
    )
    end = data.draw(st.just(END) | st.integers(0, 800))
    base = data.draw(st.integers(0, first))
    outcomes = [go(make, log, a_map(capacity, base), first, end) for make in MAKES]
    assert outcomes[0] == outcomes[1]


@TWIN
@given(st.data(), logs(max_batches=1), st.integers(0, 20))
def test_bodies_the_same_as_the_twin(
    data: st.DataObject, batches: list[bytearray], capacity: int
) -> None:
    log = batches[0]
    if data.draw(st.booleans()):
        log = data.draw(spoilt(batches))
    if len(log) < HEADER_SIZE:
        return
    header = parse_header(log)
    first, end = data.draw(st.integers(0, 100)), data.draw(st.just(END) | st.integers(0, 300))
    outcomes: list[Any] = []
    for make in MAKES:
        offset_map = a_map(capacity)
        a_pass = map_pass(make, offset_map, first, end)
        try:
            reason = a_pass.map_body(at_the_edge(log[HEADER_SIZE:]), header)
        except CorruptRecord as corrupt:
            outcomes.append(str(corrupt))
        else:
            outcomes.append((reason, content(offset_map), offset_map.latest_offset))
    assert outcomes[0] == outcomes[1]


@QUICK
@given(st.binary(max_size=300), st.booleans())
def test_random_bytes(noise: bytes, with_magic: bool) -> None:
    log = bytearray(noise)
    if with_magic and len(log) > HEADER_SIZE:
        log[16], log[21], log[22] = 2, 0, 0
        log[8:12] = (len(log) - 12).to_bytes(4)
        seal(log, 0, len(log))
    outcomes = [go(make, bytes(log), a_map(), 0, END) for make in MAKES]
    assert outcomes[0] == outcomes[1]


@pytest.fixture(params=MAKES)
def make(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def records(first: int, keys: list[bytes | None], value: bytes | None = b"v") -> list[Record]:
    return [Record(first + index, 1000, key, value) for index, key in enumerate(keys)]


def test_the_last_offset_of_every_key(make: str) -> None:
    log = batch(records(10, [b"a", b"b", None, b"a", b""])) + batch(records(20, [b"b", None]))
    offset_map = a_map()
    a_pass = map_pass(make, offset_map, 0, END)
    assert a_pass.run(log, len(log)) == Stop(Reason.END, len(log), 0, "")
    assert {key: offset_map.get(key) for key in (b"a", b"b", b"", b"c")} == {
        b"a": 13,
        b"b": 20,
        b"": 14,
        b"c": None,
    }
    assert offset_map.latest_offset == 21
    assert a_pass.facts == MapFacts(2, len(log), 7, 2)


def test_any_size_of_key(make: str) -> None:
    keys: list[bytes | None] = [bytes(size) for size in range(100)]
    size = 1 << (20 if make == "kernel" else 12)  # the plain one goes byte by byte
    keys += [bytes([1]) * size, bytes([1]) * (size + 1)]
    log = batch(records(0, keys))
    offset_map = a_map()
    assert map_pass(make, offset_map, 0, END).run(log, len(log)).reason is Reason.END
    assert [offset_map.get(key or b"") for key in keys] == list(range(len(keys)))


def test_tombstones_count(make: str) -> None:
    log = batch(records(0, [b"a"])) + batch(records(1, [b"a"], None))
    offset_map = a_map()
    map_pass(make, offset_map, 0, END).run(log, len(log))
    assert offset_map.get(b"a") == 1


def test_only_the_dirty_part(make: str) -> None:
    log = batch(records(0, [b"a"])) + batch(records(1, [b"b", b"c", b"d"]))
    offset_map = a_map(base_offset=2)
    log[0 + 17] ^= 1  # a CRC in the clean part is none of its business
    stop = map_pass(make, offset_map, 2, 3).run(log, len(log))
    assert (stop.reason, stop.position) == (Reason.DONE, parse_header(log).size)
    assert [offset_map.get(key) for key in (b"a", b"b", b"c", b"d")] == [None, None, 2, None]
    assert offset_map.latest_offset == 2


def test_a_batch_at_the_end_offset_is_not_looked_at(make: str) -> None:
    log = batch(records(0, [b"a"])) + batch(records(5, [b"b"]))
    log[-1] ^= 0xFF
    offset_map = a_map()
    assert map_pass(make, offset_map, 0, 5).run(log, len(log)).reason is Reason.DONE
    assert (offset_map.count, offset_map.latest_offset) == (1, 4)


def test_full_in_the_middle_of_a_batch(make: str) -> None:
    keys: list[bytes | None] = [b"%d" % index for index in range(30)]
    # Known keys find room even when it is full, and what has no key needs none.
    log = batch(records(0, keys[:20])) + batch(records(20, [*keys[:10], None, b"new", b"newer"]))
    offset_map = PlainMap(29 * 14, 0, load_factor=20 / 29, seed=SEED)
    assert offset_map.capacity == 20
    stop = map_pass(make, offset_map, 0, END).run(log, len(log))
    position = parse_header(log).size
    assert stop == Stop(Reason.FULL, position, len(log) - position, "")
    assert offset_map.latest_offset == 30
    found = [offset_map.get(b"%d" % index) for index in range(20)]
    assert found == [*range(20, 30), *range(10, 20)]
    assert offset_map.get(b"new") is None


def test_full_in_front_of_everything(make: str) -> None:
    log = batch(records(7, [b"a"]))
    offset_map = PlainMap(14, 0, seed=SEED)
    assert map_pass(make, offset_map, 7, END).run(log, len(log)).reason is Reason.FULL
    assert offset_map.latest_offset == 6


def test_full_where_offsets_are_too_far_apart(make: str) -> None:
    far = 2**32 - 1
    log = batch(records(0, [b"a"])) + batch(records(far - 1, [b"b", b"c"]))
    offset_map = a_map()
    assert map_pass(make, offset_map, 0, END).run(log, len(log)).reason is Reason.FULL
    assert [offset_map.get(key) for key in (b"a", b"b", b"c")] == [0, far - 1, None]
    assert offset_map.latest_offset == far - 1


def test_stops_in_front_of_special_batches(make: str) -> None:
    ordinary = batch(records(0, [b"a"]))
    for attributes in (TRANSACTIONAL_MASK, CONTROL_MASK, 1, 2, 3, 4, 5, 7):
        special = batch(records(1, [b"b"]), attributes=attributes)
        log = ordinary + special + batch(records(2, [b"c"]))
        offset_map = a_map()
        a_pass = map_pass(make, offset_map, 0, END)
        stop = a_pass.run(log, len(log))
        assert stop == Stop(Reason.SPECIAL, len(ordinary), len(special), "")
        assert offset_map.latest_offset == 0
        assert a_pass.map_body(bytes(special[HEADER_SIZE:]), parse_header(special)) is Reason.END
        assert offset_map.latest_offset == 1
        stop = a_pass.run(log, len(log), len(ordinary) + len(special))
        assert stop == Stop(Reason.END, len(log), 0, "")
        assert [offset_map.get(key) for key in (b"a", b"b", b"c")] == [0, 1, 2]


def test_passing_over(make: str) -> None:
    offset_map = a_map()
    a_pass = map_pass(make, offset_map, 5, 20)
    header = parse_header(batch(records(5, [None])))
    assert a_pass.pass_over(header._replace(base_offset=1)) is Reason.END
    assert offset_map.latest_offset == -1
    assert a_pass.pass_over(header) is Reason.END
    assert offset_map.latest_offset == 5
    assert a_pass.pass_over(header._replace(base_offset=20)) is Reason.DONE
    assert offset_map.latest_offset == 19


def test_every_cut(make: str) -> None:
    first, second = batch(records(0, [b"a", b"b"])), batch(records(2, [b"c"]))
    log = first + second
    for size in range(len(log) + 1):
        offset_map = a_map()
        stop = map_pass(make, offset_map, 0, END).run(at_the_edge(log[:size]), size)
        assert stop.reason is Reason.END
        whole = 0 if size < len(first) else len(first) if size < len(log) else len(log)
        assert stop.position == whole
        is_known = size - whole >= HEADER_SIZE
        expected = (len(first) if whole == 0 else len(second)) if is_known else 0
        assert stop.batch_size == expected
        assert offset_map.count == (0 if whole == 0 else 2 if whole == len(first) else 3)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"magic": 1}, "magic"),
        ({"batch_length": 48}, "smaller"),
        ({"batch_length": -1}, "smaller"),
        ({"base_offset": -1}, "header"),
        ({"base_offset": 2**63 - 1}, "header"),
        ({"last_offset_delta": -1}, "header"),
        ({"last_offset_delta": 0}, "ascend"),
        ({"record_count": -1}, "header"),
        ({"record_count": 1}, "malformed"),
        ({"record_count": 3}, "malformed"),
        ({"base_timestamp": 2**63 - 1}, "malformed"),
        ({"base_offset": 3}, "do not follow"),
    ],
)
def test_headers_that_cannot_be(make: str, changes: dict[str, int], fault: str) -> None:
    first = batch(records(0, [b"a", b"b", b"c", b"d"]))
    second = batch([Record(4, 1000, b"e", b""), Record(5, 1001, b"f", b"")])
    write_header(second, 0, parse_header(second)._replace(**changes))
    seal(second, 0, len(second))
    log = first + second
    stop = map_pass(make, a_map(), 0, END).run(log, len(log))
    assert (stop.reason, stop.position) == (Reason.CORRUPT, len(first))
    assert fault in stop.fault


def test_the_crc_of_any_size(make: str) -> None:
    log = b"".join(batch(records(size, [b"a"], bytes(size))) for size in range(1700))
    assert map_pass(make, a_map(), 0, END).run(bytearray(log), len(log)).position == len(log)


def test_every_flipped_bit_is_found(make: str) -> None:
    log = batch(records(0, [b"a", b"b"], b"x" * 900))  # several streams of the CRC
    places = list(range(21 * 8, len(log) * 8))
    for place in random.Random(1).sample(places, 500):
        damaged = bytearray(log)
        damaged[place // 8] ^= 1 << place % 8
        stop = map_pass(make, a_map(), 0, END).run(damaged, len(damaged))
        assert stop.reason in (Reason.CORRUPT, Reason.SPECIAL)


def test_records_in_wrong_order(make: str) -> None:
    wrong = batch([Record(1, 0, b"a", b""), Record(0, 0, b"b", b"")], base_offset=0, last_offset=1)
    stop = map_pass(make, a_map(), 0, END).run(wrong, len(wrong))
    assert stop.reason is Reason.CORRUPT
    assert "ascend" in stop.fault
