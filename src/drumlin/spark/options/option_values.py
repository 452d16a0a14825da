"""Parses the text of one option: numbers, choices, durations. Each error names the option.

This module must not know which options exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

_Value = TypeVar("_Value")

_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_DURATION: Final = re.compile(r"(\d+)\s*(us|ms|s|m|min|h|d)?")
_MEMORY: Final = re.compile(r"(\d{1,9})([kmg])b?", re.ASCII)
_MEMORY_BITS: Final = {"k": 10, "m": 20, "g": 30}
_DURATION_UNITS_MS: Final = {
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class OptionError(ValueError):
    """An option of the source or the sink is invalid; the message names it."""


def choice(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """One of `allowed`, the first being the default."""
    value = options.get(name.lower(), allowed[0]).strip().lower()
    if value not in allowed:
        raise OptionError(f"option '{name}' must be one of {', '.join(allowed)}, not {value!r}")
    return value


def boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """True or false, in any capitalisation."""
    allowed = ("true", "false") if default else ("false", "true")
    return choice(options, name, allowed) == "true"


def positive(options: Mapping[str, str], name: str) -> int | None:
    """A number above zero; None where the option is not given."""
    text = options.get(name.lower())
    if text is None:
        return None
    value = parsed(name, text, whole_number)
    if value <= 0:
        raise OptionError(f"option '{name}' must be positive, not {value}")
    return value


def size_bytes(options: Mapping[str, str], name: str, default: int) -> int:
    """A size below 2 GiB, as Kafka's protocol and Arrow have 31 bits for it; or as `64m`."""
    value = converted(options, name, memory_bytes, str(default))
    if value <= 0:
        raise OptionError(f"option '{name}' must be positive, not {value}")
    if value >= 2**31:
        raise OptionError(f"option '{name}' must be below 2 GiB, not {value}")
    return value


def converted(
    options: Mapping[str, str], name: str, convert: Callable[[str], _Value], default: str
) -> _Value:
    """The option, or its default, as `convert` understands it."""
    return parsed(name, options.get(name.lower(), default), convert)


def text(options: Mapping[str, str], name: str) -> str | None:
    """Text that must not be blank; None where the option is not given."""
    value = options.get(name.lower())
    if value is None:
        return None
    if not value.strip():
        raise OptionError(f"option '{name}' is empty")
    return value.strip()


def topic_name(name: str, topic: str) -> str:
    """The topic name given in the option `name`.

    Raises:
        OptionError: no topic can have this name, so asking the cluster for it is useless.
    """
    from drumlin.metadata.names import check_topic_name
    from drumlin.wire.error_codes import KafkaError

    try:
        check_topic_name(topic)
    except KafkaError as error:
        raise OptionError(f"option '{name}': {error.message}") from None
    return topic


def whole_number(text: str) -> int:
    """Digits with or without a sign; Python's `int` would also accept `1_000` and more.

    Raises:
        ValueError: the text has another form, or the number does not fit into 64 bits.
    """
    if _WHOLE_NUMBER.fullmatch(text.strip()) is None:
        raise ValueError(f"expected a whole number, got {text!r}")
    if not -(2**63) <= int(text) < 2**63:
        raise ValueError(f"{text.strip()} is more than 64 bits hold")
    return int(text)


def memory_bytes(text: str) -> int:
    """Bytes, or as Spark has them: `512k`, `64m`, `1g`, with or without a `b` behind.

    Raises:
        ValueError: not of that form.
    """
    match = _MEMORY.fullmatch(text.strip().lower())
    if match is None:
        return whole_number(text)
    return int(match[1]) << _MEMORY_BITS[match[2]]


def not_negative(text: str) -> int:
    """A whole number that is not negative.

    Raises:
        ValueError: not of that form.
    """
    value = whole_number(text)
    if value < 0:
        raise ValueError(f"expected a number that is not negative, got {value}")
    return value


def duration_ms(text: str) -> int:
    """Milliseconds of `30s`, `15m` and the like; a bare number is milliseconds.

    Raises:
        ValueError: not of that form.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"expected e.g. 500ms, 30s, 15m, 2h, got {text!r}")
    return round(int(match[1]) * _DURATION_UNITS_MS[match[2] or "ms"])


def parsed(name: str, text: str, parse: Callable[[str], _Value]) -> _Value:
    """The text as `parse` converts it.

    Raises:
        OptionError: `parse` raised a ValueError.
    """
    try:
        return parse(text)
    except ValueError as error:
        raise OptionError(f"option '{name}': {error}") from error
