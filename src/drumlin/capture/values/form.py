"""The form of captured records: the encoding and decoding of keys and rows. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring
from typing import Final, NamedTuple, Protocol

from drumlin.capture.values.kinds import Column
from drumlin.capture.values.plain import Convert, json_converter
from drumlin.capture.values.record import Data, Headers, Op, Place, Record
from drumlin.capture.values.rows import Field, Frame, Part, RowFormat

_DECODER: Final = json.JSONDecoder()
OBJECT: Final = Frame("{", ",", "}")


class Around(NamedTuple):
    """The text before and after a row's columns in a record, and the record's headers."""

    start: Part
    end: Part
    headers: Headers = ()


class Form(Protocol):
    """The form of a capture's records, which hold rows whose columns can be read back."""

    #: The name in the capture's definition; a capture with another form is refused.
    name: str
    #: Whether a row is written unchanged, so that `written` need not be called.
    is_bare: bool
    #: Whether a tombstone follows the record of a delete.
    has_tombstones: bool

    def rows_of(
        self,
        table: str,
        topic: str,
        columns: Sequence[Column],
        key: Sequence[str],
        schema: str = "",
    ) -> RowFormat:
        """The format of a table's rows, until it is altered.

        `schema`: the first part of the table's name; by default the part before the first dot.
        """

    def written(self, record: Record, place: Place) -> Iterable[Record]:
        """The records to write for a record whose value is a row."""

    def around(self, topic: str, frame: Frame, op: Op, place: Place) -> Around:
        """The text that `written` puts around the only row of a change, and the headers.

        `op`: a delete only if the form writes the row before a change; never a read.
        """

    def read(self, key: bytes, value: bytes | None) -> tuple[Data, Data | None]:
        """The key and the row of a written record.

        Raises:
            ValueError: another program, or another form, has written it.
        """


class PlainJson:
    """JSON objects of the columns, in the table's order."""

    name = "json"
    is_bare = has_tombstones = True

    def rows_of(
        self,
        table: str,
        topic: str,  # noqa: ARG002  as the protocol says
        columns: Sequence[Column],
        key: Sequence[str],
        schema: str = "",  # noqa: ARG002
    ) -> RowFormat:
        fields = [json_field(each.name, json_converter(each.kind)) for each in columns]
        of_key = [each for name in key for each in fields if each.name == name]
        return RowFormat(table, fields, OBJECT, of_key, OBJECT, earlier)

    def written(self, record: Record, place: Place) -> Iterable[Record]:  # noqa: ARG002
        return (record,)

    def around(self, topic: str, frame: Frame, op: Op, place: Place) -> Around:  # noqa: ARG002
        return Around(frame.start, frame.end)

    def read(self, key: bytes, value: bytes | None) -> tuple[Data, Data | None]:
        for each in (key, value):
            if each is not None and each[:1] != b"{":
                raise ValueError("no JSON object")
        return key.decode(), None if value is None else value.decode()


def json_field(name: str, convert: Convert) -> Field:
    """A column of a JSON object."""
    label = f"{encode_basestring(name)}:"
    return Field(name, label, convert, f"{label}null")


def earlier(row: str) -> dict[str, str]:
    """The columns of a JSON row, each with its name."""
    return {name: f"{encode_basestring(name)}:{each}" for name, each in columns_of(row).items()}


def columns_of(value: str) -> dict[str, str]:
    """The columns of a JSON row, each as JSON.

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
    if value[position:] != "}":
        raise ValueError("no JSON object alone")
    return found
