"""Arguments, checked at the call. Each error names the argument and its value.

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

#: What must have a record before it counts as written: all in-sync replicas, the leader, nothing.
Acks = Literal["all", "leader", "none", "-1", "1", "0", -1, 1, 0]

#: What reading makes of the bytes of keys and values.
Decode = Literal["utf8", "json"]

ACKS_ALL: Final = -1
_DECODINGS: Final = ("utf8", "json")
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

#: What Kafka's clients call an option, and what it may be called here, by call.
_KAFKAS_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "auto_commit_interval_ms": ("commit_interval_ms",),
    "auto_offset_reset": ("start",),
    "batch_size": ("batch_bytes",),
    "bootstrap_servers": ("bootstrap",),
    "buffer_memory": ("buffer_bytes",),
    "client_rack": ("client_rack", "rack"),
    "compression_type": ("compression",),
    "dual_commit_enabled": ("dual_commit",),
    "enable_auto_commit": ("commit_interval_ms=None",),
    "fetch_max_wait_ms": ("max_wait_ms",),
    "group_id": ("group",),
    "group_protocol": ("protocol",),
    "group_remote_assignor": ("server_assignor",),
    "isolation_level": ("isolation",),
    "key_deserializer": ("decode",),
    "max_partition_fetch_bytes": ("max_bytes_per_batch",),
    "max_poll_records": ("max_records",),
    "partition_assignment_strategy": ("assignors",),
    "sasl_mechanism": ("security",),
    "security_protocol": ("security",),
    "value_deserializer": ("decode",),
    "zookeeper_connect": ("zookeeper",),
    "value_serializer": ("encode",),
}
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


def known_options(
    call: str, given: Iterable[str], known: Collection[str], parameters: Collection[str] = ()
) -> None:
    """`parameters` are those of the call beside its options.

    Raises:
        TypeError: an option that `call` does not have, as Python says of any function.
    """
    for name in given:
        if name not in known:
            raise TypeError(
                f"{call}() has no option {name!r}: {_hint(name, [*known, *parameters])}"
            )


def _hint(name: str, names: Collection[str]) -> str:
    here = [each for each in _KAFKAS_NAMES.get(name, ()) if each.partition("=")[0] in names]
    if here:
        return f"it is called {here[0]!r} here"
    close = difflib.get_close_matches(name, names, 1)
    return f"did you mean {close[0]!r}?" if close else f"it has {', '.join(sorted(names))}"


def acks_number(acks: object) -> int:
    """The protocol's number for `acks`."""
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
    from drumlin.records.compression.compression import CODECS  # what offsets need loads no codec

    one_of("compression", compression, CODECS)


def isolation_level(isolation: object) -> None:
    """`isolation` is a level."""
    one_of("isolation", isolation, ISOLATION_LEVELS)


def decoding(decode: object) -> None:
    """`decode` is a way of decoding, or None."""
    if decode is not None:
        one_of("decode", decode, _DECODINGS)


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
