"""The values of a column as Python's, for encoders that go row by row.

Times are integers (microseconds, days), so dates outside of Python's range are possible.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def python_values(values: pa.Array) -> list[Any]:
    """The value of each row; structs and maps are dicts.

    Raises:
        KeyError: a map has a key twice.
    """
    found: list[Any] = values.cast(_storage(values.type)).to_pylist(maps_as_pydicts="strict")
    return found


def _storage(type_: pa.DataType) -> pa.DataType:
    """The type with integers in place of times."""
    if pa.types.is_timestamp(type_):
        return pa.int64()
    if pa.types.is_date32(type_):
        return pa.int32()
    if pa.types.is_list(type_):
        return pa.list_(_stored(type_.value_field))
    if pa.types.is_map(type_):
        return pa.map_(type_.key_type, _stored(type_.item_field))
    if pa.types.is_struct(type_):
        return pa.struct([_stored(each) for each in type_])
    return type_


def _stored(field: pa.Field) -> pa.Field:
    return field.with_type(_storage(field.type))
