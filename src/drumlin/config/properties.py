"""The syntax of Java properties files: what a server.properties is written in. Pure."""

from __future__ import annotations

from typing import Final

_WHITESPACE: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values of a properties file; a key given twice has its last value.

    Raises:
        ValueError: a broken `\\uXXXX` escape.
    """
    properties = {}
    for line in _logical_lines(text):
        key_end, value_start = _split(line)
        properties[_unescape(line[:key_end])] = _unescape(line[value_start:])
    return properties


def _logical_lines(text: str) -> list[str]:
    """Lines without comments, with continued lines joined and leading whitespace gone."""
    lines: list[str] = []
    pending = ""
    is_continued = False
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = natural.lstrip(_WHITESPACE)
        if not is_continued and (not line or line[0] in "#!"):
            continue
        pending += line
        # An odd number of backslashes at the end: the last one continues the line.
        is_continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        if is_continued:
            pending = pending[:-1]
            continue
        if pending:
            lines.append(pending)
        pending = ""
    if pending:
        lines.append(pending)
    return lines


def _split(line: str) -> tuple[int, int]:
    """The end of the key and the start of the value, which follows `=`, `:` or whitespace."""
    key_end = 0
    while key_end < len(line) and line[key_end] not in "=:" + _WHITESPACE:
        key_end += 2 if line[key_end] == "\\" else 1
    key_end = min(key_end, len(line))
    start = key_end
    while start < len(line) and line[start] in _WHITESPACE:
        start += 1
    if start < len(line) and line[start] in "=:":
        start += 1
        while start < len(line) and line[start] in _WHITESPACE:
            start += 1
    return key_end, start


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    characters: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            characters.append(character)
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) < 4:
                raise ValueError(f"\\u{digits} is no \\uXXXX escape")
            characters.append(chr(int(digits, 16)))
            position += 4
        else:
            characters.append(_ESCAPES.get(escaped, escaped))
    return "".join(characters)
