"""`ssl.principal.mapping.rules`: principals' names from the distinguished names of certificates.

Pure. The syntax is Kafka's: rules `RULE:PATTERN/REPLACEMENT/`, followed by L or U for lower or
upper case, or DEFAULT, separated by commas; the first that matches counts. Patterns are RE2's,
which never take long; features that only Java has (look-around, back references) are refused.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import re2

_PART: Final = r"(?:\\.|[^\\/])*"
_RULE: Final = re.compile(
    rf"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>{_PART})/(?P<replacement>{_PART})/(?P<case>[LU]?))"
    r"\s*(?:,\s*|$)"
)
_PIECE: Final = re.compile(r"\\(.)|\$(\d+)|([^\\$]+|.)", re.DOTALL)


class NoRule(Exception):
    """No rule matches a name."""


class _Rule(NamedTuple):
    pattern: Any
    replacement: str
    case: str


class MappingRules:
    """The rules of one listener."""

    def __init__(self, text: str) -> None:
        """
        Raises:
            ValueError: the text is not a list of rules.
        """
        self._rules: list[_Rule | None] = []  # None is DEFAULT: the name is not changed
        at = 0
        while at < len(text):
            matched = _RULE.match(text, at)
            if matched is None:
                raise ValueError(f"no rule begins with {text[at : at + 40]!r}")
            self._rules.append(None if matched["default"] else _rule(matched))
            at = matched.end()
        if not self._rules:
            self._rules.append(None)

    def name(self, distinguished_name: str) -> str:
        """
        Raises:
            NoRule: no rule matches.
        """
        for rule in self._rules:
            if rule is None:
                return distinguished_name
            if rule.pattern.fullmatch(distinguished_name):
                return _mapped(rule, distinguished_name)
        raise NoRule(distinguished_name)


def _rule(matched: re.Match[str]) -> _Rule:
    try:
        pattern = re2.compile(matched["pattern"])
    except re2.error as error:
        raise ValueError(f"{matched['pattern']!r} is no pattern of RE2: {error}") from None
    return _Rule(pattern, matched["replacement"], matched["case"])


def _mapped(rule: _Rule, name: str) -> str:
    # As in Java, every match of the pattern is replaced; there may be several in the name.
    mapped, end = "", 0
    for found in rule.pattern.finditer(name):
        mapped += name[end : found.start()] + _replacement(rule.replacement, found)
        end = found.end()
    mapped += name[end:]
    return {"L": mapped.lower(), "U": mapped.upper(), "": mapped}[rule.case]


def _replacement(text: str, found: Any) -> str:
    groups = found.re.groups
    replaced = ""
    for escaped, number, other in _PIECE.findall(text):
        if not number:
            replaced += escaped or other
            continue
        # As in Java, take as many digits as still give the number of an existing group.
        count = next(
            (size for size in range(len(number), 0, -1) if int(number[:size]) <= groups), 0
        )
        replaced += (found[int(number[:count])] or "") if count else f"${number[:1]}"
        replaced += number[max(count, 1) :]
    return replaced
