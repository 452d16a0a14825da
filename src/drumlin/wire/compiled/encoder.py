"""Encoders for kio's message classes, compiled from the classes themselves.

kio writes a message field by field, with a call and a `struct.pack` for each; on the broker's
hot paths that is most of the work. Here every class becomes one Python function, in which runs
of fixed-size fields are one `struct.pack`. The classes stay the only description of the
messages: nothing here knows any API. Tests hold every class against kio's own writer.

A `records` field may hold any object with a length; it is put among the parts as it is. An array
of structs may be given as `EncodedItems`, whose bytes were made before.
"""

from __future__ import annotations

import dataclasses
import struct
import typing
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from kio.serial._implicit_defaults import get_tagged_field_default

from drumlin.wire.compiled.field_types import FIXED_CODES, STRING_BYTES_MAX, unwrap
from drumlin.wire.uvarint import put_uvarint

#: kafka_type -> expression that makes a value packable, for types that need one.
_PACKABLE: Final = {
    "error_code": "{}.value",
    "uuid": "_uuid({})",
    "timedelta_i32": "_milliseconds({})",
    "timedelta_i64": "_milliseconds({})",
    "datetime_i64": "_timestamp({})",
}
_NULL_UUID: Final = bytes(16)
_SMALL_BYTES: Final = 4096


class Parts:
    """Collects an encoded message: bytes, and between them the records as they were given.

    `buffer` is what the next bytes are appended to; it is emptied, never replaced.
    """

    __slots__ = ("_parts", "_size", "buffer")

    def __init__(self) -> None:
        self.buffer = bytearray()
        self._parts: list[Any] = []
        self._size = 0

    def put(self, data: Any) -> None:
        """Add `data` as it is: copied if it is a few bytes, else as a part of its own."""
        if isinstance(data, (bytes, bytearray, memoryview)) and len(data) < _SMALL_BYTES:
            self.buffer += data
            return
        self._end_part()
        self._parts.append(data)
        self._size += len(data)

    def finish(self) -> list[Any]:
        """The parts, to be sent one after the other."""
        self._end_part()
        return self._parts

    def finish_frame(self) -> list[Any]:
        """Like `finish`, for a frame: the length replaces its first four bytes, put as zeros."""
        parts = self.finish()
        parts[0] = (self._size - 4).to_bytes(4, "big") + parts[0][4:]
        return parts

    def _end_part(self) -> None:
        if self.buffer:
            self._parts.append(bytes(self.buffer))
            self._size += len(self.buffer)
            self.buffer.clear()


class EncodedItems:
    """Stands for an array of structs in a message: its elements, already encoded.

    `count`: the number of elements, where an item holds several of them.
    """

    __slots__ = ("_count", "_items")

    def __init__(self, items: Sequence[bytes], count: int | None = None) -> None:
        self._items = items
        self._count = len(items) if count is None else count

    def __len__(self) -> int:
        return self._count

    def put(self, out: Parts) -> None:
        """Append them all."""
        out.put(b"".join(self._items))


Encode = Callable[[Any, Parts], None]


_compiled: dict[Any, Encode] = {}


def encoder(entity: Any) -> Encode:
    """The function that appends an instance of the class `entity` to some parts."""
    encode = _compiled.get(entity)
    if encode is None:
        encode = _compiled[entity] = _Compiler(entity).compile()
    return encode


def encoded(entity: Any) -> bytes:
    """The bytes of a struct without records, as an element of `EncodedItems`."""
    parts = Parts()
    encoder(type(entity))(entity, parts)
    return b"".join(parts.finish())


class _Compiler:
    """Writes the source of one class's encoder."""

    def __init__(self, entity: Any) -> None:
        self._entity = entity
        self._flexible: bool = entity.__flexible__
        self._is_request_header = entity.__name__ == "RequestHeader"
        self._lines: list[str] = []
        self._run: list[tuple[str, str]] = []  # fixed-size fields not yet written
        self._names: dict[str, Any] = {
            "_uuid": _uuid_bytes,
            "_milliseconds": _milliseconds,
            "_timestamp": _timestamp,
            "_uvarint": put_uvarint,
            "Parts": Parts,
            "EncodedItems": EncodedItems,
        }

    def compile(self) -> Encode:
        tagged = []
        for field in dataclasses.fields(self._entity):
            tag = field.metadata.get("tag")
            if tag is None:
                self._field(field, f"o.{field.name}")
            else:
                tagged.append((tag, field))
        self._end_run()
        if self._flexible:
            self._tagged(sorted(tagged, key=lambda each: each[0]))
        body = "\n".join(f"    {line}" for line in self._lines)
        source = f"def encode(o, out):\n    b = out.buffer\n{body}\n"
        exec(compile(source, f"<encoder of {self._entity.__name__}>", "exec"), self._names)  # noqa: S102
        return typing.cast(Encode, self._names["encode"])

    # -- fields ------------------------------------------------------------------------

    def _field(self, field: dataclasses.Field[Any], value: str, is_tagged: bool = False) -> None:
        kafka_type = field.metadata.get("kafka_type", "")
        inner, nullable, is_array = unwrap(field.type)
        nullable = nullable and not is_tagged
        if is_array:
            self._end_run()
            self._array(kafka_type, inner, nullable, value)
        elif dataclasses.is_dataclass(inner):
            self._end_run()
            self._struct(inner, nullable, value)
        elif kafka_type in FIXED_CODES:
            self._run.append(self._fixed(kafka_type, value))
        else:
            self._end_run()
            flexible = self._flexible and not (
                self._is_request_header and field.name == "client_id"
            )
            self._sized(kafka_type, flexible, value, "")

    @staticmethod
    def _fixed(kafka_type: str, value: str) -> tuple[str, str]:
        return FIXED_CODES[kafka_type], _PACKABLE.get(kafka_type, "{}").format(value)

    def _end_run(self) -> None:
        if not self._run:
            return
        packer = self._name("pack", struct.Struct(">" + "".join(c for c, _ in self._run)).pack)
        self._lines.append(f"b += {packer}({', '.join(e for _, e in self._run)})")
        self._run.clear()

    def _sized(self, kafka_type: str, flexible: bool, value: str, indent: str) -> None:
        if kafka_type == "string":
            string = self._name("string", put_compact_string if flexible else put_string)
            self._lines.append(f"{indent}{string}(b, {value})")
        else:
            sized = self._name("bytes", _put_compact_bytes if flexible else _put_bytes)
            self._lines.append(f"{indent}{sized}(out, {value})")

    def _struct(self, inner: Any, nullable: bool, value: str) -> None:
        encode = self._name("encode", encoder(inner))
        if not nullable:
            self._lines.append(f"{encode}({value}, out)")
            return
        # KIP-893: a byte says whether a nullable struct is there.
        self._lines += [
            f"if {value} is None:",
            "    b += b'\\xff'",
            "else:",
            "    b += b'\\x01'",
            f"    {encode}({value}, out)",
        ]

    def _array(self, kafka_type: str, inner: Any, nullable: bool, value: str) -> None:
        length = _put_compact_length if self._flexible else _put_length
        self._lines.append(f"{self._name('length', length)}(b, {value})")
        loop = f"for e in {value} or ():" if nullable else f"for e in {value}:"
        if dataclasses.is_dataclass(inner):
            self._lines += [
                f"if type({value}) is EncodedItems:",
                f"    {value}.put(out)",
                "else:",
                f"    {loop}",
                f"        {self._name('encode', encoder(inner))}(e, out)",
            ]
            return
        self._lines.append(loop)
        if kafka_type in FIXED_CODES:
            code, expression = self._fixed(kafka_type, "e")
            packer = self._name("pack", struct.Struct(">" + code).pack)
            self._lines.append(f"    b += {packer}({expression})")
        else:
            self._sized(kafka_type, self._flexible, "e", "    ")

    def _tagged(self, tagged: list[tuple[int, dataclasses.Field[Any]]]) -> None:
        if not tagged:
            self._lines.append("b += b'\\x00'")
            return
        self._lines.append("tags = []")
        for tag, field in tagged:
            default = self._name("default", get_tagged_field_default(field))
            writer = self._name("tagged", self._tag_encoder(field))
            self._lines.append(f"if o.{field.name} != {default}:")
            self._lines.append(f"    tags.append(({tag}, {writer}(o)))")
        self._lines += [
            "_uvarint(b, len(tags))",
            "for tag, data in tags:",
            "    _uvarint(b, tag)",
            "    _uvarint(b, len(data))",
            "    b += data",
        ]

    def _tag_encoder(self, field: dataclasses.Field[Any]) -> Callable[[Any], bytes]:
        part = _Compiler(self._entity)
        part._field(field, f"o.{field.name}", is_tagged=True)
        part._end_run()
        body = "\n".join(f"    {line}" for line in part._lines)
        source = (
            "def encode(o):\n    out = Parts()\n    b = out.buffer\n"
            f"{body}\n    return b''.join(out.finish())\n"
        )
        exec(compile(source, f"<tag {field.name}>", "exec"), part._names)  # noqa: S102
        return typing.cast(Callable[[Any], bytes], part._names["encode"])

    def _name(self, prefix: str, value: Any) -> str:
        name = f"_{prefix}{len(self._names)}"
        self._names[name] = value
        return name


# -- values ------------------------------------------------------------------------------


def _uuid_bytes(value: UUID | None) -> bytes:
    return _NULL_UUID if value is None else value.bytes


def _milliseconds(value: timedelta) -> int:
    return value.days * 86_400_000 + value.seconds * 1000 + round(value.microseconds / 1000)


def _timestamp(value: datetime | None) -> int:
    return -1 if value is None else round(value.timestamp() * 1000)


def _put_length(buffer: bytearray, items: Any) -> None:
    buffer += (-1 if items is None else len(items)).to_bytes(4, "big", signed=True)


def _put_compact_length(buffer: bytearray, items: Any) -> None:
    put_uvarint(buffer, 0 if items is None else len(items) + 1)


def put_string(buffer: bytearray, value: str | None) -> None:
    if value is None:
        buffer += b"\xff\xff"
        return
    put_string_bytes(buffer, value.encode())


def put_string_bytes(buffer: bytearray, encoded: bytes) -> None:
    if len(encoded) > STRING_BYTES_MAX:
        raise ValueError(f"a string of {len(encoded)} bytes does not fit this version")
    buffer += len(encoded).to_bytes(2, "big")
    buffer += encoded


def put_compact_string(buffer: bytearray, value: str | None) -> None:
    if value is None:
        buffer.append(0)
        return
    put_compact_string_bytes(buffer, value.encode())


def put_compact_string_bytes(buffer: bytearray, encoded: bytes) -> None:
    put_uvarint(buffer, len(encoded) + 1)
    buffer += encoded


def _put_bytes(out: Parts, value: Any) -> None:
    if value is None:
        out.buffer += b"\xff\xff\xff\xff"
        return
    out.buffer += len(value).to_bytes(4, "big")
    out.put(value)


def _put_compact_bytes(out: Parts, value: Any) -> None:
    if value is None:
        out.buffer.append(0)
        return
    put_uvarint(out.buffer, len(value) + 1)
    out.put(value)
