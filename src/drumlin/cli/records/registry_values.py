"""The values of shown records by a schema registry, and why some of them are shown as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from drumlin.client.values.framed_values import FramedValues
from drumlin.client.values.framing import payloads
from drumlin.client.values.registry import SchemaRegistry

if TYPE_CHECKING:
    from drumlin.cli.terminal.record_text import Row


class RegistryValues:
    """Decodes the values of rows. A value that cannot be decoded stays as it is."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._values = FramedValues(registry)
        self.undecoded = 0
        self.first_reason: str | None = None

    def decode(self, rows: list[Row]) -> dict[int, str]:
        """Replace the values of rows by decoded ones; returns the reasons for others, by index.

        Rows were read with their value and offset.
        """
        column = pa.array([row["value"] for row in rows], pa.large_binary())
        decoded, reasons = self._values.decoded(payloads(column))
        for index, value in decoded.items():
            rows[index]["value"] = value
        return reasons

    def note(self, rows: list[Row], reasons: dict[int, str]) -> None:
        """Count values that were not decoded."""
        self.undecoded += len(reasons)
        if reasons and self.first_reason is None:
            index = min(reasons)
            row = rows[index]
            where = f"{row['topic']}-{row['partition']} offset {row['offset']}"
            self.first_reason = f"{where}: {reasons[index]}"
