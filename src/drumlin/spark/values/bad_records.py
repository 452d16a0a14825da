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


class BadRecord(ValueError):
    """A value cannot be decoded; the message says where it lies, and why."""
