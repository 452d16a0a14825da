"""The pieces of a stream between delimiters: each as soon as it is there, none without a limit."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from io import BufferedReader
from typing import Final, cast

#: The largest request that brokers take by default (`socket.request.max.bytes`).
PIECE_MAX_BYTES: Final = 100 << 20
_READ_BYTES: Final = 1 << 20


class PieceTooLarge(ValueError):
    """A piece is larger than any request may be."""


def standard_input() -> BufferedReader:
    """The bytes of standard input, for which a reader waits.

    Whoever started us may have left it such that a read does not wait; what is not there yet would
    be taken for the end, and all that comes later would be lost.
    """
    source = cast(BufferedReader, sys.stdin.buffer)
    with contextlib.suppress(OSError):  # it is no descriptor
        os.set_blocking(source.fileno(), True)
    return source


def pieces(
    source: BufferedReader, delimiter: bytes, most_bytes: int = PIECE_MAX_BYTES
) -> Iterator[bytes]:
    """The pieces; if the delimiter is a newline, lines without their ends.

    Raises:
        PieceTooLarge: the next one has more than `most_bytes`.
    """
    for piece in _between(source, delimiter, most_bytes):
        # One end, not all: a value may end like a line.
        yield piece.removesuffix(b"\r") if delimiter == b"\n" else piece


def _between(source: BufferedReader, delimiter: bytes, most_bytes: int) -> Iterator[bytes]:
    rest = bytearray()
    while data := source.read1(_READ_BYTES):
        begin = max(0, len(rest) - len(delimiter) + 1)  # a delimiter may have come in two parts
        rest += data
        if rest.find(delimiter, begin) >= 0:
            *whole, last = bytes(rest).split(delimiter)
            rest = bytearray(last)
            yield from whole
        if len(rest) > most_bytes:
            raise PieceTooLarge(f"more than {most_bytes:,} bytes, which no broker takes by default")
    if rest:
        yield bytes(rest)
