"""The error codes that are counted, beside a walk through all that a response has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from drumlin.broker.apis.served import SERVED
from drumlin.broker.traffic.errors import errors_in
from drumlin.wire.schema.declaration import Field, fields_of
from drumlin.wire.schema.types import Array, Struct, type_name
from rig.data.messages import item_of, payload_class


@pytest.mark.parametrize("api", sorted(SERVED))
def test_all_codes_of_a_response_are_found(api: str) -> None:
    """Wherever a response may have one, in the order of its fields; no other number is one."""
    cls = payload_class(api, "response")
    response = _filled(cls, itertools.count(1))
    assert errors_in(response) == list(_codes_in(response))
    assert errors_in(_filled(cls, itertools.repeat(0))) == []


def test_an_array_that_is_encoded_has_none() -> None:
    """Nobody decodes it again to count."""
    response = _filled(payload_class("fetch", "response"), itertools.count(1))
    assert len(errors_in(response)) > 1
    object.__setattr__(response, "responses", b"encoded")
    assert errors_in(response) == [response.error_code]


def _filled(cls: Any, codes: Iterator[int]) -> Any:
    """An instance with two items in each array, and nothing that is null."""
    return cls(**{each.name: _value(each, codes) for each in fields_of(cls, 0)})


def _value(field: Field, codes: Iterator[int]) -> Any:
    kind = item_of(field.type)
    if isinstance(kind, Struct):
        items = tuple(_filled(kind.of, codes) for _ in range(2))
        return items if isinstance(field.type, Array) else items[0]
    if isinstance(field.type, Array):
        return (7, 7)
    return next(codes) if type_name(kind) == "error_code" else 7


def _codes_in(message: Any) -> Iterator[int]:
    cls: Any = type(message)
    fields = fields_of(cls, 0)
    for field in fields:
        if type_name(field.type) == "error_code":
            yield getattr(message, field.name)
    for field in fields:
        value = getattr(message, field.name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(item_of(field.type), Struct):
                yield from _codes_in(each)
