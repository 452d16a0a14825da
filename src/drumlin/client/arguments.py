"""Checks of a call's arguments. Each error names the argument and its value.

A value of the wrong type raises `TypeError`, an invalid value `ValueError`. Sends no requests.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal

from drumlin.peer.options import ISOLATION_LEVELS

#: The acknowledgements for a record: from all in-sync replicas, from the leader, or none.
Acks = Literal["all", "leader", "none", "-1", "1", "0", -1, 1, 0]

#: The format from which keys and values are decoded.
Decode = Literal["utf8", "json"]
#: The format to which columns that are neither bytes nor strings are encoded.
Encode = Literal["json"]

ACKS_ALL: Final = -1
_DECODINGS: Final = ("utf8", "json")
_ENCODINGS: Final = ("json",)
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
#: The default memory limit of one partition's state.
STATE_BYTES: Final = 1 << 30
#: The types of configuration values.
ConfigValue = str | int | float | bool

_SHOWN_MAX: Final = 80
_BATCH_BYTES_MAX: Final = 1 << 30
_RETRIES_MAX: Final = 2**31 - 1
_TIMESTAMP_MAX_MS: Final = 2**62 - 1


def shown(value: object) -> str:
    """A value for an error message: shortened, and safe if its `repr` raises."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - user code
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def acks_number(acks: object) -> int:
    """The protocol's number for `acks`."""
    if isinstance(acks, str | int) and not isinstance(acks, bool):
        number = _ACKS.get(acks)  # type: ignore[call-overload]
        if number is not None:
            return int(number)
    raise ValueError(f"acks {shown(acks)}: expected 'all' (-1), 'leader' (1) or 'none' (0)")


def one_of(name: str, value: object, possible: Iterable[str], others: str = "") -> None:
    """Check that `value` is one of the names; `others` describes further valid values."""
    if not isinstance(value, str) or value not in possible:
        expected = ", ".join(map(repr, possible)) + (f"; or {others}" if others else "")
        raise ValueError(f"{name} {shown(value)}: expected one of {expected}")


def some_of(name: str, values: Iterable[object], possible: Collection[str]) -> None:
    """Check that all values are among the names, ignoring case."""
    no_text(name, values)
    known = {each.lower() for each in possible}
    for value in values:
        if not isinstance(value, str) or value.lower() not in known:
            expected = ", ".join(map(repr, possible))
            raise ValueError(f"{name} {shown(value)}: expected some of {expected}")


def compression_name(compression: object) -> None:
    """Check that `compression` is a codec."""
    from drumlin.records.compression.compression import CODECS  # only here: slow to load

    one_of("compression", compression, CODECS)


def isolation_level(isolation: object) -> None:
    """Check that `isolation` is an isolation level."""
    one_of("isolation", isolation, ISOLATION_LEVELS)


def decoding(decode: object) -> None:
    """Check that `decode` is a decoding, or None."""
    if decode is not None:
        one_of("decode", decode, _DECODINGS)


def encoding(encode: object) -> None:
    """Check that `encode` is an encoding, or None."""
    if encode is not None:
        one_of("encode", encode, _ENCODINGS)


def whole_number(name: str, value: object, low: int, high: int) -> int:
    """`value` as an int within low <= value <= high; accepts NumPy's integers."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} {shown(value)}: expected a whole number") from None
    if not low <= number <= high:
        raise ValueError(f"{name} {shown(value)}: expected {low} to {high}")
    return number


def numbers_at_least(values: Mapping[str, Any], low: int) -> None:
    """Check that all values but None are numbers of at least `low`."""
    for name, value in values.items():
        if value is None:
            continue
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise TypeError(f"{name} {shown(value)}: expected a number")
        if not float(value) >= low:
            raise ValueError(f"{name} {shown(value)}: expected at least {low}")


def batch_bytes(size_bytes: object) -> None:
    """Check the size of a batch: a record batch must be smaller than 2 GiB."""
    whole_number("batch_bytes", size_bytes, 1, _BATCH_BYTES_MAX)


def retries(count: object) -> None:
    """Check a number of retries; None: no limit."""
    if count is not None:
        whole_number("retries", count, 0, _RETRIES_MAX)


def text(name: str, value: object) -> None:
    """Check that `value` is a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} {shown(value)}: expected a string")


def no_text(name: str, value: object) -> None:
    """Check that `value` is not a single string, which would be taken for a list of letters."""
    if isinstance(value, str):
        raise TypeError(f"{name} {shown(value)}: expected a list of strings, or a set")


def partition_numbers(partitions: object) -> list[int] | None:
    """`partitions` as a list of numbers; None: all."""
    if partitions is None:
        return None
    if isinstance(partitions, str | bytes) or not isinstance(partitions, Iterable):
        raise TypeError(f"partitions {shown(partitions)}: expected a list of numbers")
    return [whole_number("partition", each, -(2**31), 2**31 - 1) for each in partitions]


def config_values(name: str, values: Mapping[str, object]) -> dict[str, str]:
    """Configuration values as strings for brokers: 5 as "5", True as "true".

    Raises:
        TypeError: a key is not a string, or a value is neither a string nor a number nor a bool.
    """
    texts = {}
    for key, value in values.items():
        text(f"{name}: key", key)
        if isinstance(value, bool):
            texts[key] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            texts[key] = str(value)
        else:
            expected = "expected a string, a number or a bool"
            raise TypeError(f"{name}[{shown(key)}] {shown(value)}: {expected}")
    return texts


def as_bytes(name: str, value: object) -> bytes | None:
    """A key or a value as bytes. Mutable buffers are copied."""
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
    """The headers of a record as (name, bytes) pairs, from a mapping or from pairs."""
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
    """A timestamp in milliseconds, limited so that the difference of any two fits into 64 bits."""
    return whole_number("timestamp", timestamp, -_TIMESTAMP_MAX_MS, _TIMESTAMP_MAX_MS)


def callable_or_none(name: str, value: object) -> None:
    """Check that `value` is callable, or None."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} {shown(value)}: expected a function")
