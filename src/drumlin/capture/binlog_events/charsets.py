"""Decodes text in the character sets of MariaDB. Pure.

Of a character set with one byte for a character, the server tells the characters: Python's codecs
differ from it. Character sets with several bytes are refused, but for those of Unicode.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from typing import Final

#: Converts the bytes of a text.
Decode = Callable[[bytes], str]
BINARY: Final = "binary"
_UNICODE: Final = {
    "utf8": "utf-8",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}


class UnknownCharset(LookupError):
    """Text in this character set, or of this collation, cannot be decoded."""


class Charsets:
    """The character sets of one server.

    `by_collation`: names by the number of a collation; `characters`: of those with one byte for a
    character, the 256 that they have.
    """

    def __init__(self, by_collation: Mapping[int, str], characters: Mapping[str, str]) -> None:
        self._by_collation = by_collation
        self._characters = characters

    def name_of(self, collation: int) -> str:
        """
        Raises:
            UnknownCharset: the server has no such collation.
        """
        try:
            return self._by_collation[collation]
        except KeyError:
            raise UnknownCharset(f"collation {collation} is not known") from None

    def decoder(self, charset: str) -> Decode:
        """
        Raises:
            UnknownCharset: the character set is none of Unicode, and has several bytes for a
                character.
        """
        codec = _UNICODE.get(charset)
        if codec is not None:
            return lambda data: data.decode(codec)
        characters = self._characters.get(charset)
        if characters is None:
            raise UnknownCharset(f"character set {charset} is not supported")
        return lambda data: codecs.charmap_decode(data, "strict", characters)[0]

    def knows(self, charset: str) -> bool:
        return charset in _UNICODE or charset in self._characters
