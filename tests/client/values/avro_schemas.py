"""Avro schemas at random, values of them, and what each value is in columns.

The mapping is written down a second time here, for Python values: the twin of the kernel's.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
from hypothesis import strategies as st

#: A schema, and a strategy for pairs: what fastavro writes, what the column holds.
Pairs = st.SearchStrategy[tuple[Any, Any]]
SchemaAndPairs = tuple[Any, Pairs]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _same(values: st.SearchStrategy[Any]) -> Pairs:
    return values.map(lambda value: (value, value))


def _micros(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


_MICROS = st.integers(-62_000_000_000_000_000, 250_000_000_000_000_000)
SCALARS: list[SchemaAndPairs] = [
    ("null", _same(st.none())),
    ("boolean", _same(st.booleans())),
    ("int", _same(st.integers(-(2**31), 2**31 - 1))),
    ("long", _same(st.integers(-(2**63), 2**63 - 1))),
    ("float", _same(st.floats(width=32, allow_nan=False))),
    ("double", _same(st.floats(allow_nan=False))),
    ("string", _same(st.text(max_size=20))),
    ("bytes", _same(st.binary(max_size=20))),
    ({"type": "string", "logicalType": "uuid"}, _same(st.uuids().map(str))),
    (
        {"type": "int", "logicalType": "date"},
        st.dates().map(lambda day: ((day - date(1970, 1, 1)).days, day)),
    ),
    (
        {"type": "long", "logicalType": "timestamp-micros"},
        _MICROS.map(lambda value: (value, _micros(value))),
    ),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        _MICROS.map(lambda value: (value // 1000, _micros(value // 1000 * 1000))),
    ),
    (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        _MICROS.map(
            lambda value: (value // 1000, _micros(value // 1000 * 1000).replace(tzinfo=None))
        ),
    ),
]


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda value: Decimal(value).scaleb(-scale))


@st.composite
def decimals(draw: st.DrawFn) -> SchemaAndPairs:
    precision = draw(st.integers(1, 28))  # fastavro computes with the digits of its context
    scale = draw(st.integers(0, precision))
    form = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return form, _same(_decimals(precision, scale))


@st.composite
def enums(draw: st.DrawFn) -> SchemaAndPairs:
    symbols = draw(st.lists(st.sampled_from("ABCDEF"), min_size=1, unique=True))
    return {"type": "enum", "name": "E", "symbols": symbols}, _same(st.sampled_from(symbols))


@st.composite
def fixed(draw: st.DrawFn) -> SchemaAndPairs:
    size = draw(st.integers(1, 20))
    form = {"type": "fixed", "name": "F", "size": size}
    return form, _same(st.binary(min_size=size, max_size=size))


def _list_of(inner: SchemaAndPairs) -> SchemaAndPairs:
    form, pairs = inner
    lists = st.lists(pairs, max_size=4)
    return (
        {"type": "array", "items": form},
        lists.map(lambda items: ([a for a, _ in items], [b for _, b in items])),
    )


def _map_of(inner: SchemaAndPairs) -> SchemaAndPairs:
    form, pairs = inner
    maps = st.dictionaries(st.text(max_size=5), pairs, max_size=4)
    return (
        {"type": "map", "values": form},
        maps.map(
            lambda found: (
                {name: a for name, (a, _) in found.items()},
                [(name, b) for name, (_, b) in found.items()],
            )
        ),
    )


def _nullable(inner: SchemaAndPairs) -> SchemaAndPairs:
    form, pairs = inner
    return ["null", form], st.one_of(_same(st.none()), pairs)


@st.composite
def records(draw: st.DrawFn, inner: st.SearchStrategy[SchemaAndPairs]) -> SchemaAndPairs:
    fields = draw(st.lists(inner, min_size=1, max_size=4))
    names = [f"f{index}" for index in range(len(fields))]
    form = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": name, "type": field[0]} for name, field in zip(names, fields, strict=True)
        ],
    }
    rows = st.tuples(*(field[1] for field in fields))
    return form, rows.map(
        lambda row: (
            dict(zip(names, [a for a, _ in row], strict=True)),
            dict(zip(names, [b for _, b in row], strict=True)),
        )
    )


def _is_plain(found: SchemaAndPairs) -> bool:
    """Whether it may be in a union with null."""
    return found[0] != "null" and not isinstance(found[0], list)


def _has_bytes(found: SchemaAndPairs) -> bool:
    """Whether it may be an item: nothing that takes no bytes, such as a record of nulls."""
    form = found[0]
    if isinstance(form, dict) and form["type"] == "record":
        return any(_has_bytes((each["type"], found[1])) for each in form["fields"])
    return form != "null"


def _named_apart(form: Any, numbers: Iterator[int]) -> Any:
    """The same schema, in which no two types have the same name."""
    if isinstance(form, list):
        return [_named_apart(each, numbers) for each in form]
    if not isinstance(form, dict):
        return form
    form = {
        name: each if name == "symbols" else _named_apart(each, numbers)
        for name, each in form.items()
    }
    if "name" in form and form["type"] in ("record", "enum", "fixed"):
        form["name"] = f"N{next(numbers)}"
    return form


LEAVES = st.one_of(st.sampled_from(SCALARS), decimals(), enums(), fixed())
ANY = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.filter(_has_bytes).map(_list_of),
        inner.map(_map_of),
        inner.filter(_is_plain).map(_nullable),
        records(inner),
    ),
    max_leaves=8,
).map(lambda found: (_named_apart(found[0], itertools.count()), found[1]))


def written(form: Any, value: Any) -> bytes:
    """A value in Avro's binary form, by fastavro."""
    target = io.BytesIO()
    fastavro.schemaless_writer(target, form, value)
    return target.getvalue()
