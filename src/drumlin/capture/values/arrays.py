"""Parses the text of an array, as PostgreSQL writes it: `{1,NULL,"a,b"}`."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

#: An element of an array: a text, a null, or an array.
Elements: TypeAlias = "list[str | Elements | None]"

_PLAIN: Final = {each: re.compile(rf"[^{each}{{}}\"\\]*") for each in ",;"}
_QUOTED: Final = re.compile(r'[^"\\]*')
#: PostgreSQL's limit of array dimensions.
_DEPTH_MAX: Final = 6


class NoArray(ValueError):
    """The text is not an array."""


def parse_array(text: str, delimiter: str = ",") -> Elements:
    """Parse an array whose dimensions begin at 1, so that its text states no bounds.

    Raises:
        NoArray: the text has another format.
    """
    try:
        elements, end = _parse(text, 0, delimiter, 1)
    except IndexError:
        raise NoArray(f"an array is cut short: {text[:40]!r}") from None
    if end != len(text):
        raise NoArray(f"something follows an array: {text[end : end + 40]!r}")
    return elements


def _parse(text: str, position: int, delimiter: str, depth: int) -> tuple[Elements, int]:
    if text[position] != "{" or depth > _DEPTH_MAX:
        raise NoArray(f"no array: {text[position : position + 40]!r}")
    position += 1
    found: Elements = []
    if text[position] == "}":
        return found, position + 1
    while True:
        element: str | Elements | None
        if text[position] == "{":
            element, position = _parse(text, position, delimiter, depth + 1)
        elif text[position] == '"':
            element, position = _quoted(text, position + 1)
        else:
            element, position = _plain(text, position, delimiter)
        found.append(element)
        if text[position] == "}":
            return found, position + 1
        if text[position] != delimiter:
            raise NoArray(f"no array: {text[position : position + 40]!r}")
        position += 1


def _quoted(text: str, position: int) -> tuple[str, int]:
    parts = []
    while True:
        match = _QUOTED.match(text, position)
        assert match is not None
        parts.append(match[0])
        position = match.end()
        if text[position] == '"':
            return "".join(parts), position + 1
        parts.append(text[position + 1])  # after a backslash
        position += 2


def _plain(text: str, position: int, delimiter: str) -> tuple[str | None, int]:
    match = _PLAIN[delimiter].match(text, position)
    assert match is not None
    if not match[0]:
        raise NoArray(f"an element is missing: {text[position : position + 40]!r}")
    return None if match[0].upper() == "NULL" else match[0], match.end()
