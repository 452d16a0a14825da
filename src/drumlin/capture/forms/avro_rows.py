"""The form of Avro rows: each begins with the id of its schema in a registry."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drumlin.capture.forms import binary
from drumlin.capture.forms.avro_schema import record_of, shape_of
from drumlin.capture.forms.schemas import Schemas, head_of
from drumlin.capture.forms.shapes import encoder
from drumlin.capture.values.form import Around
from drumlin.capture.values.kinds import Column
from drumlin.capture.values.record import Data, Op, Place, Record
from drumlin.capture.values.rows import Field, Frame, RowFormat


class AvroRows:
    """Keys and rows as Avro records, in a registry under the subjects TOPIC-key and TOPIC-value."""

    name = "avro"
    is_bare = has_tombstones = True

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    def rows_of(
        self,
        table: str,
        topic: str,
        columns: Sequence[Column],
        key: Sequence[str],
        schema: str = "",  # noqa: ARG002  as the protocol says
    ) -> RowFormat:
        of_key = [each for name in key for each in columns if each.name == name]
        of_rows = record_of(topic, columns, is_key=False)
        key_schema = record_of(topic, of_key, is_key=True)
        head = self._schemas.header(table, f"{topic}-value", of_rows)
        key_head = self._schemas.key_header(table, f"{topic}-key", key_schema)
        earlier = Earlier(self._schemas, of_rows["fields"], columns)
        return RowFormat(
            table,
            [avro_field(each.name, encoder(shape_of(each.kind))) for each in columns],
            Frame(head, b"", b""),
            [
                avro_field(each.name, encoder(shape_of(each.kind, True)), may_be_null=False)
                for each in of_key
            ],
            Frame(key_head, b"", b""),
            earlier.columns,
        )

    def written(self, record: Record, place: Place) -> Iterable[Record]:  # noqa: ARG002
        return (record,)

    def around(self, topic: str, frame: Frame, op: Op, place: Place) -> Around:  # noqa: ARG002
        return Around(frame.start, frame.end)

    def read(self, key: bytes, value: bytes | None) -> tuple[Data, Data | None]:
        head_of(key)
        if value is not None:
            head_of(value)
        return key, value


def avro_field(name: str, encode: binary.Encode, may_be_null: bool = True) -> Field:
    return Field(name, binary.PRESENT if may_be_null else b"", encode, binary.NULL)


class Earlier:
    """Takes columns out of rows that were written with this schema or an earlier one."""

    def __init__(
        self, schemas: Schemas, fields: Sequence[Mapping[str, Any]], columns: Sequence[Column]
    ) -> None:
        self._schemas = schemas
        self._types = {each["name"]: each["type"] for each in fields}
        self._columns = {
            field["name"]: column.name for field, column in zip(fields, columns, strict=True)
        }
        self._written: dict[bytes, list[tuple[str, Any]]] = {}

    def columns(self, row: bytes) -> dict[str, bytes]:
        """The columns whose types are unchanged.

        Raises:
            ValueError: another program has written the row.
        """
        from fastavro import schemaless_reader

        head = head_of(row)
        if head not in self._written:
            self._written[head] = self._fields(self._schemas.find(head))
        found = {}
        rest = io.BytesIO(row)
        start = rest.seek(len(head))
        try:
            for name, schema in self._written[head]:
                schemaless_reader(rest, schema, None)
                end = rest.tell()
                if name:
                    found[name] = row[start:end]
                start = end
        except (EOFError, IndexError, ValueError) as error:
            raise ValueError(f"no row of its schema: {error!r}") from error
        return found

    def _fields(self, schema: Any) -> list[tuple[str, Any]]:
        """The fields of a schema, each as a separate schema; the name is "" if its type changed."""
        from fastavro import parse_schema

        fields = []
        known: dict[str, Any] = {}
        for place, field in enumerate(row_of(schema)["fields"]):
            name, type_ = field["name"], field["type"]
            alone = {"name": name, "type": without_meaning(type_)}
            wrapped = {"type": "record", "name": f"Field{place}", "fields": [alone]}
            parsed = parse_schema(wrapped, known)
            fields.append((self._columns[name] if self._types.get(name) == type_ else "", parsed))
        return fields


def row_of(schema: Any) -> Any:
    """The schema of a row: itself, or the row that an envelope holds.

    Raises:
        ValueError: it is the schema of something else.
    """
    try:
        if schema["name"] == "Envelope":
            schema = schema["fields"][0]["type"][1]
        if schema["type"] == "record" and isinstance(schema["fields"], list):
            return schema
    except (TypeError, KeyError, IndexError):
        pass
    raise ValueError("the schema is of no captured row")


def without_meaning(type_: Any) -> Any:
    """A type without logical types: only sizes matter, and Python lacks some dates."""
    if isinstance(type_, list):
        return [without_meaning(each) for each in type_]
    if not isinstance(type_, dict):
        return type_
    inner = ("type", "items", "fields")
    return {
        name: without_meaning(each) if name in inner else each
        for name, each in type_.items()
        if name != "logicalType"
    }
