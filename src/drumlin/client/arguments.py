"""Arguments, checked at the call. Each error names the argument and its value.

A value of the wrong type is a `TypeError`, one that is not among the possible ones a `ValueError`.
Nothing here asks a broker.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal

from drumlin.peer.options import ISOLATION_LEVELS

#: What must have a record before it counts as written: all in-sync replicas, the leader, nothing.
Acks = Literal["all", "leader", "none", "-1", "1", "0", -1, 1, 0]

#: What reading makes of the bytes of keys and values.
Decode = Literal["utf8", "json"]
#: How `append` makes bytes of columns that are neither bytes nor strings.
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
#: What the state of one partition may take in memory, unless a call says otherwise.
STATE_BYTES: Final = 1 << 30
#: What configuration keys may be set to.
ConfigValue = str | int | float | bool

_SHOWN_MAX: Final = 80
_BATCH_BYTES_MAX: Final = 1 << 30
_RETRIES_MAX: Final = 2**31 - 1
_TIMESTAMP_MAX_MS: Final = 2**62 - 1


def shown(value: object) -> str:
    """A value as errors show it: shortened, and even if its `repr` raises."""
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
    """`value` is one of a few names; `others` says what it could have been beside a name."""
    if not isinstance(value, str) or value not in possible:
        expected = ", ".join(map(repr, possible)) + (f"; or {others}" if others else "")
        raise ValueError(f"{name} {shown(value)}: expected one of {expected}")


def some_of(name: str, values: Iterable[object], possible: Collection[str]) -> None:
    """`values` are among a few names, in any case."""
    no_text(name, values)
    known = {each.lower() for each in possible}
    for value in values:
        if not isinstance(value, str) or value.lower() not in known:
            expected = ", ".join(map(repr, possible))
            raise ValueError(f"{name} {shown(value)}: expected some of {expected}")


def compression_name(compression: object) -> None:
    """`compression` is a codec."""
    from drumlin.records.compression.compression import CODECS  # what offsets need loads no codec

    one_of("compression", compression, CODECS)


def isolation_level(isolation: object) -> None:
    """`isolation` is a level."""
    one_of("isolation", isolation, ISOLATION_LEVELS)


def decoding(decode: object) -> None:
    """`decode` is a way of decoding, or None."""
    if decode is not None:
        one_of("decode", decode, _DECODINGS)


def encoding(encode: object) -> None:
    """`encode` is a way of encoding, or None."""
    if encode is not None:
        one_of("encode", encode, _ENCODINGS)


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
    """The size of a batch is possible: a record batch must be below 2 GiB."""
    whole_number("batch_bytes", size_bytes, 1, _BATCH_BYTES_MAX)


def retries(count: object) -> None:
    """`count` is a number of retries; None: as often as there is time."""
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


def partition_numbers(partitions: object) -> list[int] | None:
    """`partitions` are numbers, or None: all of them."""
    if partitions is None:
        return None
    if isinstance(partitions, str | bytes) or not isinstance(partitions, Iterable):
        raise TypeError(f"partitions {shown(partitions)}: expected a list of numbers")
    return [whole_number("partition", each, -(2**31), 2**31 - 1) for each in partitions]


def config_values(name: str, values: Mapping[str, object]) -> dict[str, str]:
    """Configuration values as brokers have them: 5 as "5", True as "true".

    Raises:
        TypeError: a key is no string, or a value is neither a string nor a number nor a bool.
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
    """Milliseconds, small enough that the difference of any two fits into 64 bits."""
    return whole_number("timestamp", timestamp, -_TIMESTAMP_MAX_MS, _TIMESTAMP_MAX_MS)


def callable_or_none(name: str, value: object) -> None:
    """`value` can be called, if it is there."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} {shown(value)}: expected a function")
