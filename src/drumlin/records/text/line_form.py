"""The form of a line: fields of a record, and text between them, as a table for the kernel."""

from __future__ import annotations

import ctypes
import enum
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from drumlin.records.kernels.layout import (
    LINE_BYTES_MAX,
    LINE_KEY,
    LINE_KEYS,
    LINE_NUMBER_BYTES_MAX,
    LINE_OFFSET,
    LINE_PARTS,
    LINE_TEXT,
    LINE_TIMESTAMP,
    LINE_VALUE,
    LINE_VALUES,
    LINE_WIDTH,
)


class Field(enum.IntEnum):
    """A field of a record. Keys and values are bytes as they are, numbers are decimal."""

    KEY = LINE_KEY
    VALUE = LINE_VALUE
    OFFSET = LINE_OFFSET
    TIMESTAMP = LINE_TIMESTAMP


class LineForm:
    """The parts of a line, in their order; its end is a part, too."""

    def __init__(self, parts: Sequence[bytes | Field], null: bytes) -> None:
        """`null` stands for a key or value that is null."""
        self.parts: Final = tuple(parts)
        self.null: Final = null
        kinds = Counter(each for each in parts if isinstance(each, Field))
        numbers = kinds[Field.OFFSET] + kinds[Field.TIMESTAMP]
        texts = [each for each in parts if isinstance(each, bytes)]
        #: What a line takes besides its keys and values that are not null.
        size_max = LINE_NUMBER_BYTES_MAX * numbers + sum(map(len, texts))
        size_max += len(null) * (kinds[Field.KEY] + kinds[Field.VALUE])
        rows = [0] * LINE_WIDTH
        rows[LINE_PARTS], rows[LINE_BYTES_MAX] = len(parts), size_max
        rows[LINE_KEYS], rows[LINE_VALUES] = kinds[Field.KEY], kinds[Field.VALUE]
        text = null
        for each in parts:
            if isinstance(each, Field):
                rows += [each, 0, len(null)]
            else:
                rows += [LINE_TEXT, len(text), len(text) + len(each)]
                text += each
        self.table: Any = (ctypes.c_int64 * len(rows))(*rows)
        self.text: Final = text
