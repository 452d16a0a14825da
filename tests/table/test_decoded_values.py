"""Values that are decoded as JSON: whatever `json.loads` makes of the bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.client.errors import Undecodable
from drumlin.client.table.options import Decoder

TEXTS = ['{"a": [1, -0.5e3, null, "ü\\n"]}', " [1]\r\n\t", "NaN", "-Infinity", '"\\ud800"', "1"]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-16-le", "utf-32", "utf-32-le"]
ODD = [
    b"",
    b" ",
    b"1 2",
    b"{",
    b"[1,]",
    b"\xff",
    b"1\x00",
    b'"\xed\xa0\x80"',
    b'"\x01"',
    "\xa01".encode(),
]


def as_json(value: bytes) -> Any:
    try:
        return repr(json.loads(value))
    except ValueError as error:
        return f"topic 't': the value of the key b'k': {error}"


def decoded(value: bytes) -> Any:
    try:
        return repr(Decoder("t", "json").value(b"k", value))
    except Undecodable as error:
        return str(error)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", TEXTS)
def test_json_in_each_encoding(text: str, encoding: str) -> None:
    assert decoded(text.encode(encoding)) == as_json(text.encode(encoding))


@pytest.mark.parametrize("value", ODD)
def test_what_is_no_json(value: bytes) -> None:
    assert decoded(value) == as_json(value)


def test_json_that_is_nested_too_deeply() -> None:
    assert "nested too deeply" in decoded(b"[" * 100_000)


@given(st.lists(st.sampled_from([*b'{}[]",:1e-tu \n\xef\xbb\xbf\x00\xff\xa0\xc2\\'])).map(bytes))
def test_any_bytes(value: bytes) -> None:
    assert decoded(value) == as_json(value)
