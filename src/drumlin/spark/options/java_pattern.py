"""Translates `subscribePattern`, a Java regular expression, into one of Python's.

Topic names consist of 65 characters. So every character class, in any of Java's notations
(`\\p{L}`, unions, `&&`), is replaced by those of the 65 that it contains. Everything else is
the same in both languages, or is translated, or refused. Pure.
"""

from __future__ import annotations

import re
import string
from typing import Final

#: The characters that a topic name may contain.
TOPIC_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "._-")

_LETTERS: Final = frozenset(string.ascii_letters)
_LOWER: Final = frozenset(string.ascii_lowercase)
_UPPER: Final = frozenset(string.ascii_uppercase)
_DIGITS: Final = frozenset(string.digits)
_PUNCTUATION: Final = frozenset("._-")
_NOTHING: Final[frozenset[str]] = frozenset()

#: `\p{…}`, without the prefixes that Java allows, in lower case.
_PROPERTIES: Final = {
    **dict.fromkeys(["l", "letter", "alpha", "alphabetic"], _LETTERS),
    **dict.fromkeys(["ll", "lower", "lowercase"], _LOWER),
    **dict.fromkeys(["lu", "upper", "uppercase"], _UPPER),
    **dict.fromkeys(["n", "nd", "digit"], _DIGITS),
    **dict.fromkeys(["alnum", "letterordigit"], _LETTERS | _DIGITS),
    **dict.fromkeys(["p", "punct", "punctuation"], _PUNCTUATION),
    **dict.fromkeys(["ascii", "print", "graph"], TOPIC_CHARACTERS),
    "pc": frozenset("_"),
    "pd": frozenset("-"),
    "po": frozenset("."),
    "xdigit": frozenset(string.hexdigits),
    "latin": _LETTERS,
    **dict.fromkeys(["space", "blank", "cntrl", "z", "zs", "c", "cc", "s", "m"], _NOTHING),
}
_SHORT_CLASSES: Final = {
    "d": _DIGITS,
    "w": TOPIC_CHARACTERS - frozenset(".-"),
    "s": _NOTHING,
    "h": _NOTHING,
    "v": _NOTHING,
}
#: The same in both languages: boundaries, anchors, back references.
_SAME_ESCAPES: Final = frozenset("bBA123456789")
_REPETITION: Final = re.compile(r"\{\d+(,\d*)?\}")
_FLAGS: Final = re.compile(r"\(\?([a-zA-Z]*)(-[a-zA-Z]+)?[:)]")
_GROUP_NAME: Final = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_REFERENCE: Final = re.compile(r"\\k<([a-zA-Z][a-zA-Z0-9]*)>")
_PROPERTY: Final = re.compile(r"\\([pP])(?:\{([^}]*)\}|(.))")


def python_pattern(java: str) -> str:
    """A pattern for `re.fullmatch` that matches the same topic names as `java` does.

    Raises:
        ValueError: `java` is not a regular expression, or has no counterpart in Python.
    """
    translation = _Translation(java)
    pattern = translation.run()
    try:
        re.compile(pattern)
    except (re.error, OverflowError) as error:
        raise ValueError(f"{java!r} is not a supported regular expression: {error}") from None
    return pattern


class _Translation:
    """One pass over a pattern, from left to right."""

    def __init__(self, java: str) -> None:
        self._java = java
        self._position = 0
        flags = [each[1] for each in _FLAGS.finditer(java)]
        self._folds_case = any("i" in each for each in flags)
        if any(set(each) - set("imsu") for each in flags):
            raise self._refused("only the flags i, m, s and u are supported")

    def run(self) -> str:
        parts = []
        while self._position < len(self._java):
            parts.append(self._next())
        return "".join(parts)

    def _next(self) -> str:
        """Translate one item outside of a character class."""
        character = self._java[self._position]
        if character == "\\":
            return self._escape()
        if character == "[":
            self._position += 1
            return self._written_out(self._class())
        if character == "(" and (name := self._take(_GROUP_NAME)):
            return f"(?P<{name[1]}>"
        if character == "{":
            repetition = self._take(_REPETITION)
            if repetition is None:
                raise self._refused("a '{' that repeats nothing")
            return repetition[0]
        self._position += 1
        return character

    def _escape(self) -> str:
        if reference := self._take(_REFERENCE):
            return f"(?P={reference[1]})"
        if self._java.startswith("\\Q", self._position):
            return re.escape(self._quoted())
        letter = self._java[self._position + 1 : self._position + 2]
        if letter in ("z", "Z"):
            self._position += 2
            return r"\Z"
        if letter and letter in _SAME_ESCAPES:
            self._position += 2
            return f"\\{letter}"
        found = self._escaped_set()
        return re.escape(found) if isinstance(found, str) else self._written_out(found)

    def _escaped_set(self) -> str | frozenset[str]:
        """Read an escape, inside or outside of a class: one character, or a set."""
        if match := self._take(_PROPERTY):
            known = self._property(match[2] or match[3])
            return self._complement(known) if match[1] == "P" else known
        letter = self._java[self._position + 1 : self._position + 2]
        self._position += 2
        if letter.lower() in _SHORT_CLASSES:
            known = _SHORT_CLASSES[letter.lower()]
            return TOPIC_CHARACTERS - known if letter.isupper() else known
        if not letter or letter.isalnum():
            raise self._refused(f"'\\{letter}' is not supported")
        return letter

    def _property(self, name: str) -> frozenset[str]:
        bare = name.removeprefix("java").removeprefix("Is").lower()
        bare = re.sub(r"^(general_category|gc|script|sc)=", "", bare)
        if bare not in _PROPERTIES:
            raise self._refused(f"'\\p{{{name}}}' is not supported")
        return _PROPERTIES[bare]

    def _class(self) -> frozenset[str]:
        """The characters of a class; the position is just after its opening bracket."""
        is_negated = self._java.startswith("^", self._position)
        self._position += is_negated
        operands: list[list[frozenset[str]]] = [[]]  # of `&&`; an operand is a union of items
        while True:
            if self._position >= len(self._java):
                raise self._refused("a '[' that is not closed")
            if self._java.startswith("&&", self._position):
                self._position += 2
                operands.append([])
            elif self._java[self._position] == "]" and operands != [[]]:
                break
            else:
                operands[-1].append(self._class_item())
        self._position += 1
        if not all(operands):
            raise self._refused("'&&' with nothing on one side")
        found = frozenset.intersection(*(_NOTHING.union(*each) for each in operands))
        return self._complement(found) if is_negated else found

    def _class_item(self) -> frozenset[str]:
        if self._java[self._position] == "[":
            self._position += 1
            return self._class()
        if self._java.startswith("\\Q", self._position):
            return frozenset(self._quoted())
        first = self._class_character()
        if not isinstance(first, str):
            return first
        rest = self._java[self._position : self._position + 2]
        if len(rest) < 2 or rest[0] != "-" or rest[1] in "][":
            return frozenset(first)
        self._position += 1
        last = self._class_character()
        if not isinstance(last, str) or last < first:
            raise self._refused("an invalid range")
        return frozenset(map(chr, range(ord(first), min(ord(last), 127) + 1)))

    def _class_character(self) -> str | frozenset[str]:
        if self._java[self._position] == "\\":
            return self._escaped_set()
        self._position += 1
        return self._java[self._position - 1]

    def _quoted(self) -> str:
        start = self._position + 2
        end = self._java.find("\\E", start)
        self._position = len(self._java) if end < 0 else end + 2
        return self._java[start:] if end < 0 else self._java[start:end]

    def _complement(self, known: frozenset[str]) -> frozenset[str]:
        if self._folds_case:
            known |= frozenset("".join(known).swapcase())
        return TOPIC_CHARACTERS - known

    def _written_out(self, known: frozenset[str]) -> str:
        allowed = "".join(map(re.escape, sorted(known & TOPIC_CHARACTERS)))
        return f"[{allowed}]" if allowed else r"[^\s\S]"  # matches nothing, but can be repeated

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._java, self._position)
        if match:
            self._position = match.end()
        return match

    def _refused(self, why: str) -> ValueError:
        return ValueError(f"{self._java!r} cannot be translated: {why}")
