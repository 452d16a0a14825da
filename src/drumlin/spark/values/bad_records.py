"""Handling of records that cannot be decoded: the choices, and the names of their columns.

Imported with the package, so it stays light.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

BadRecords: TypeAlias = Literal["fail", "column", "drop"]
BAD_RECORDS: Final = ("fail", "column", "drop")
#: The column for the bytes of a bad record, with `bad_records="column"`.
ERROR_COLUMN: Final = "error"
RAW_COLUMN: Final = "raw"
#: The column for its key, if keys are decoded.
RAW_KEY_COLUMN: Final = "raw_key"


def raw_column(column: str) -> str:
    """The column that keeps the bytes of a bad record's column."""
    return RAW_KEY_COLUMN if column == "key" else RAW_COLUMN


class BadRecord(ValueError):
    """A value or a key cannot be decoded; the message says where it is, and why."""
