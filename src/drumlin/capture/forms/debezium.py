"""The form of Debezium's envelope: the row before and after a change, source and operation. Pure.

A row begins with the number of its schema, if records have one, as the schema may have changed by
the time the row is written.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple

from drumlin.capture.forms.connect_schema import Schema, field_of, key_schema, row_schema, struct
from drumlin.capture.forms.shapes import Shape, converter, fits
from drumlin.capture.values.form import OBJECT, Around, columns_of, earlier, json_field
from drumlin.capture.values.kinds import Column
from drumlin.capture.values.record import Data, Op, Place, Record
from drumlin.capture.values.rows import Frame, Part, RowFormat

_DIGITS: Final = "0123456789"
_ENUM: Final = "io.debezium.data.Enum"
_SNAPSHOTS: Final = (
    "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
)


class Source(NamedTuple):
    """The fields of a change's source in envelopes, for one kind of database.

    `fields`: those after the common ones: type, name, and whether it is required. The `Place` of a
    change has their values, and those of `db` and `ts_us`.
    """

    connector: str
    fields: Sequence[tuple[str, str, bool]]


POSTGRES: Final = Source(
    "postgresql",
    (
        ("string", "schema", True),
        ("string", "table", True),
        ("int64", "txId", False),
        ("int64", "lsn", False),
        ("int64", "xmin", False),
    ),
)
_FIRST: Final = (
    ("string", "version", True),
    ("string", "connector", True),
    ("string", "name", True),
    ("int64", "ts_ms", True),
    ("string", "snapshot", False),
    ("string", "db", True),
    ("string", "sequence", False),
    ("int64", "ts_us", False),
    ("int64", "ts_ns", False),
)


class Origin(NamedTuple):
    """The database that the envelopes name as the source."""

    source: Source
    version: str
    name: str

    @property
    def fields(self) -> Sequence[tuple[str, str, bool]]:
        return (*_FIRST, *self.source.fields)

    def values(self, schema: str, table: str, place: Place) -> list[Any]:
        """The values of the fields for a change of a table."""
        ts_us = place["ts_us"]
        found = {
            "version": self.version,
            "connector": self.source.connector,
            "name": self.name,
            "ts_ms": ts_us // 1000,
            "snapshot": "false",
            "ts_us": ts_us,
            "ts_ns": ts_us * 1000,
            "schema": schema,
            "table": table,
            **place,
        }
        return [found.get(name) for _, name, _ in self.fields]

    @property
    def schema(self) -> Schema:
        fields = [
            {"type": type_, "optional": not is_there, "field": name}
            for type_, name, is_there in self.fields
        ]
        snapshot = next(each for each in fields if each["field"] == "snapshot")
        snapshot.update(name=_ENUM, version=1, parameters={"allowed": _SNAPSHOTS}, default="false")
        name = f"io.debezium.connector.{self.source.connector}.Source"
        return {**struct(name, fields), "version": 1, "field": "source"}


def envelope_schema(
    topic: str, columns: Sequence[Column], key: Sequence[str], origin: Origin
) -> Schema:
    """The schema of a table's envelopes."""
    row = row_schema(topic, columns, key)
    block = [
        {"type": "string", "optional": False, "field": "id"},
        {"type": "int64", "optional": False, "field": "total_order"},
        {"type": "int64", "optional": False, "field": "data_collection_order"},
    ]
    moments = [{"type": "int64", "optional": True, "field": name} for name in _MOMENTS]
    fields = [
        {**row, "field": "before"},
        {**row, "field": "after"},
        origin.schema,
        {**struct("event.block", block, True), "version": 1, "field": "transaction"},
        {"type": "string", "optional": False, "field": "op"},
        *moments,
    ]
    return {**struct(f"{topic}.Envelope", fields), "version": 2}


_MOMENTS: Final = ("ts_ms", "ts_us", "ts_ns")


class Debezium:
    """The part common to all encodings of envelopes: the records of a change."""

    is_bare = False

    def __init__(self, name: str, origin: Origin, has_tombstones: bool = True) -> None:
        self.name = name
        self._origin = origin
        self.has_tombstones = has_tombstones
        self._tables: dict[str, tuple[str, str]] = {}
        self._place: Place | None = None
        self._sources: dict[str, Any] = {}

    def written(self, record: Record, place: Place) -> Iterable[Record]:
        """The envelope; for a delete, followed by a tombstone."""
        topic, key, row, time_ms, op, before, _ = record
        if time_ms is None:
            time_ms = place["ts_us"] // 1000
        value = self._envelope(topic, before, row, self._source_of(topic, place), op)
        made = Record(topic, key, value, time_ms)
        if op is Op.DELETE and self.has_tombstones:
            return made, Record(topic, key, None, time_ms)
        return (made,)

    def around(self, topic: str, frame: Frame, op: Op, place: Place) -> Around:
        start, end = self._around(frame.start, self._source_of(topic, place), op)
        return Around(start, frame.end + end)

    def _source_of(self, topic: str, place: Place) -> Any:
        if place is not self._place:  # all changes of a transaction have the same object
            self._place, self._sources = place, {}
        source = self._sources.get(topic)
        if source is None:
            schema, table = self._tables[topic]
            values = self._origin.values(schema, table, place)
            source = self._sources[topic] = self._source(values)
        return source

    def _note_table(self, schema: str, table: str, topic: str) -> None:
        schema = schema or table.partition(".")[0]
        self._tables[topic] = (schema, table[len(schema) + 1 :])

    def _source(self, values: Sequence[Any]) -> Any:
        raise NotImplementedError

    def _envelope(
        self, topic: str, before: Data | None, row: Data | None, source: Any, op: Op
    ) -> Data:
        raise NotImplementedError

    def _around(self, row: Part, source: Any, op: Op) -> tuple[Part, Part]:
        """The text before and after the only row of a change; `row` is the row's beginning."""
        raise NotImplementedError


class DebeziumJson(Debezium):
    """Envelopes as JSON, as Connect's converter writes it, with or without schemas."""

    def __init__(self, origin: Origin, has_schemas: bool, has_tombstones: bool = True) -> None:
        name = "debezium-schemas" if has_schemas else "debezium"
        super().__init__(name, origin, has_tombstones)
        self._has_schemas = has_schemas
        self._numbers: dict[str, int] = {}
        self._schemas: list[str] = []
        self._latest: dict[str, str] = {}

    def rows_of(
        self,
        table: str,
        topic: str,
        columns: Sequence[Column],
        key: Sequence[str],
        schema: str = "",
    ) -> RowFormat:
        self._note_table(schema, table, topic)
        of_key = [each for name in key for each in columns if each.name == name]
        shapes = {each.name: field_of(each.kind)[0] for each in columns}
        number, key_frame = "", OBJECT
        if self._has_schemas:
            number = self._number(_text(envelope_schema(topic, columns, key, self._origin)))
            of_keys = _text(key_schema(topic, of_key))
            key_frame = Frame(f'{{"schema":{of_keys},"payload":{{', ",", "}}")
        self._latest[topic] = number
        return RowFormat(
            table,
            [json_field(name, converter(shape)) for name, shape in shapes.items()],
            Frame(number + "{", ",", "}"),
            [json_field(each.name, converter(field_of(each.kind, True)[0])) for each in of_key],
            key_frame,
            lambda row: _earlier(row, shapes),
            has_before=True,
        )

    def read(self, key: bytes, value: bytes | None) -> tuple[Data, Data | None]:
        number, text = "", None if value is None else value.decode()
        if text is not None and self._has_schemas:
            whole = columns_of(text)
            number, text = self._number(_part(whole, "schema")), _part(whole, "payload")
        row = None if text is None else _part(columns_of(text), "after")
        return key.decode(), None if row is None or row == "null" else number + row

    def _number(self, schema: str) -> str:
        """The number of a schema, as a prefix of rows."""
        if schema not in self._numbers:
            self._numbers[schema] = len(self._schemas)
            self._schemas.append(schema)
        return str(self._numbers[schema])

    def _source(self, values: Sequence[Any]) -> str:
        named = zip(self._origin.fields, values, strict=True)
        return "{" + ",".join([f'"{name}":{_json(value)}' for (_, name, _), value in named]) + "}"

    def _envelope(
        self, topic: str, before: Data | None, row: Data | None, source: str, op: Op
    ) -> str:
        number = ""
        if self._has_schemas:
            number = self._latest[topic]
            if before is not None:
                number, before = _parted(str(before))
            if row is not None:
                number, row = _parted(str(row))
        end = self._end(source, op)
        return f'{self._start(number)}{before or "null"!s},"after":{row or "null"!s}{end}'

    def _around(self, row: str, source: str, op: Op) -> tuple[str, str]:
        number, bare = _parted(row)
        if op is Op.DELETE:
            return f"{self._start(number)}{bare}", f',"after":null{self._end(source, op)}'
        return f'{self._start(number)}null,"after":{bare}', self._end(source, op)

    def _start(self, number: str) -> str:
        """An envelope up to the row before the change."""
        payload = '{"before":'
        if not number:
            return payload
        return f'{{"schema":{self._schemas[int(number)]},"payload":{payload}'

    def _end(self, source: str, op: Op) -> str:
        """An envelope from the row after the change on."""
        now_ns = time.time_ns()
        return (
            f',"source":{source},"transaction":null,"op":"{op.value}",'
            f'"ts_ms":{now_ns // 1_000_000},"ts_us":{now_ns // 1000},"ts_ns":{now_ns}}}'
            f"{'}' if self._has_schemas else ''}"
        )


def _earlier(row: str, shapes: Mapping[str, Shape]) -> dict[str, str]:
    _, bare = _parted(row)
    values = columns_of(bare)
    found = earlier(bare)
    return {
        name: found[name]
        for name, shape in shapes.items()
        if name in values and fits(shape, values[name])
    }


def _parted(row: str) -> tuple[str, str]:
    """The number of a row's schema, and the row."""
    bare = row.lstrip(_DIGITS)
    return row[: len(row) - len(bare)], bare


def _part(columns: Mapping[str, str], name: str) -> str:
    if name not in columns:
        raise ValueError(f"no {name} in it")
    return columns[name]


def _json(value: Any) -> str:
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else encode_basestring(value)


def _text(schema: Schema) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
