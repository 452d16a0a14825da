"""JSON values: what `json` wrote is what the columns hold, and no value passes for another."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin import SchemaError, ValueDecoder

TYPE = pa.struct(
    [
        ("a", pa.int64()),
        ("b", pa.string()),
        ("c", pa.float64()),
        ("d", pa.bool_()),
        ("e", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))),
        ("f", pa.date32()),
    ]
)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
_ITEMS = st.fixed_dictionaries({"x": st.none() | st.integers(-(2**31), 2**31 - 1), "y": _TEXT})
ROWS = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-(2**63), 2**63 - 1),
        "b": st.none() | _TEXT,
        "c": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "d": st.none() | st.booleans(),
        "e": st.none() | st.lists(_ITEMS, max_size=3),
        "f": st.none() | st.dates(),
    }
)
DECODER = ValueDecoder(TYPE)


def text_of(row: dict[str, Any], more: Any, indent: int | None) -> bytes:
    text = json.dumps({**row, "more": more}, default=str, indent=indent, ensure_ascii=False)
    return text.encode()


@given(st.lists(st.none() | st.tuples(ROWS, _TEXT, st.sampled_from([None, 1])), max_size=20))
def test_round_trip(rows: list[tuple[dict[str, Any], Any, int | None] | None]) -> None:
    values = pa.array([None if row is None else text_of(*row) for row in rows], pa.binary())
    found = DECODER.decode(values)
    assert found.values.to_pylist() == [None if row is None else row[0] for row in rows]
    assert found.reasons == {}


def test_values_that_cannot_stand_on_a_line_keep_their_rows() -> None:
    values = pa.array([b'{"a":\n0}', b'{"a":1}', b' {"a":2}', b'{"a":3}'], pa.binary())
    assert [each["a"] for each in DECODER.decode(values).values.to_pylist()] == [0, 1, 2, 3]


_FRAGMENTS = st.lists(
    st.sampled_from(
        ["{", "}", '{"a":1}', '{"a":', "1", "[", "]", '"', "\\", ",", "\n", " ", '"b"', "{}"]
    ),
    max_size=6,
).map("".join)


@given(st.lists(_FRAGMENTS, max_size=30))
def test_each_value_is_decoded_as_if_it_were_alone(texts: list[str]) -> None:
    """However values that lie side by side complete each other."""
    together = DECODER.decode(pa.array([each.encode() for each in texts], pa.binary()))
    for row, text in enumerate(texts):
        try:
            known = json.loads(text)
        except ValueError:
            known = None
        if not isinstance(known, dict):
            assert row in together.reasons
        elif row not in together.reasons:
            assert together.values[row].as_py()["a"] == known.get("a")
        else:
            assert not isinstance(known.get("a", 0), int)


_ODD = (
    b'{"a":1,"z":%s}' % (b'{"a":' * 1500 + b"1" + b"}" * 1500),
    b'{"a":1,"z":%s}' % (b"1" * 5000),
    *(
        b'{"a":1,"z":%s}' % each
        for each in (
            *(b"Inf", b"-Infinity", b"nan", b"1e400", b"01", b"1.", b".1", b"1_0", b"-", b"True"),
            *(b'"\t"', b'"\\ud800"', b'"\\q"', b'"\x7f\0"', b"[1,]", b"{,}", b"1}null{", b'"\xff"'),
        )
    ),
    *(b'{"a":1}\0}', b'{"a":1\x0b}', b'{"a":1 ,"":2}', b'{"a":1,"\\u0061":2}', b'{"a":-0}'),
    *(b'{"a":1}\r', b'{"a":1}\r{"a":2}', b'{"a":\r1}', b'{"b":"x\ry"}', b'{"b":"x\ny"}'),
    *(b'\xef\xbb\xbf{"a":1}', b"null", b'{"a":NaN}', b'{"c":NaN}', b'\x0b{"a":1}', b"", b" "),
)


@pytest.mark.parametrize("value", _ODD)
def test_a_value_is_good_or_bad_whatever_lies_beside_it(value: bytes) -> None:
    """And whatever white space is around it."""
    found = []
    for beside in ([], [b'{"a":1}'], [b"{not JSON}"], [b'{"a":1}\n', b"{}{}", b'{"a":"x"}']):
        for around in (b"", b" ", b"\n"):
            values = [*beside, value + around, *beside]
            decoded = DECODER.decode(pa.array(values, pa.binary()))
            row = len(beside)
            found.append(f"{row in decoded.reasons} {decoded.values[row].as_py()}")
    assert set(found) == {found[0]}


def test_what_is_not_wanted_may_be_of_any_depth_and_length() -> None:
    found = DECODER.decode(pa.array([*_ODD[:2], b"{not JSON}"], pa.binary()))
    assert [each and each["a"] for each in found.values.to_pylist()] == [1, 1, None]
    assert list(found.reasons) == [2]


@pytest.mark.parametrize(
    "odd", ["1e400", "[[-1e999]]", r'"\ud800"', r'"a\udc00"', r'{"\ud83d": 1}']
)
def test_what_is_not_wanted_may_be_more_than_a_parser_takes(odd: str) -> None:
    """JSON allows numbers of any size and halves of surrogate pairs, as cut texts have them."""
    kinds = [("sum", pa.decimal128(38, 2)), ("x", pa.float64()), ("e", TYPE.field("e").type)]
    decoder = ValueDecoder(pa.schema(kinds))
    digits = "123456789012345678901234567890.25"
    good = f'{{"x": 0.1, "e": [{{"x": 1, "z": {odd}}}], "sum": {digits}, "z": {odd}, "z": 1}}'
    twice = f'{{"x": 1, "x": 1, "z": {odd}}}'
    wanted = f'{{"e": [{{"y": {odd}}}]}}'
    large = f'{{"x": 1e400, "z": {odd}}}', f'{{"x": 1e99999999999999999999, "z": {odd}}}'
    rows = [each.encode() for each in ('{"x": 5}', good, twice, wanted, *large)]
    found = decoder.decode(pa.array(rows, pa.binary()))
    expected = {"sum": Decimal(digits), "x": 0.1, "e": [{"x": 1, "y": None}]}
    five = {"sum": None, "x": 5.0, "e": None}
    assert found.values.to_pylist() == [five, expected, *4 * [None]]
    assert set(found.reasons) == {2, 3, 4, 5}
    assert decoder.decode(pa.array(rows[1:2], pa.binary())).values.to_pylist() == [expected]


def test_bad_values_among_good_ones() -> None:
    good = [b'{"a":%d}' % number for number in range(1000)]
    values = [
        *good[:500],
        b"",
        b"\xff",
        b"[1]",
        b'{"a":"x"}',
        b'{"b":"\xff"}',
        b"{}{}",
        *good[500:],
    ]
    found = DECODER.decode(pa.array(values, pa.binary()))
    assert sorted(found.reasons) == list(range(500, 506))
    assert "UTF-8" in found.reasons[501] or "utf-8" in found.reasons[501]
    decoded = [each["a"] for each in found.values.to_pylist() if each is not None]
    assert decoded == list(range(1000))


def test_reasons_name_the_part() -> None:
    reasons = {
        b'{"a":"x"}': "value.a: a whole number was expected, not text",
        b'{"a":1.5}': "value.a: a whole number was expected, not a number",
        b'{"a":99999999999999999999}': "value.a: a number is too large for int64",
        b'{"e":[{"x":true}]}': "value.e[].x: a whole number was expected, not true or false",
        b"[]": "value: an object was expected, not an array",
        b"null": "an object was expected, not null",
        b'{"a":1,"a":2}': "twice",
        b'{"f":"no day"}': "no day",
    }
    found = DECODER.decode(pa.array(list(reasons), pa.binary()))
    for row, reason in enumerate(reasons.values()):
        assert reason in found.reasons[row]


@pytest.mark.parametrize("value", [b"[" * 1_000_000, b'{"z":' * 1_000_000, b'{"a":' + b"9" * 10**6])
def test_hostile_values(value: bytes) -> None:
    assert 0 in DECODER.decode(pa.array([value, b'{"a":1}'], pa.binary())).reasons


def test_times_and_decimals() -> None:
    wanted = pa.schema(
        [("at", pa.timestamp("us", tz="UTC")), ("day", pa.date32()), ("sum", pa.decimal128(9, 2))]
    )
    value = b'{"at":"2024-02-03T04:05:06.789+01:00","day":"2024-02-29","sum":12.5}'
    (found,) = ValueDecoder(wanted).decode(pa.array([value], pa.binary())).values.to_pylist()
    assert found == {
        "at": datetime(2024, 2, 3, 3, 5, 6, 789000, UTC),
        "day": date(2024, 2, 29),
        "sum": Decimal("12.50"),
    }


_TEXTS = (
    *("2024-01-01T00:00:00Z", "2024-01-01T00:00:00.123456Z", "2024-01-01T00:00:00+02:00"),
    *("2024-01-01T00:00:00", "2024-01-01 00:00:00", "2024-01-01", "0001-01-01T00:00:00Z"),
    *("20240101T000000Z", "2024-01-01T24:00:00Z", "2024-01-01T00:00Z", "2024-01-01T00:00:00.1Z"),
    *("2024-01-01T00:00:00-0230", "2024-01-01T00:00:00+02", "2024-01-01T00", "x", "", "2024-13-01"),
    *("2024-01-01T00:00:00.Z", " 2024-01-01", "2024-01-01T00Z", "2024-01-01T00:00:00.1234567890Z"),
)


@pytest.mark.parametrize("text", ["100000000", "-2147483649", "123456789.0", "1e8"])
@pytest.mark.parametrize("holder", ["%s", "[1, %s]", '{"x": %s}'])
def test_a_decimal_that_its_column_cannot_hold_is_bad(text: str, holder: str) -> None:
    """Arrow's parser takes it, as its digits are few; Spark would end the query with it."""
    kind = pa.decimal128(10, 2)
    kinds = {"[": pa.list_(kind), "{": pa.struct([("x", kind)])}
    decoder = ValueDecoder(pa.schema([("v", kinds.get(holder[0], kind))]))
    rows = [b'{"v": %s}' % (holder % each).encode() for each in ("99999999.99", text, "1e7")]
    for values in (rows, rows[1:2]):
        found = decoder.decode(pa.array(values, pa.binary()))
        found.values.validate(full=True)
        assert found.values.null_count == 1
        (reason,) = found.reasons.values()
        assert "a number is too large for decimal128(10, 2)" in reason


def test_times_with_nanoseconds_are_cut() -> None:
    """As they are written by Go, and by Java's Instant."""
    kinds = {"at": pa.timestamp("us", tz="UTC"), "local": pa.timestamp("us"), "s": pa.string()}
    inner = pa.list_(pa.struct(list(kinds.items())))
    decoder = ValueDecoder(pa.struct([*kinds.items(), ("l", inner), ("d", pa.date32())]))
    text = "2024-02-03T04:05:06.123456789"
    row = {"at": f"{text}Z", "local": text, "s": f"{text}Z"}
    zoned = {"at": f"{text[:-2]}+02:00", "local": f"{text}-02:00", "s": None}
    value = json.dumps({**row, "l": [row, None, zoned, {}], "d": "2024-02-29"}).encode()
    plain = b'{"at":"2024-02-03","l":null}'
    found = decoder.decode(pa.array([value, plain, b'{"at":"x"}', value], pa.binary()))
    assert list(found.reasons) == [2]
    first, second, _, last = found.values.to_pylist()
    at = datetime(2024, 2, 3, 4, 5, 6, 123456, UTC)
    local, hours = at.replace(tzinfo=None), timedelta(hours=2)
    one = {"at": at, "local": local, "s": f"{text}Z"}
    other = {"at": at - hours, "local": local + hours, "s": None}
    nothing = dict.fromkeys(kinds)
    assert first == last == {**one, "l": [one, None, other, nothing], "d": date(2024, 2, 29)}
    assert second["at"] == datetime(2024, 2, 3, tzinfo=UTC)


@pytest.mark.parametrize("text", _TEXTS)
@pytest.mark.parametrize("zone", ["UTC", None])
def test_a_time_is_the_same_beside_one_with_nanoseconds(text: str, zone: str | None) -> None:
    decoder = ValueDecoder(pa.struct([("at", pa.timestamp("us", tz=zone))]))
    value, nanoseconds = (
        b'{"at":"%s"}' % each for each in (text.encode(), b"2024-01-01T00:00:00.123456789")
    )
    alone = decoder.decode(pa.array([value], pa.binary()))
    beside = decoder.decode(pa.array([value, nanoseconds], pa.binary()))
    assert 1 not in beside.reasons
    assert (0 in alone.reasons) == (0 in beside.reasons)
    assert alone.values[0] == beside.values[0]


@pytest.mark.parametrize("part", [pa.map_(pa.string(), pa.int64()), pa.binary()])
def test_types_that_are_refused(part: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"value.x"):
        ValueDecoder(pa.struct([("x", part)]))


def test_slices_and_chunks() -> None:
    values = pa.array([b'{"a":%d}' % number for number in range(10)], pa.binary())
    chunked = pa.chunked_array([values.slice(2, 3), values.slice(7)])
    found = DECODER.decode(chunked).values
    assert [each["a"] for each in found.to_pylist()] == [2, 3, 4, 7, 8, 9]
