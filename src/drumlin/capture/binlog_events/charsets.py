"""Decodes text in the character sets of MariaDB. Pure.

For a single-byte character set, the server reports its characters: Python's codecs differ from the
server. Multi-byte character sets are refused, except for those of Unicode.
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
    """Text in this character set, or with this collation, cannot be decoded."""


class Charsets:
    """The character sets of one server.

    `by_collation`: the names by the number of a collation; `characters`: the 256 characters of each
    single-byte character set.
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
            UnknownCharset: a multi-byte character set other than those of Unicode.
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
