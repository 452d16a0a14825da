"""Keys and values of shown records by a schema registry, and why some are shown as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from drumlin.client.values.framed_values import FramedValues
from drumlin.client.values.framing import payloads
from drumlin.client.values.registry import SchemaRegistry

if TYPE_CHECKING:
    from drumlin.cli.terminal.record_text import Row

#: Why keys and values were not decoded, by the index of the row.
Reasons = dict[int, str]


class RegistryValues:
    """Decodes keys and values of rows. What cannot be decoded stays as it is."""

    def __init__(self, registry: SchemaRegistry, parts: Sequence[str]) -> None:
        """`parts`: "key", "value" or both."""
        self._values = FramedValues(registry)
        self._parts = parts
        self.undecoded: Counter[str] = Counter()  # by the part of a record
        self.first_reason: str | None = None

    def decode(self, rows: list[Row]) -> dict[str, Reasons]:
        """Replace keys and values of rows by decoded ones; returns the reasons for others, by part.

        Rows were read with their offset. A part that was not read is left out.
        """
        reasons = {}
        for part in self._parts:
            if rows and part in rows[0]:
                column = pa.array([row[part] for row in rows], pa.large_binary())
                decoded, reasons[part] = self._values.decoded(payloads(column), part)
                for index, value in decoded.items():
                    rows[index][part] = value
        return reasons

    def note(self, rows: list[Row], reasons: dict[str, Reasons]) -> None:
        """Count what was not decoded."""
        for part, found in reasons.items():
            self.undecoded[part] += len(found)
            if found and self.first_reason is None:
                index = min(found)
                row = rows[index]
                where = f"{row['topic']}-{row['partition']} offset {row['offset']}"
                self.first_reason = f"{where}: {found[index]}"
