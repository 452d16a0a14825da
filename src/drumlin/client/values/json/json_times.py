"""Times with nanoseconds in JSON, as Go and Java write them: truncated to microseconds.

Arrow's JSON parser refuses them as times, so they are read as text and converted here. A text
without nanoseconds has the same result here as in Arrow's parser, or is refused by both.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_ZONE: Final = r"(Z|[+-]\d\d(:?\d\d)?)"
_ZONED: Final = rf"[T ]\d\d(:\d\d)*(\.\d+)?{_ZONE}$"
_NANOSECONDS: Final = rf"(\.\d{{6}})\d{{1,3}}({_ZONE}?)$"
_LONG_FRACTION: Final = re.compile(rb":\d\d\.\d{7}")
_UTC: Final = pa.timestamp("us", tz="UTC")


def has_nanoseconds(lines: bytes) -> bool:
    """Whether a text may be a time with nanoseconds."""
    return _LONG_FRACTION.search(lines) is not None


def with_times(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The array with times in place of text, where `wanted` has times.

    Raises:
        ArrowInvalid: a text is not a time.
    """
    if pa.types.is_timestamp(wanted):
        return _times(array).cast(wanted)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(wanted):
        children = [with_times(array.field(place), each.type) for place, each in enumerate(wanted)]
        fields = [each.with_type(child.type) for each, child in zip(wanted, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pa.types.is_list(wanted):
        items = with_times(array.values, wanted.value_type)
        type_ = pa.list_(wanted.value_field.with_type(items.type))
        return pa.ListArray.from_arrays(array.offsets, items, type=type_, mask=mask)
    return array


def _times(texts: pa.Array) -> pa.Array:
    """Texts as times; those without a zone are in UTC."""
    cut = pc.replace_substring_regex(texts, _NANOSECONDS, r"\1\2")
    is_zoned = pc.match_substring_regex(cut, _ZONED)
    nothing = pa.scalar(None, pa.string())
    zoned = pc.if_else(is_zoned, cut, nothing).cast(_UTC)
    others = pc.if_else(is_zoned, nothing, cut).cast(pa.timestamp("us")).cast(_UTC)
    return pc.coalesce(zoned, others)
