"""Debezium's envelope as Avro, as Connect's converter writes it with a schema registry."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from typing import Any, Final

from drumlin.capture.forms import binary
from drumlin.capture.forms.avro_rows import Earlier, avro_field, row_of, without_meaning
from drumlin.capture.forms.avro_schema import field_names
from drumlin.capture.forms.connect_schema import avro_of, field_of, key_schema
from drumlin.capture.forms.debezium import Debezium, Origin, envelope_schema
from drumlin.capture.forms.schemas import HEADER_SIZE, Schemas, head_of
from drumlin.capture.forms.shapes import encoder
from drumlin.capture.values.kinds import Column
from drumlin.capture.values.record import Data, Op
from drumlin.capture.values.rows import Frame, RowFormat

_OPS: Final = {op: binary.text(op.value) for op in Op}


class DebeziumAvro(Debezium):
    """Envelopes whose schemas are in a registry, under the subjects TOPIC-key and TOPIC-value."""

    def __init__(self, origin: Origin, schemas: Schemas, has_tombstones: bool = True) -> None:
        super().__init__("debezium-avro", origin, has_tombstones)
        self._schemas = schemas
        self._latest: dict[str, bytes] = {}
        self._before: dict[bytes, Any] = {}

    def rows_of(
        self,
        table: str,
        topic: str,
        columns: Sequence[Column],
        key: Sequence[str],
        schema: str = "",
    ) -> RowFormat:
        self._note_table(schema, table, topic)
        field_names(topic, columns)
        of_key = [each for name in key for each in columns if each.name == name]
        of_rows = avro_of(envelope_schema(topic, columns, key, self._origin), set())
        of_keys = avro_of(key_schema(topic, of_key), set())
        head = self._latest[topic] = self._schemas.header(table, f"{topic}-value", of_rows)
        key_head = self._schemas.key_header(table, f"{topic}-key", of_keys)
        return RowFormat(
            table,
            [
                avro_field(each.name, encoder(field_of(each.kind)[0]), each.name not in key)
                for each in columns
            ],
            Frame(head, b"", b""),
            [
                avro_field(each.name, encoder(field_of(each.kind, True)[0]), may_be_null=False)
                for each in of_key
            ],
            Frame(key_head, b"", b""),
            Earlier(self._schemas, row_of(of_rows)["fields"], columns).columns,
            has_before=True,
        )

    def read(self, key: bytes, value: bytes | None) -> tuple[Data, Data | None]:
        head_of(key)
        return key, None if value is None else self._after(value)

    def _after(self, value: bytes) -> bytes | None:
        from fastavro import parse_schema, schemaless_reader

        head = head_of(value)
        if head not in self._before:
            row = row_of(self._schemas.find(head))
            self._before[head] = parse_schema(["null", without_meaning(row)], {})
        rest = io.BytesIO(value)
        rest.seek(HEADER_SIZE)
        try:
            schemaless_reader(rest, self._before[head], None)
            start = rest.tell()
            if schemaless_reader(rest, self._before[head], None) is None:
                return None
        except (EOFError, IndexError, ValueError) as error:
            raise ValueError(f"no envelope of its schema: {error!r}") from error
        return head + value[start + 1 : rest.tell()]

    def _source(self, values: Sequence[Any]) -> bytes:
        parts = []
        for (type_, _, is_there), value in zip(self._origin.fields, values, strict=True):
            if value is None:
                parts.append(binary.NULL)
                continue
            encoded = binary.text(value) if type_ == "string" else binary.long(value)
            parts.append(encoded if is_there else binary.PRESENT + encoded)
        return b"".join(parts)

    def _envelope(
        self, topic: str, before: Data | None, row: Data | None, source: bytes, op: Op
    ) -> bytes:
        head = self._latest[topic]
        was = now = binary.NULL
        if isinstance(before, bytes):
            head, was = before[:HEADER_SIZE], binary.PRESENT + before[HEADER_SIZE:]
        if isinstance(row, bytes):
            head, now = row[:HEADER_SIZE], binary.PRESENT + row[HEADER_SIZE:]
        return b"".join((head, was, now, self._end(source, op)))

    def _around(self, row: bytes, source: bytes, op: Op) -> tuple[bytes, bytes]:
        head, rest = row[:HEADER_SIZE], row[HEADER_SIZE:]
        end = self._end(source, op)
        if op is Op.DELETE:
            return head + binary.PRESENT + rest, binary.NULL + end
        return head + binary.NULL + binary.PRESENT + rest, end

    def _end(self, source: bytes, op: Op) -> bytes:
        now_ns = time.time_ns()
        ms, us = binary.long(now_ns // 1_000_000), binary.long(now_ns // 1000)
        moments = b"\2%b\2%b\2%b" % (ms, us, binary.long(now_ns))
        return b"".join((source, binary.NULL, _OPS[op], moments))
