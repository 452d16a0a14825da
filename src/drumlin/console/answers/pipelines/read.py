"""What a program has written, read as it should be: anyone who may write to its topic can write it.

Whatever it is, it is an error of this program's row, and not of the page with all the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

#: What decoders raise of values that are not what they expect, beside errors of their own.
_ODD: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_WHOLE_MAX: Final = 2**63


class Unreadable(ValueError):
    """What was written is not what belongs there."""


def read(decode: Callable[[], T], check: Callable[[T], None]) -> T:
    """What `decode` returns, once `check` has looked at its fields.

    Raises:
        Unreadable: it is something else; errors of the decoder's own come as they are.
    """
    try:
        found = decode()
        check(found)
    except Unreadable:
        raise
    except _ODD as error:
        raise Unreadable(f"cannot be read: {type(error).__name__}: {error}"[:500]) from None
    return found


def whole(**fields: object) -> None:
    """Check that fields are integers of 64 bits, or None.

    Raises:
        Unreadable: one is not.
    """
    for name, value in fields.items():
        if value is None or (type(value) is int and abs(value) < _WHOLE_MAX):
            continue
        raise Unreadable(f"{name} is no number: {value!r}"[:500])


def texts(**fields: object) -> None:
    """Check that fields are texts.

    Raises:
        Unreadable: one is not.
    """
    for name, value in fields.items():
        if not isinstance(value, str):
            raise Unreadable(f"{name} is no text: {value!r}"[:500])
