"""How the fields of kio's message classes are described, for encoders and decoders alike."""

from __future__ import annotations

import types
import typing
from typing import Any, Final

#: kafka_type of a field of fixed size -> its code for `struct`.
FIXED_CODES: Final = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "bool": "?",
    "error_code": "h",
    "uuid": "16s",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
#: The longest string in bytes. Kafka applies this limit to strings with compact lengths, too.
STRING_BYTES_MAX: Final = 2**15 - 1


def unwrap(annotation: Any) -> tuple[Any, bool, bool]:
    """The inner type of an annotation, whether it may be None, whether it is an array."""
    nullable = False
    if isinstance(annotation, types.UnionType):
        nullable = True
        annotation = next(arg for arg in typing.get_args(annotation) if arg is not type(None))
    if typing.get_origin(annotation) is tuple:
        return typing.get_args(annotation)[0], nullable, True
    return annotation, nullable, False
