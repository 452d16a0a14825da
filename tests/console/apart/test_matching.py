"""Filters in fetched bytes: every record is looked at once, and no more than asked for is shown."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from drumlin.console.apart.matching import matching
from drumlin.records.plain.record import Record, encode_batch

_VALUES = [json.dumps({"n": each, "tag": "even" if each % 2 == 0 else "odd"}) for each in range(50)]


def _batches(values: list[bytes | None], size: int = 20) -> bytes:
    records = [Record(at, 1_000 + at, b"k%d" % at, value) for at, value in enumerate(values)]
    starts = range(0, len(records), size)
    return b"".join(bytes(encode_batch(records[start : start + size])) for start in starts)


def _question(*where: str, **given: Any) -> dict[str, Any]:
    question = {"where": where, "aborted": [], "span": [0, 1_000], "partition": 3, "limit": 100}
    return question | {"cut_bytes": 1_000} | given


def _offsets(found: dict[str, Any]) -> list[int]:
    return [each["offset"] for each in found["rows"]]


@pytest.mark.parametrize(
    ("where", "offsets"),
    [
        (["value.n >= 47"], [47, 48, 49]),
        (["value.tag=odd", "value.n<4"], [1, 3]),
        (["key=k7"], [7]),
        (["value~even", "offset<3"], [0, 2]),
        (["partition=3", "offset=9"], [9]),
        (["partition=1"], []),
        (["value.absent"], []),
    ],
)
def test_conditions_choose_records(where: list[str], offsets: list[int]) -> None:
    found = matching(_question(*where), _batches([each.encode() for each in _VALUES]), None)
    assert _offsets(found) == offsets
    assert (found["looked"], found["too_large"], found["stopped_at"]) == (50, 0, None)


def test_a_page_ends_after_its_last_record_and_the_next_goes_on_there() -> None:
    records = _batches([each.encode() for each in _VALUES])
    start, looked, offsets = 0, 0, []
    while start is not None:
        found = matching(_question("value.tag=odd", limit=4, span=[start, 1_000]), records, None)
        assert len(found["rows"]) <= 4
        offsets += _offsets(found)
        looked += found["looked"]
        start = found["stopped_at"]
    assert offsets == list(range(1, 50, 2))
    assert looked == 50


def test_large_records_are_counted_and_not_looked_into() -> None:
    values: list[bytes | None] = [b'{"n": 1}', b'{"n": 1, "x": "' + b"x" * (1 << 20) + b'"}', None]
    found = matching(_question("value.n=1"), _batches(values), None)
    assert (_offsets(found), found["looked"], found["too_large"]) == ([0], 3, 1)


@pytest.mark.parametrize(
    "value",
    [b"[" * 100_000, b"\xff\x00", b"", None, b'{"n": 1e999}', b"9" * 10_000, b'{"n": NaN}'],
)
def test_odd_values_are_no_match_and_no_harm(value: bytes | None) -> None:
    found = matching(_question("value.n=1"), _batches([value, b'{"n": 1}']), None)
    assert _offsets(found) == [1]


class _Fields:
    """A registry's decoder that knows one value."""

    def decoded(self, fields: list[bytes]) -> tuple[dict[int, Any], dict[int, str]]:
        return {at: {"n": 5} for at, each in enumerate(fields) if each == b"\0\0\0\0\1x"}, {}

    def shown(self, fields: list[bytes], cut_bytes: int) -> list[dict[str, Any]]:
        return [{"text": f"{each.hex()}"[:cut_bytes]} for each in fields]


class _TextFields(_Fields):
    """... as a text."""

    def decoded(self, fields: list[bytes]) -> tuple[dict[int, Any], dict[int, str]]:
        values, reasons = super().decoded(fields)
        return {at: str(value["n"]) for at, value in values.items()}, reasons


def test_keys_are_compared_as_their_schema_has_them() -> None:
    framed = b"\0\0\0\0\1x"
    records = [Record(0, 1, framed, b"v"), Record(1, 1, b"x", b"v"), Record(2, 1, None, b"v")]
    found = matching(_question("key~5"), bytes(encode_batch(records)), _TextFields)
    assert _offsets(found) == [0]


def test_values_are_compared_as_their_schema_has_them() -> None:
    records = _batches([b"\0\0\0\0\1x", b"\0\0\0\0\2x", b'{"n": 5}', b"n"])
    found = matching(_question("value.n=5"), records, _Fields)
    assert _offsets(found) == [0, 2]
    first, second = found["rows"]
    assert first["value_by_schema"] == {"text": "000000000178"}
    assert base64.b64decode(first["value"]["base64"]) == b"\0\0\0\0\1x"
    assert "value_by_schema" not in second
