"""Parses the text format of COPY: one row per line, with tabs between the columns. Pure."""

from __future__ import annotations

import re
from typing import Final

from drumlin.capture.messages.pgoutput import Row

_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_MEANINGS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NULL: Final = "\\N"


def parse_line(line: str) -> Row:
    """The values of a row; None is NULL. Rows of a table without columns have no values."""
    texts = line.removesuffix("\n").split("\t")
    if "\\" not in line:
        return list(texts)
    return [None if text == _NULL else _ESCAPE.sub(_meaning, text) for text in texts]


def _meaning(match: re.Match[str]) -> str:
    return _MEANINGS.get(match[1], match[1])
