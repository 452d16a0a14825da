"""What may become of a record that cannot be decoded: the choices, and the names of its columns.

Imported with the package, so it stays light.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

BadRecords: TypeAlias = Literal["fail", "column", "drop"]
BAD_RECORDS: Final = ("fail", "column", "drop")
#: Where a bad record is kept with `bad_records="column"`.
ERROR_COLUMN: Final = "error"
RAW_COLUMN: Final = "raw"
#: And its key, if keys are decoded.
RAW_KEY_COLUMN: Final = "raw_key"


def raw_column(column: str) -> str:
    """Where the bytes of a bad record's column are kept."""
    return RAW_KEY_COLUMN if column == "key" else RAW_COLUMN


class BadRecord(ValueError):
    """A value or a key cannot be decoded; the message says where it lies, and why."""
