"""Conversion of configuration values between text and Python, by Kafka's rules.

Pure. The type and the limits of each key are in the tables that `keys.py` reads.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

Value = bool | int | float | str | tuple[str, ...] | None


class ValueType(enum.Enum):
    """Kafka's types; the value is the number in DescribeConfigs responses."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Refused(ValueError):
    """A text that is not a value of the required type."""


# Longer texts are not 64-bit numbers, unless they begin with many zeros.
_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d{1,40}")
_DECIMAL: Final = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)")
_BITS: Final = {ValueType.SHORT: 16, ValueType.INT: 32, ValueType.LONG: 64}
_LIST_SEPARATOR: Final = re.compile(r"\s*,\s*")
_JAVA_WHITESPACE: Final = "".join(map(chr, range(33)))


def parse(value_type: ValueType, text: str) -> Value:
    """Parse the value in `text`.

    Raises:
        Refused: the text is not a value of this type.
    """
    if value_type is ValueType.PASSWORD:
        return text
    text = text.strip(_JAVA_WHITESPACE)
    if value_type is ValueType.BOOLEAN:
        return _parse_boolean(text)
    if value_type in _BITS:
        return _parse_whole_number(value_type, text)
    if value_type is ValueType.DOUBLE:
        return _parse_double(text)
    if value_type is ValueType.LIST:
        return tuple(_LIST_SEPARATOR.split(text)) if text else ()
    return text


def _parse_boolean(text: str) -> bool:
    folded = text.lower()
    if folded not in ("true", "false"):
        raise Refused
    return folded == "true"


def _parse_whole_number(value_type: ValueType, text: str) -> int:
    if _WHOLE_NUMBER.fullmatch(text):
        number = int(text)
        limit = 1 << (_BITS[value_type] - 1)
        if -limit <= number < limit:
            return number
    raise Refused


def _parse_double(text: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise Refused
    return float(text)


def format_value(value: Value) -> str | None:
    """A value, written as in Kafka."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _format_double(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _format_double(value: float) -> str:
    """A double, written like Java's Double.toString: 0.5, 1.0E-4, 1.7976931348623157E308."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value) if "e" not in repr(value) else f"{value:f}"
    digits, _, exponent = f"{value:e}".partition("e")
    shortest = repr(value).replace(".", "").lstrip("-0").partition("e")[0].rstrip("0") or "0"
    sign = "-" if digits.startswith("-") else ""
    return f"{sign}{shortest[0]}.{shortest[1:] or '0'}E{int(exponent)}"


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on a parsed value: `allows` checks it, `allowed` describes it for people."""

    allowed: str
    allows: Callable[[Value], bool]


def rule(notation: str, value_type: ValueType) -> Rule:
    """The rule for the notation in the key tables.

    ====================  ==========================================================
    `0..`, `1..9`         a number within limits, both included
    `1..9|-1`             the same, or one number more
    `a|b|c`               one of these (in a list: each of them)
    `anycase:a|b`         the same, whatever the case
    `nonempty`            not empty; may stand before choices
    `replicas`            `*`, or a list of PARTITION:BROKER
    ====================  ==========================================================
    """
    if notation == "replicas":
        return _REPLICAS
    must_have_one = notation.startswith("nonempty")
    notation = notation.removeprefix("nonempty").strip()
    if value_type is ValueType.LIST:
        return _list_rule(notation.split("|") if notation else [], must_have_one)
    if ".." in notation:
        return _range_rule(notation)
    if notation.startswith("anycase:"):
        return _choice_rule(notation.removeprefix("anycase:").split("|"), any_case=True)
    if notation:
        return _choice_rule(notation.split("|"), any_case=False)
    return _NOT_EMPTY


def _range_rule(notation: str) -> Rule:
    limits, _, extra = notation.partition("|")
    low_text, _, high_text = limits.partition("..")
    low = float(low_text) if "." in low_text else int(low_text)
    high = (float(high_text) if "." in high_text else int(high_text)) if high_text else None

    def allows(value: Value) -> bool:
        assert isinstance(value, int | float)
        if extra and value == int(extra):
            return True
        # Not "low <= value", because NaN is within all limits, as in Kafka.
        return not (value < low or (high is not None and value > high))

    allowed = f"of at least {low}" if high is None else f"from {low} to {high}"
    return Rule(f"{allowed}, or {extra}" if extra else allowed, allows)


def _choice_rule(choices: list[str], any_case: bool) -> Rule:
    folded = [choice.upper() for choice in choices]

    def allows(value: Value) -> bool:
        return str(value).upper() in folded if any_case else value in choices

    return Rule(f"one of {', '.join(choices)}", allows)


def _list_rule(choices: list[str], must_have_one: bool) -> Rule:
    def allows(value: Value) -> bool:
        assert isinstance(value, tuple)
        if must_have_one and not value:
            return False
        return all(each in choices if choices else each for each in value)

    kind = f"of {', '.join(choices)}" if choices else "of non-empty entries"
    return Rule(f"{kind}, at least one" if must_have_one else kind, allows)


_NOT_EMPTY: Final = Rule("that is not empty", bool)
_REPLICA: Final = re.compile(r"\d+:\d+")


def _names_replicas(value: Value) -> bool:
    assert isinstance(value, tuple)
    return value == ("*",) or all(_REPLICA.fullmatch(each) for each in value)


_REPLICAS: Final = Rule("of PARTITION:BROKER, or *", _names_replicas)
