"""A JSON value with nothing but the fields that are wanted of it.

The parser of whole blocks looks at all that a value has, and refuses what JSON allows: numbers
beyond a double, and halves of surrogate pairs. In fields that nobody reads that is no fault.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa


class _Object(list[tuple[str, Any]]):
    """The fields of an object in their order, which may be there twice."""


def only_wanted(value: bytes, wanted: pa.DataType) -> bytes:
    """The value without what the type does not have.

    Raises:
        ValueError, ArithmeticError, RecursionError: the value is not JSON, or not of the type.
    """
    found = json.loads(value, parse_float=Decimal, object_pairs_hook=_Object)
    return json.dumps(_kept(found, wanted)).encode()


def _kept(found: Any, wanted: pa.DataType) -> Any:
    if isinstance(found, Decimal):
        if pa.types.is_decimal(wanted):
            return str(found)  # as a text it keeps its digits
        number = float(found)
        if math.isinf(number):
            raise ValueError("a number is too large for a double")
        return number
    if isinstance(found, _Object):
        if not pa.types.is_struct(wanted):
            raise ValueError("an object where none is wanted")
        kinds = {each.name: each.type for each in wanted}
        kept = [(name, _kept(each, kinds[name])) for name, each in found if name in kinds]
        if len(dict(kept)) < len(kept):
            raise ValueError("a field is there twice")
        return dict(kept)
    if isinstance(found, list):
        if not pa.types.is_list(wanted):
            raise ValueError("an array where none is wanted")
        return [_kept(each, wanted.value_type) for each in found]
    return found
