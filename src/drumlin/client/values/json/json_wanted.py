"""Reduces a JSON value to the fields of a type.

Arrow's parser checks all fields of a value, and refuses some valid JSON: numbers too large for a
double, and single surrogates. Such values in fields that are not read must not matter.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa


class _Object(list[tuple[str, Any]]):
    """The fields of an object in order, possibly with duplicates."""


def only_wanted(value: bytes, wanted: pa.DataType) -> bytes:
    """The value with only the fields that the type has.

    Raises:
        ValueError, ArithmeticError, RecursionError: the value is not JSON, or not of the type.
    """
    found = json.loads(value, parse_float=Decimal, object_pairs_hook=_Object)
    return json.dumps(_kept(found, wanted)).encode()


def _kept(found: Any, wanted: pa.DataType) -> Any:
    if isinstance(found, Decimal):
        if pa.types.is_decimal(wanted):
            return str(found)  # text keeps all digits
        number = float(found)
        if math.isinf(number):
            raise ValueError("a number is too large for a double")
        return number
    if isinstance(found, _Object):
        if not pa.types.is_struct(wanted):
            raise ValueError("an object was not expected here")
        kinds = {each.name: each.type for each in wanted}
        kept = [(name, _kept(each, kinds[name])) for name, each in found if name in kinds]
        if len(dict(kept)) < len(kept):
            raise ValueError("a field occurs twice")
        return dict(kept)
    if isinstance(found, list):
        if not pa.types.is_list(wanted):
            raise ValueError("an array was not expected here")
        return [_kept(each, wanted.value_type) for each in found]
    return found
