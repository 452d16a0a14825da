"""Describes the fault in a JSON value that Arrow's parser has refused, and its place.

This check does not decide: Arrow's parser accepts values that this check refuses (numbers of any
length, any depth in ignored fields), and refuses values that it accepts (some texts as times).
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa


def check_json(value: bytes, wanted: pa.DataType) -> None:
    """Check a value.

    Raises:
        ValueError, RecursionError: the value is not JSON, or not of the type.
    """
    found = json.loads(value)
    if found is None:
        raise ValueError("an object was expected, not null")
    _check(found, wanted, "value")


def _check(found: Any, wanted: pa.DataType, path: str) -> None:
    if found is None:
        return
    if pa.types.is_struct(wanted):
        _expect(isinstance(found, dict), "an object", found, path)
        for field in wanted:
            if field.name in found:
                _check(found[field.name], field.type, f"{path}.{field.name}")
    elif pa.types.is_list(wanted):
        _expect(isinstance(found, list), "an array", found, path)
        for each in found:
            _check(each, wanted.value_type, f"{path}[]")
    else:
        _check_scalar(found, wanted, path)


def _check_scalar(found: Any, wanted: pa.DataType, path: str) -> None:
    is_whole = isinstance(found, int) and not isinstance(found, bool)
    if pa.types.is_boolean(wanted):
        _expect(isinstance(found, bool), "true or false", found, path)
    elif pa.types.is_integer(wanted):
        _expect(is_whole, "a whole number", found, path)
        limit = 1 << (wanted.bit_width - 1)
        if not -limit <= found < limit:
            raise ValueError(f"{path}: a number is too large for {wanted}")
    elif pa.types.is_floating(wanted):
        _expect(is_whole or isinstance(found, float), "a number", found, path)
    elif pa.types.is_decimal(wanted):
        is_number = is_whole or isinstance(found, float | str)
        _expect(is_number, "a decimal number", found, path)
        limit = 10 ** (wanted.precision - wanted.scale)
        if not isinstance(found, str) and abs(found) >= limit:
            raise ValueError(f"{path}: a number is too large for {wanted}")
    else:
        _expect(isinstance(found, str), "text", found, path)


def _expect(is_so: bool, wanted: str, found: Any, path: str) -> None:
    if not is_so:
        names = {dict: "an object", list: "an array", str: "text", bool: "true or false"}
        raise ValueError(f"{path}: {wanted} was expected, not {names.get(type(found), 'a number')}")
