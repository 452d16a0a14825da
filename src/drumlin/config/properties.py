"""The syntax of Java properties files, such as server.properties. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_WHITESPACE: Final = " \t\f"
_HEXADECIMAL: Final = frozenset("0123456789abcdefABCDEF")
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of a properties file; of a key given twice, the last value counts.

    Raises:
        ValueError: a broken `\\uXXXX` escape; the message names the line, but shows no value.
    """
    properties = {}
    for number, line in _logical_lines(text):
        key_end, value_start = _split(line)
        try:
            properties[_unescape(line[:key_end])] = _unescape(line[value_start:])
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return properties


def decode_properties(content: bytes) -> dict[str, str]:
    """Like `parse_properties`, for a file in UTF-8; skips a byte order mark at the beginning.

    Raises:
        ValueError: the file is not UTF-8, or has a broken escape; the message names the line.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = len((content[: error.start] + b"?").splitlines())
        raise ValueError(f"line {number}: not UTF-8; write such a character as \\uXXXX") from None
    return parse_properties(text)


def encode_properties(properties: Mapping[str, str]) -> str:
    """The text of a file with these properties. Keys must not contain characters that end a line
    or separate the value.
    """
    return "".join(f"{key}={_escape(text)}\n" for key, text in properties.items())


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines without comments, with continued lines joined and leading whitespace removed.

    Each has the number of its last natural line.
    """
    lines: list[tuple[int, str]] = []
    pending = ""
    is_continued = False
    natural_lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, natural in enumerate(natural_lines, 1):
        line = natural.lstrip(_WHITESPACE)
        if not is_continued and (not line or line[0] in "#!"):
            continue
        pending += line
        # With an odd number of backslashes at the end, the last one continues the line.
        is_continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        if is_continued:
            pending = pending[:-1]
            continue
        if pending:
            lines.append((number, pending))
        pending = ""
    if pending:
        lines.append((len(natural_lines), pending))
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


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{escaped}" if escaped.startswith((" ", "\t", "\f")) else escaped


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
            if len(digits) < 4 or not _HEXADECIMAL.issuperset(digits):
                raise ValueError("\\u without four hexadecimal digits")
            characters.append(chr(int(digits, 16)))
            position += 4
        else:
            characters.append(_ESCAPES.get(escaped, escaped))
    # Java's characters are UTF-16: one beyond the first 65,536 needs two escapes.
    units = "".join(characters).encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "surrogatepass")
