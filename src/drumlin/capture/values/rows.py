"""Converts rows to record keys and values, in the form that a capture writes. Pure.

A row is its columns in the table's order, each converted by itself. So if a change lacks a column,
the column is copied from an earlier row, without conversion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from drumlin.capture.errors import CaptureError
from drumlin.capture.messages.pgoutput import UNCHANGED, Value
from drumlin.capture.values.plain import UnknownSymbol
from drumlin.capture.values.record import Data

#: All parts of a format are text, or all are bytes.
Part: TypeAlias = Any


class BadValue(CaptureError):
    """A value that does not fit its column's type."""


class TypesChanged(BadValue):
    """A value is not in its type as it was read from the database, so the type has changed."""


class StillUnknown(LookupError):
    """An unchanged large value that the server did not send is missing in all earlier rows, too."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


class Field(NamedTuple):
    """A column: the text before its value, the conversion of the value, and the text of a null."""

    name: str
    label: Part
    convert: Callable[[str], Part]
    null: Part


class Frame(NamedTuple):
    """The text before, between and after the columns of a row."""

    start: Part
    between: Part
    end: Part


class RowFormat:
    """The format of one table's rows, until the table is altered.

    `earlier`: returns the columns of an earlier row of the same form, each with its label, encoded
    as they would be now; columns that are encoded differently now are left out. It raises
    ValueError if another program has written the row. `has_before`: whether the row before a
    change is written.
    """

    def __init__(
        self,
        table: str,
        fields: Sequence[Field],
        frame: Frame,
        key: Sequence[Field],
        key_frame: Frame,
        earlier: Callable[[Part], Mapping[str, Part]],
        has_before: bool = False,
    ) -> None:
        self.table = table
        self.names = [each.name for each in fields]
        self.earlier = earlier
        self.fields = list(fields)
        self.frame, self.key_frame = frame, key_frame
        #: The key's columns, each with its place in a row.
        self.key_fields = [(self.names.index(each.name), each) for each in key]
        self._key = [(place, *each[:3]) for place, each in self.key_fields]
        self.has_before = has_before

    def key(self, row: Sequence[Value]) -> Data | None:
        """The record's key; None: the row lacks the value of a key column."""
        parts: list[Part] = []
        name = ""
        try:
            for place, name, label, convert in self._key:  # noqa: B007  told by an error
                text = row[place]
                if text is None or text is UNCHANGED:
                    return None
                parts.append(label + convert(text))
        except ValueError as error:
            raise self._bad(name, error) from error
        start, between, end = self.key_frame
        found: Data = start + between.join(parts) + end
        return found

    def value(self, row: Sequence[Value], before: Mapping[str, Part] | None = None) -> Data:
        """The encoded row.

        `before`: the columns' earlier values, from `earlier`, for unchanged values that were not
        sent.

        Raises:
            StillUnknown: `before` lacks one of these values.
        """
        if len(row) != len(self.fields):
            raise BadValue(f"table {self.table}: {len(row)} values in {len(self.fields)} columns")
        parts: list[Part] = []
        name = ""
        try:
            # On an error, the loop's variable has the column.
            for (name, label, convert, null), text in zip(self.fields, row):  # noqa: B905
                if text is None:
                    parts.append(null)
                elif text is UNCHANGED:
                    if before is None or name not in before:
                        raise StillUnknown(name)
                    parts.append(before[name])
                else:
                    parts.append(label + convert(text))
        except ValueError as error:
            raise self._bad(name, error) from error
        start, between, end = self.frame
        found: Data = start + between.join(parts) + end
        return found

    def before(self, row: Sequence[Value] | None) -> Data | None:
        """The row before a change, as far as the server has sent it, if the form writes it."""
        if row is None or not self.has_before:
            return None
        return self.value([None if each is UNCHANGED else each for each in row])

    def _bad(self, name: str, error: ValueError) -> BadValue:
        kind = TypesChanged if isinstance(error, UnknownSymbol) else BadValue
        return kind(f"table {self.table}, column {name!r}: {error}")


def filled(row: Sequence[Value], old: Sequence[Value] | None) -> list[Value]:
    """The row, with values that were not sent filled in from the old row."""
    if old is None or UNCHANGED not in row:
        return list(row)
    return [
        before if value is UNCHANGED and before is not None else value
        for value, before in zip(row, old, strict=True)
    ]
