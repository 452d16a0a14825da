"""What callers hand in, checked at the call. Each complaint names the argument and its value.

A value of the wrong type is a `TypeError`, one that is not among the possible ones a `ValueError`.
Nothing here asks a broker.
"""

from __future__ import annotations

import difflib
import numbers
import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal

from drumlin.peer.options import ISOLATION_LEVELS
from drumlin.records.compression import CODECS

#: Who must have a record before it counts as written: all in-sync replicas, the leader, nobody.
Acks = Literal["all", "leader", "none", "-1", "1", "0", -1, 1, 0]

ACKS_ALL: Final = -1
_ACKS: Final[dict[Acks, int]] = {
    "all": ACKS_ALL,
    "leader": 1,
    "none": 0,
    "-1": ACKS_ALL,
    "1": 1,
    "0": 0,
    -1: ACKS_ALL,
    1: 1,
    0: 0,
}
_SHOWN_MAX: Final = 80
_BATCH_BYTES_MAX: Final = 1 << 30
_RETRIES_MAX: Final = 2**31 - 1
_TIMESTAMP_MAX_MS: Final = 2**62 - 1


def shown(value: object) -> str:
    """A value as an error shows it: not all of a long one, whatever it does when asked."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - it is somebody else's
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def known_options(call: str, given: Iterable[str], known: Collection[str]) -> None:
    """
    Raises:
        TypeError: an option that `call` does not have, as Python says of any function.
    """
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(sorted(known))}"
            raise TypeError(f"{call}() has no option {name!r}: {hint}")


def acks_number(acks: object) -> int:
    """As the protocol has it."""
    if isinstance(acks, str | int) and not isinstance(acks, bool):
        number = _ACKS.get(acks)  # type: ignore[call-overload]
        if number is not None:
            return int(number)
    raise ValueError(f"acks {shown(acks)}: expected 'all' (-1), 'leader' (1) or 'none' (0)")


def one_of(name: str, value: object, possible: Iterable[str]) -> None:
    """`value` is one of a few names."""
    if not isinstance(value, str) or value not in possible:
        raise ValueError(f"{name} {shown(value)}: expected one of {', '.join(map(repr, possible))}")


def compression_name(compression: object) -> None:
    """`compression` is a codec."""
    one_of("compression", compression, CODECS)


def isolation_level(isolation: object) -> None:
    """`isolation` is a level."""
    one_of("isolation", isolation, ISOLATION_LEVELS)


def whole_number(name: str, value: object, low: int, high: int) -> int:
    """`value` as an int that is in the range, both ends included; also one of NumPy's."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} {shown(value)}: expected a whole number") from None
    if not low <= number <= high:
        raise ValueError(f"{name} {shown(value)}: expected {low} to {high}")
    return number


def numbers_at_least(values: Mapping[str, Any], low: int) -> None:
    """All are numbers (None is left out) of at least `low`."""
    for name, value in values.items():
        if value is None:
            continue
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise TypeError(f"{name} {shown(value)}: expected a number")
        if not float(value) >= low:
            raise ValueError(f"{name} {shown(value)}: expected at least {low}")


def batch_bytes(size_bytes: object) -> None:
    """How large a batch may be: a record batch of 2 GiB cannot be."""
    whole_number("batch_bytes", size_bytes, 1, _BATCH_BYTES_MAX)


def retries(count: object) -> None:
    """How often a batch may be sent again; None: as often as there is time."""
    if count is not None:
        whole_number("retries", count, 0, _RETRIES_MAX)


def text(name: str, value: object) -> None:
    """`value` is a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} {shown(value)}: expected a string")


def no_text(name: str, value: object) -> None:
    """`value` holds strings; a single one would be taken for its letters."""
    if isinstance(value, str):
        raise TypeError(f"{name} {shown(value)}: expected a list of strings, or a set")


def texts(name: str, values: Mapping[str, object]) -> None:
    """All values are strings, as configurations have them."""
    for key, value in values.items():
        text(f"{name}[{shown(key)}]", value)


def as_bytes(name: str, value: object) -> bytes | None:
    """A key or a value as it is written. What could change later is copied."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        try:
            return str.encode(value)
        except UnicodeEncodeError:
            raise ValueError(f"{name} {shown(value)}: it cannot be written as UTF-8") from None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(memoryview(value))
    raise TypeError(f"{name} {shown(value)}: expected bytes, a string or None")


def as_headers(headers: Any) -> list[tuple[str, bytes | None]]:
    """Headers of a record as they are written, from a mapping or from pairs."""
    given = headers.items() if isinstance(headers, Mapping) else headers
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise TypeError(f"headers {shown(headers)}: expected a mapping, or pairs")
    pairs = []
    for each in given:
        if not isinstance(each, tuple | list) or len(each) != 2:
            raise TypeError(f"header {shown(each)}: expected a name and a value")
        name, value = each
        if not isinstance(name, str):
            raise TypeError(f"header name {shown(name)}: expected a string")
        if not str.isascii(name):
            as_bytes("header name", name)
        if value is not None and type(value) is not bytes:
            value = as_bytes(f"header {shown(name)}", value)
        pairs.append((str.__str__(name), value))
    return pairs


def timestamp_ms(timestamp: object) -> int:
    """Milliseconds, so that those of any two records can be told from each other in a batch."""
    return whole_number("timestamp", timestamp, -_TIMESTAMP_MAX_MS, _TIMESTAMP_MAX_MS)


def callable_or_none(name: str, value: object) -> None:
    """`value` can be called, if it is there."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} {shown(value)}: expected a function")
