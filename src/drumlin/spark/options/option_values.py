"""Parses the text of one option: numbers, choices, durations. An error says what is expected.

Must not know which options exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

_Value = TypeVar("_Value")
_Word = TypeVar("_Word", bound=str)

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
_SINK_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


class OptionError(ValueError):
    """An option of the source or the sink is invalid; the message names it."""


def parsed(name: str, text: str, parse: Callable[[str], _Value]) -> _Value:
    """The text of the option `name`, as `parse` converts it.

    Raises:
        OptionError: `parse` raised a ValueError.
    """
    try:
        return parse(text)
    except ValueError as error:
        raise OptionError(f"option '{name}': {error}") from error


def choice(*allowed: _Word) -> Callable[[str], _Word]:
    """A parser that accepts one of these words, in any capitalisation."""

    def parse(text: str) -> _Word:
        for word in allowed:
            if word == text.strip().lower():
                return word
        raise ValueError(f"must be one of {', '.join(allowed)}, not {text.strip()!r}")

    return parse


def boolean(text: str) -> bool:
    """`true` or `false`, in any capitalisation.

    Raises:
        ValueError: the text is neither.
    """
    return choice("true", "false")(text) == "true"


def not_blank(text: str) -> str:
    """Text, without the blanks around it.

    Raises:
        ValueError: the text is blank.
    """
    if not text.strip():
        raise ValueError("must not be empty")
    return text.strip()


def topic_name(text: str) -> str:
    """The name of a topic.

    Raises:
        ValueError: no topic can have this name, so asking the cluster for it is useless.
    """
    from drumlin.metadata.names import check_topic_name
    from drumlin.wire.error_codes import KafkaError

    try:
        check_topic_name(text)
    except KafkaError as error:
        raise ValueError(error.message) from None
    return text


def stripped_topic_name(text: str) -> str:
    """The name of a topic, possibly with blanks around it."""
    return topic_name(not_blank(text))


def sink_name(text: str) -> str:
    """A name that becomes part of the names of transactions and groups.

    Raises:
        ValueError: the text has another form.
    """
    name = not_blank(text)
    if not _SINK_NAME.fullmatch(name):
        raise ValueError(
            f"must be up to 100 letters, digits, dots, dashes and underscores, not {name!r}"
        )
    return name


def whole_number(text: str) -> int:
    """Digits with or without a sign; Python's `int` would also accept `1_000` and more.

    Raises:
        ValueError: the text has another form, or the number does not fit into 64 bits.
    """
    if _WHOLE_NUMBER.fullmatch(text.strip()) is None:
        raise ValueError(f"expected a whole number, got {text!r}")
    if not -(2**63) <= int(text) < 2**63:
        raise ValueError(f"{text.strip()} does not fit into 64 bits")
    return int(text)


def positive(text: str) -> int:
    """A whole number above zero.

    Raises:
        ValueError: the text has another form.
    """
    value = whole_number(text)
    if value <= 0:
        raise ValueError(f"must be positive, not {value}")
    return value


def not_negative(text: str) -> int:
    """A whole number that is not negative.

    Raises:
        ValueError: the text has another form.
    """
    value = whole_number(text)
    if value < 0:
        raise ValueError(f"expected a number that is not negative, got {value}")
    return value


def count(text: str) -> int:
    """A whole number that is not negative and has 31 bits, as Kafka's `int`.

    Raises:
        ValueError: the text has another form.
    """
    value = whole_number(text)
    if not 0 <= value < 2**31:
        raise ValueError(f"must be from 0 to 2147483647, not {value}")
    return value


def size_bytes(text: str) -> int:
    """A size below 2 GiB, the limit of Kafka's protocol and of Arrow; also written as `64m`.

    Raises:
        ValueError: the text has another form.
    """
    value = _memory_bytes(text)
    if value <= 0:
        raise ValueError(f"must be positive, not {value}")
    if value >= 2**31:
        raise ValueError(f"must be below 2 GiB, not {value}")
    return value


def _memory_bytes(text: str) -> int:
    """A size in bytes, or in Spark's form: `512k`, `64m`, `1g`, with or without a final `b`."""
    match = _MEMORY.fullmatch(text.strip().lower())
    if match is None:
        return whole_number(text)
    return int(match[1]) << _MEMORY_BITS[match[2]]


def duration_ms(text: str) -> int:
    """The milliseconds in `30s`, `15m` and the like; a bare number is in milliseconds.

    Raises:
        ValueError: the text has another form.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"expected e.g. 500ms, 30s, 15m, 2h, got {text!r}")
    return round(int(match[1]) * _DURATION_UNITS_MS[match[2] or "ms"])


def time_ms(text: str) -> int:
    """Milliseconds since 1970, as a user wrote them.

    Raises:
        ValueError: the text is not such a number.
    """
    milliseconds = whole_number(text)
    if milliseconds < 0:
        raise ValueError(f"milliseconds since 1970 must not be negative: {milliseconds}")
    return milliseconds
