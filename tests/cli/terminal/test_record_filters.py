"""Conditions on records: what people type is compared with one field, or is refused in words."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest

from drumlin.cli.terminal.record_filters import parse_conditions

VALUE = {"amount": 100, "rate": 1.5, "user": {"name": "ann"}, "tags": ["a", "b"], "ok": True}
VALUE |= {"none": None, "7": "seven"}
ROW: dict[str, Any] = {
    "partition": 1,
    "offset": 42,
    "key": b"k=1",
    "value": json.dumps(VALUE).encode(),
    "headers": [{"key": "trace", "value": b"x"}, {"key": "trace", "value": b"y"}],
}


def is_shown(*conditions: str, **others: Any) -> bool:
    return all(each.is_true(ROW | others) for each in parse_conditions(conditions))


@pytest.mark.parametrize(
    "condition",
    [
        *("key=k=1", 'key="k=1"', "key~=1", "key", "offset>=42", "partition!=2"),
        *("value.amount = 100", "value.amount>=1e2", "value.amount<100.5", "value.rate>1"),
        *(
            "value.user.name=ann",
            "value.tags.1=b",
            "value.none=null",
            "value.none",
            "value.ok=true",
        ),
        *("value.amount!=abc", "value.7=seven", 'value.user={"name": "ann"}', "value.ok!=false"),
        *("header.trace=x", "header.trace=y", "header.trace", "value~amount"),
    ],
)
def test_it_is_shown(condition: str) -> None:
    assert is_shown(condition)


@pytest.mark.parametrize(
    "condition",
    [
        *("key=k", "key=null", "offset<42", "value.amount=100.5", "value.amount~1", "value.tags>1"),
        *("value.amount=abc", "value.missing", "value.missing!=1", "value.user.name.x=1"),
        *("value.tags.2=c", "value.tags.-1=b", "header.other=x", "value.ok=1", "value.ok>false"),
    ],
)
def test_it_is_left_out(condition: str) -> None:
    assert not is_shown(condition)


def test_other_values() -> None:
    assert is_shown("key=null", key=None)
    assert not is_shown("key=null", key=b"null")
    assert is_shown('key="null"', key=b"null")
    assert is_shown("value=\udcff", value=b"\xff")
    assert not is_shown("value.a", value=b"no JSON")
    assert not is_shown("value.a.b", value=b"[" * 100_000)
    assert is_shown("value.a=1", value={"a": 1}), "already decoded"
    assert not is_shown("key=k=1", "offset=1")


@pytest.mark.parametrize(
    "condition",
    [
        "",
        "=",
        "=x",
        "keys=1",
        "value.=1",
        "value..a=1",
        "header=x",
        "key.a=1",
        "offset=-1",
        "a b=1",
    ],
)
def test_it_is_refused(condition: str) -> None:
    with pytest.raises(click.BadParameter, match="--where"):
        parse_conditions([condition])
