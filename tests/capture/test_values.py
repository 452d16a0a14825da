"""From PostgreSQL's text to JSON: golden pairs, and arrays and rows of any text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drumlin.capture.messages.pgoutput import UNCHANGED
from drumlin.capture.values.arrays import Elements, NoArray, parse_array
from drumlin.capture.values.copy_text import parse_line
from drumlin.capture.values.form import PlainJson, columns_of
from drumlin.capture.values.plain import json_converter
from drumlin.capture.values.rows import BadValue, RowFormat, StillUnknown, filled
from drumlin.capture.values.types import TypeInfo, Types

_TYPES = Types(
    [
        TypeInfo(1000, "_bool", 0, 16),
        TypeInfo(1007, "_int4", 0, 23),
        TypeInfo(1009, "_text", 0, 25),
        TypeInfo(1231, "_numeric", 0, 1700),
        TypeInfo(1020, "_box", 0, 603, ";"),
        TypeInfo(1185, "_timestamptz", 0, 1184),
        TypeInfo(5000, "cents", 1700, 0),
        TypeInfo(5001, "small", 23, 0),
        TypeInfo(5002, "_small", 0, 5001),
        TypeInfo(5003, "round", 5003, 0),
    ]
)


def _rows(table: str, key: list[str], /, **oids: int) -> RowFormat:
    columns = _TYPES.columns((name, oid, -1) for name, oid in oids.items())
    return PlainJson().rows_of(table, table, columns, key)


@pytest.mark.parametrize(
    ("oid", "text", "expected"),
    [
        (16, "t", "true"),
        (16, "f", "false"),
        (17, "\\x", '""'),
        (17, "\\x00ff10", '"AP8Q"'),
        (20, "-9223372036854775808", "-9223372036854775808"),
        (26, "4294967295", "4294967295"),
        (701, "0.1", "0.1"),
        (701, "5e-324", "5e-324"),
        (700, "-0", "-0"),
        (701, "NaN", '"NaN"'),
        (701, "-Infinity", '"-Infinity"'),
        (1700, "1.50", '"1.50"'),
        (1700, "NaN", '"NaN"'),
        (1700, "Infinity", '"Infinity"'),
        (1700, "1" + "0" * 400, f'"1{"0" * 400}"'),
        (25, 'a"b\\c\n', '"a\\"b\\\\c\\n"'),
        (25, "ü😀", '"ü😀"'),
        (3802, "null", '"null"'),
        (114, '{"a" : 1.50}', '"{\\"a\\" : 1.50}"'),
        (1082, "infinity", '"infinity"'),
        (1082, "5874897-12-31", '"5874897-12-31"'),
        (1114, "2024-02-29 12:00:00.123456", '"2024-02-29T12:00:00.123456"'),
        (1114, "-infinity", '"-infinity"'),
        (1184, "2024-02-29 12:00:00+00", '"2024-02-29T12:00:00Z"'),
        (1184, "4713-01-01 00:00:00+00 BC", '"4713-01-01T00:00:00Z BC"'),
        (1186, "P1Y-2DT3H4M5.6S", '"P1Y-2DT3H4M5.6S"'),
        (2950, "03b9d8e4-1cd2-d1ca-1edd-47e16a1aa07f", '"03b9d8e4-1cd2-d1ca-1edd-47e16a1aa07f"'),
        (3904, "[1,5)", '"[1,5)"'),
        (5000, "0.10", '"0.10"'),
        (5001, "7", "7"),
        (5003, "?", '"?"'),
        (99999, "unknown", '"unknown"'),
        (1000, "{t,f,NULL}", "[true,false,null]"),
        (1007, "{}", "[]"),
        (1007, "{{1,2},{3,NULL}}", "[[1,2],[3,null]]"),
        (1007, "[0:1]={1,2}", '"[0:1]={1,2}"'),
        (1009, '{NULL,"NULL","a,b","\\"\\\\"}', '[null,"NULL","a,b","\\"\\\\"]'),
        (1231, "{NaN,1.50}", '["NaN","1.50"]'),
        (1020, "{(1,1),(0,0);(2,2),(1,1)}", '["(1,1),(0,0)","(2,2),(1,1)"]'),
        (1185, '{"2024-02-29 12:00:00+00"}', '["2024-02-29T12:00:00Z"]'),
        (5002, "{1}", "[1]"),
    ],
)
def test_text_becomes_json(oid: int, text: str, expected: str) -> None:
    found = json_converter(_TYPES.kind(oid))(text)
    assert found == expected
    json.loads(found)


@pytest.mark.parametrize(
    ("oid", "text"),
    [(16, "true"), (17, "abc"), (17, "\\x0"), (20, "1.0"), (20, "¹"), (701, "one"), (1007, "1")],
)
def test_text_of_no_value_is_refused_by_name(oid: int, text: str) -> None:
    shape = _rows("s.t", ["id"], id=23, c=oid)
    with pytest.raises(BadValue, match=r"table s.t, column 'c'"):
        shape.value(["1", text])


def _quoted(element: Any) -> str:
    if element is None:
        return "NULL"
    if isinstance(element, list):
        return "{" + ",".join(_quoted(each) for each in element) + "}"
    return '"' + str(element).replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(st.recursive(st.lists(st.none() | st.text()), lambda inner: st.lists(inner), max_leaves=8))
def test_arrays_of_any_text(elements: Elements) -> None:
    try:
        assert parse_array(_quoted(elements)) == elements
    except NoArray:
        assert _quoted(elements).count("{") > 6


@given(st.text(alphabet='{}",;\\N1 a'))
@example("{")
@example('{"\\')
@example("{,}")
def test_no_arrays(text: str) -> None:
    try:
        parse_array(text)
    except NoArray as error:
        assert str(error)


@given(
    st.dictionaries(st.text(min_size=1), st.none() | st.text(), min_size=1),
    st.sets(st.integers(0, 5)),
)
def test_rows_come_back(row: dict[str, str | None], large: set[int]) -> None:
    """Columns as they were written, for those that a later change does not send."""
    shape = _rows("t", [next(iter(row))], **dict.fromkeys(row, 25))
    value = shape.value(list(row.values()))
    assert json.loads(value) == row
    before = columns_of(value)
    assert {name: json.loads(each) for name, each in before.items()} == row
    later = [UNCHANGED if place in large else each for place, each in enumerate(row.values())]
    assert shape.value(later, shape.earlier(value)) == value
    if UNCHANGED in later:
        with pytest.raises(StillUnknown):
            shape.value(later)


def test_numbers_come_back_as_they_were_written() -> None:
    text = '{"a":1e400,"b":[1.50,{"c":-0}],"d":12345678901234567890.10}'
    assert columns_of(text) == {
        "a": "1e400",
        "b": '[1.50,{"c":-0}]',
        "d": "12345678901234567890.10",
    }
    assert columns_of("{}") == {}


@pytest.mark.parametrize("text", ["", "[]", "null", '{"a" :1}', '{"a":', '{"a"'])
def test_what_others_have_written(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        columns_of(text)


def test_a_full_old_row_fills_in() -> None:
    assert filled(["1", UNCHANGED, UNCHANGED], ["1", "big", None]) == ["1", "big", UNCHANGED]
    assert filled(["1", UNCHANGED], None) == ["1", UNCHANGED]


def test_keys() -> None:
    shape = _rows("t", ["b", "a"], a=25, b=23, c=25)
    assert shape.key(["x", "1", None]) == '{"b":1,"a":"x"}'
    assert shape.key(["x", None, None]) is None
    assert shape.key([UNCHANGED, "1", None]) is None


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("1\ta\n", ["1", "a"]),
        ("\\N\t\n", [None, ""]),
        ("\\\\N\tx\\\\\n", ["\\N", "x\\"]),
        ("a\\tb\\nc\\\\n\n", ["a\tb\nc\\n"]),
        ("\\b\\f\\r\\v\n", ["\b\f\r\v"]),
        ("\n", [""]),
    ],
)
def test_lines_of_copy(line: str, values: list[str | None]) -> None:
    assert parse_line(line) == values
