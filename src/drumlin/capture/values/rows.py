"""Converts rows to record keys and values: JSON objects of the columns, in the table's order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Final

from drumlin.capture.errors import CaptureError
from drumlin.capture.messages.pgoutput import UNCHANGED, Value
from drumlin.capture.values.types import Convert, Types

_DECODER: Final = json.JSONDecoder()


class BadValue(CaptureError):
    """A value that does not fit its column's type."""


class StillUnknown(LookupError):
    """An unchanged large value, which the server did not send, is in no earlier row either."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


class RowFormat:
    """The format of one table's rows, until the table is altered."""

    def __init__(
        self, table: str, columns: Sequence[tuple[str, int]], key: Sequence[str], types: Types
    ) -> None:
        self.table = table
        self.names = [name for name, _ in columns]
        self._columns: list[tuple[str, str, Convert]] = [
            (name, f"{encode_basestring(name)}:", types.converter(oid)) for name, oid in columns
        ]
        self._key_columns = [(place, *self._columns[place]) for place in map(self.names.index, key)]

    def key(self, row: Sequence[Value]) -> str | None:
        """The record's key; None: the row lacks the value of a key column."""
        parts = []
        name = ""
        try:
            for place, name, label, convert in self._key_columns:  # noqa: B007  see below
                text = row[place]
                if text is None or text is UNCHANGED:
                    return None
                parts.append(label + convert(text))
        except ValueError as error:
            raise self._bad(name, error) from error
        return "{" + ",".join(parts) + "}"

    def value(self, row: Sequence[Value], before: Mapping[str, str] | None = None) -> str:
        """The record's value.

        `before`: the columns' earlier values as JSON, for unchanged values that were not sent.

        Raises:
            StillUnknown: `before` lacks one of these values.
        """
        if len(row) != len(self._columns):
            raise BadValue(f"table {self.table}: {len(row)} values in {len(self._columns)} columns")
        parts = []
        name = ""
        try:
            for (name, label, convert), text in zip(self._columns, row):  # noqa: B905  see above
                if text is None:
                    parts.append(label + "null")
                elif text is UNCHANGED:
                    if before is None or name not in before:
                        raise StillUnknown(name)
                    parts.append(label + before[name])
                else:
                    parts.append(label + convert(text))
        except ValueError as error:
            raise self._bad(name, error) from error
        return "{" + ",".join(parts) + "}"

    def _bad(self, name: str, error: ValueError) -> BadValue:
        return BadValue(f"table {self.table}, column {name!r}: {error}")


def filled(row: Sequence[Value], old: Sequence[Value] | None) -> list[Value]:
    """The row, with values that were not sent filled in from the old row."""
    if old is None or UNCHANGED not in row:
        return list(row)
    return [
        before if value is UNCHANGED and before is not None else value
        for value, before in zip(row, old, strict=True)
    ]


def columns_of(value: str) -> dict[str, str]:
    """The columns of a record's value that `RowFormat.value` has written, each as JSON.

    Raises:
        ValueError: another program has written the value.
    """
    found: dict[str, str] = {}
    position = 1
    if value[:1] != "{":
        raise ValueError("no JSON object")
    while value[position : position + 1] not in ("}", ""):
        name, colon = _DECODER.raw_decode(value, position)
        if value[colon : colon + 1] != ":":
            raise ValueError("no JSON object of a row")
        _, end = _DECODER.raw_decode(value, colon + 1)
        found[str(name)] = value[colon + 1 : end]
        position = end + 1 if value[end : end + 1] == "," else end
    return found
