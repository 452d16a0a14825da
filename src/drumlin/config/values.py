"""From the text of a configuration value to a Python value and back, by Kafka's rules.

Pure. Which key has which type and limits stands in the tables that `keys.py` reads; the
sentences of refusal are those that Apache Kafka gives, since clients see them.
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
    """Kafka's types; the value is the number that stands in a DescribeConfigs response."""

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
    """A value that does not parse or is not allowed; says what is, in Kafka's words.

    `whole_sentence` marks the few refusals that do not follow Kafka's usual frame
    "Invalid value ... for configuration ...".
    """

    def __init__(self, reason: str, shown: str | None = None, whole_sentence: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.shown = shown
        self.whole_sentence = whole_sentence


# Longer texts stand for no number of 64 bits, save with zeros in front that nobody writes.
_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d{1,40}")
_DECIMAL: Final = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)")
_BITS: Final = {ValueType.SHORT: 16, ValueType.INT: 32, ValueType.LONG: 64}
_LIST_SEPARATOR: Final = re.compile(r"\s*,\s*")
_JAVA_WHITESPACE: Final = "".join(map(chr, range(33)))


def parse(value_type: ValueType, text: str) -> Value:
    """The value that `text` stands for.

    Raises:
        Refused: it stands for none of this type.
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
        raise Refused("Expected value to be either true or false")
    return folded == "true"


def _parse_whole_number(value_type: ValueType, text: str) -> int:
    if _WHOLE_NUMBER.fullmatch(text):
        number = int(text)
        limit = 1 << (_BITS[value_type] - 1)
        if -limit <= number < limit:
            return number
    raise Refused(f"Not a number of type {value_type.name}")


def _parse_double(text: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise Refused("Not a number of type DOUBLE")
    return float(text)


def format_value(value: Value) -> str | None:
    """A value as Kafka writes it."""
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
    """As Java's Double.toString: 0.5, 1.0E-4, 1.7976931348623157E308."""
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
    """What a parsed value must satisfy: `check` raises `Refused`, `allowed` says it to people."""

    allowed: str
    check: Callable[[str, Value], None]


def rule(notation: str, value_type: ValueType) -> Rule:
    """A rule from the notation of the key tables.

    ====================  ==========================================================
    `0..`, `1..9`         a number within limits, both included
    `1..9|-1`             the same, or one number more
    `a|b|c`               one of these (in a list: each of them)
    `anycase:a|b`         the same, whatever the case
    `nonempty`            not empty; may stand in front of choices
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

    def check(_: str, value: Value) -> None:
        assert isinstance(value, int | float)
        if extra:
            if value != int(extra) and not low <= value <= (high or math.inf):
                raise Refused(f"Value must be between {low} and {high} or equal to {extra}")
        elif value < low:
            raise Refused(f"Value must be at least {low}")
        elif high is not None and value > high:
            raise Refused(f"Value must be no more than {high}")

    allowed = f"of at least {low}" if high is None else f"from {low} to {high}"
    return Rule(f"{allowed}, or {extra}" if extra else allowed, check)


def _choice_rule(choices: list[str], any_case: bool) -> Rule:
    names = ", ".join(choices)

    def check(_: str, value: Value) -> None:
        if any_case:
            if str(value).upper() not in (choice.upper() for choice in choices):
                raise Refused(f"String must be one of (case insensitive): {names}")
        elif value not in choices:
            raise Refused(f"String must be one of: {names}")

    return Rule(f"one of {names}", check)


def _list_rule(choices: list[str], must_have_one: bool) -> Rule:
    names = ", ".join(choices)
    valid = f"[{names}]" if choices else "any non-empty value"

    def check(key: str, value: Value) -> None:
        assert isinstance(value, tuple)
        if not value and must_have_one:
            sentence = f"Configuration '{key}' must not be empty. Valid values include: {valid}"
            raise Refused(sentence, whole_sentence=True)
        if "" in value:
            sentence = f"Configuration '{key}' values must not be empty."
            raise Refused(sentence, whole_sentence=True)
        for each in value:
            if choices and each not in choices:
                raise Refused(f"String must be one of: {names}", shown=each)

    kind = f"of {names}" if choices else "of non-empty entries"
    return Rule(f"{kind}, at least one" if must_have_one else kind, check)


def _check_not_empty(_: str, value: Value) -> None:
    if not value:
        raise Refused("String must be non-empty")


_NOT_EMPTY: Final = Rule("not empty", _check_not_empty)
_REPLICA: Final = re.compile(r"\d+:\d+")


def _check_replicas(key: str, value: Value) -> None:
    assert isinstance(value, tuple)
    if value == ("*",) or all(_REPLICA.fullmatch(each) for each in value):
        return
    raise Refused(
        f"{key} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        shown=f"[{', '.join(value)}]",
    )


_REPLICAS: Final = Rule("* or PARTITION:BROKER,...", _check_replicas)
