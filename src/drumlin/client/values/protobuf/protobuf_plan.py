"""Maps Protobuf messages to Arrow types, and makes the tables with which the kernel decodes them.

Fields are identified by number, so the reader's schema suffices. Unsigned numbers become the next
larger type, enums the names of their values, timestamps Arrow timestamps. A missing field with
presence (a message, `optional`, in a `oneof`) is null; others are zero or empty, or have the
schema's default, except in a `oneof`, where null shows that another member is set. If a message
contains itself, the inner one is decoded as its bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from drumlin.client.values.errors import SchemaError
from drumlin.records.kernels import values_layout as at

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

_PARTS_MAX: Final = 10_000
_TIMESTAMP: Final = ".google.protobuf.Timestamp"
_REPEATED: Final = 3
_IMPLICIT: Final = 2  # the feature `field_presence` of editions
_DELIMITED: Final = 2  # the feature `message_encoding` of editions
_ENUM: Final = 14
_MESSAGE: Final = 11
_BYTES: Final = 12

#: By a field's type in its descriptor: the Arrow type, the kernel's, and the wire type.
_SCALARS: Final[Mapping[int, tuple[pa.DataType, int, int]]] = {
    1: (pa.float64(), at.TYPE_8, at.WIRE_8),
    2: (pa.float32(), at.TYPE_4, at.WIRE_4),
    3: (pa.int64(), at.TYPE_INT64, at.WIRE_VARINT),
    4: (pa.decimal128(20, 0), at.TYPE_UINT64, at.WIRE_VARINT),
    5: (pa.int32(), at.TYPE_INT32, at.WIRE_VARINT),
    6: (pa.decimal128(20, 0), at.TYPE_FIXED64, at.WIRE_8),
    7: (pa.int64(), at.TYPE_FIXED32, at.WIRE_4),
    8: (pa.bool_(), at.TYPE_BOOL, at.WIRE_VARINT),
    9: (pa.string(), at.TYPE_STRING, at.WIRE_SIZED),
    _BYTES: (pa.binary(), at.TYPE_BYTES, at.WIRE_SIZED),
    13: (pa.int64(), at.TYPE_UINT32, at.WIRE_VARINT),
    _ENUM: (pa.string(), at.TYPE_INT32, at.WIRE_VARINT),
    15: (pa.int32(), at.TYPE_4, at.WIRE_4),
    16: (pa.int64(), at.TYPE_8, at.WIRE_8),
    17: (pa.int32(), at.TYPE_SINT32, at.WIRE_VARINT),
    18: (pa.int64(), at.TYPE_SINT64, at.WIRE_VARINT),
}


@dataclass(frozen=True)
class Part:
    """A part of a message, its type, and its node. `names` maps an enum's numbers.

    If the part is missing, its value is the `default`, or null.
    """

    kind: Literal["message", "list", "map", "enum", "plain"]
    type: pa.DataType
    node: int
    children: tuple[Part, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)
    default: pa.Scalar | None = None


class Plan(NamedTuple):
    """The root, the type of each node, and the kernel's tables."""

    root: Part
    node_types: list[pa.DataType]
    messages: np.ndarray
    fields: np.ndarray
    nulls: np.ndarray
    frame_words: int


class _Enum(NamedTuple):
    """The name of each number, the first if there are several; and the number of each name."""

    names: Mapping[int, str]
    numbers: Mapping[str, int]


class _Definitions:
    """The definitions in the files, by full name."""

    def __init__(self, files: FileDescriptorSet) -> None:
        self.messages: dict[str, tuple[Any, Any]] = {}
        self.enums: dict[str, _Enum] = {}
        for file in files.file:
            self._define(file, f".{file.package}" if file.package else "", file)

    def _define(self, holder: Any, prefix: str, file: Any) -> None:
        is_file = holder is file
        for message in holder.message_type if is_file else holder.nested_type:
            name = f"{prefix}.{message.name}"
            self.messages[name] = message, file
            self._define(message, name, file)
        for enum in holder.enum_type:
            names = {each.number: each.name for each in reversed(enum.value)}
            numbers = {each.name: each.number for each in enum.value}
            self.enums[f"{prefix}.{enum.name}"] = _Enum(names, numbers)


def plan_of(files: FileDescriptorSet, message: str | None) -> tuple[Plan, str]:
    """The plan for decoding values of a message, and the message's full name.

    Args:
        message: its full name; by default the first one of the last file.

    Raises:
        SchemaError: there is no such message, or it cannot be mapped to columns.
    """
    definitions = _Definitions(files)
    if message is None:
        file = files.file[-1]
        if not file.message_type:
            raise SchemaError("the schema has no message")
        message = ".".join(filter(None, (file.package, file.message_type[0].name)))
    if f".{message}" not in definitions.messages:
        known = ", ".join(sorted(each[1:] for each in definitions.messages))
        raise SchemaError(f"there is no message {message!r}: there are {known}")
    making = _Making(definitions)
    try:
        root, _ = making.message(f".{message}", "value", has_node=True)
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    return making.finished(root), message


class _Making:
    def __init__(self, definitions: _Definitions) -> None:
        self._definitions = definitions
        self._node_types: list[pa.DataType] = []
        self._messages: list[list[int]] = []
        self._fields: list[list[list[int]]] = []
        self._null_nodes: list[list[int]] = []
        self._open: list[str] = []
        self._words = self._words_max = 0

    def finished(self, root: Part) -> Plan:
        """The plan, with its tables laid out."""
        first = null = 0
        for row, fields, nulls in zip(self._messages, self._fields, self._null_nodes, strict=True):
            row[at.MESSAGE_FIRST_FIELD], row[at.MESSAGE_FIELD_COUNT] = first, len(fields)
            row[at.MESSAGE_NULLS], row[at.MESSAGE_NULL_COUNT] = null, len(nulls)
            first += len(fields)
            null += len(nulls)
        fields = [each for message in self._fields for each in message]
        nulls = [each for message in self._null_nodes for each in message]
        return Plan(
            root,
            self._node_types,
            np.array(self._messages, np.int64),
            np.array(fields or [[0] * at.FIELD_WIDTH], np.int64),
            np.array(nulls or [0], np.int64),
            self._words_max,
        )

    def message(self, name: str, path: str, has_node: bool) -> tuple[Part, int]:
        """A message as a struct, or as the parts of a map's entries; and its number."""
        descriptor, file = self._definitions.messages[name]
        number = len(self._messages)
        node = self._node(pa.struct([])) if has_node else at.NO_NODE
        self._messages.append([0, 0, node, 0, 0])
        fields: list[list[int]] = []
        nulls = [node] if has_node else []
        self._fields.append(fields)
        self._null_nodes.append(nulls)
        self._open.append(name)
        words = at.FRAME_SLOTS + len(descriptor.field) + 1
        self._words += words
        self._words_max = max(self._words, self._words_max)
        children = []
        for each in descriptor.field:
            # Maps and their values are never groups, even with the file's feature.
            if has_node and not self._is_entry(each) and _is_delimited(each, file):
                raise SchemaError(f"{path}.{each.name}: groups are not supported")
            row, part = self._field(each, file, f"{path}.{each.name}")
            default = self._default(each)
            if default is not None:
                part = replace(part, default=pa.scalar(default, part.type))
            if not has_node:
                row[at.FIELD_PRESENCE] = 0  # in a map's entry, a missing field is zero
            fields.append(row)
            children.append(part)
            nulls += self._nulls_of(part, row)
        self._words -= words
        self._open.pop()
        names = [str(each.name) for each in descriptor.field]
        struct = pa.struct(list(zip(names, [each.type for each in children], strict=True)))
        if has_node:
            self._node_types[node] = struct
        return Part("message", struct, node, tuple(children)), number

    def _nulls_of(self, part: Part, row: list[int]) -> list[int]:
        if part.kind == "message":
            return self._null_nodes[row[at.FIELD_MESSAGE]]
        return [part.node]

    def _node(self, type_: pa.DataType) -> int:
        self._node_types.append(type_)
        if len(self._node_types) > _PARTS_MAX:
            raise SchemaError(f"the schema has more than {_PARTS_MAX} parts")
        return len(self._node_types) - 1

    def _field(self, descriptor: Any, file: Any, path: str) -> tuple[list[int], Part]:
        """A field's row in the kernel's table, and its part."""
        is_repeated = descriptor.label == _REPEATED
        list_node = self._node(pa.null()) if is_repeated else at.NO_NODE
        part, kind, wire, number = self._value(descriptor, path)
        items = part.node
        if is_repeated:
            part = self._repeated(descriptor, part, list_node)
            items = part.children[0].node
        presence = int(_has_presence(descriptor, file))
        choice = descriptor.oneof_index if descriptor.HasField("oneof_index") else -1
        node = items if is_repeated else part.node
        row = [descriptor.number, kind, wire, node, list_node, items, number, presence, choice]
        return row, part

    def _repeated(self, descriptor: Any, item: Part, node: int) -> Part:
        if self._is_entry(descriptor):
            keys, values = item.children
            type_ = pa.map_(keys.type, values.type)
            self._node_types[node] = type_
            return Part("map", type_, node, (keys, values))
        type_ = pa.list_(pa.field("element", item.type))
        self._node_types[node] = type_
        return Part("list", type_, node, (item,))

    def _default(self, descriptor: Any) -> object:
        """The schema's default of a missing field; None without one."""
        if not descriptor.HasField("default_value") or descriptor.HasField("oneof_index"):
            return None
        if descriptor.type == _ENUM:
            enum = self._definitions.enums[descriptor.type_name]
            return enum.names[enum.numbers[descriptor.default_value]]
        return _default_of_scalar(descriptor)

    def _is_entry(self, descriptor: Any) -> bool:
        if descriptor.type != _MESSAGE:
            return False
        return bool(self._definitions.messages[descriptor.type_name][0].options.map_entry)

    def _value(self, descriptor: Any, path: str) -> tuple[Part, int, int, int]:
        """The part of one value, the kernel's type, the wire type, and a message's number."""
        if descriptor.type_name == _TIMESTAMP:
            type_ = pa.timestamp("us", tz="UTC")
            return Part("plain", type_, self._node(type_)), at.TYPE_TIMESTAMP, at.WIRE_SIZED, 0
        if descriptor.type == _MESSAGE and descriptor.type_name in self._open:
            type_ = pa.binary()
            return Part("plain", type_, self._node(type_)), at.TYPE_ENCODED, at.WIRE_SIZED, 0
        if descriptor.type == _MESSAGE:
            is_entry = self._is_entry(descriptor)
            part, number = self.message(descriptor.type_name, path, has_node=not is_entry)
            return part, at.TYPE_MESSAGE, at.WIRE_SIZED, number
        if descriptor.type not in _SCALARS:
            raise SchemaError(f"{path}: groups are not supported")
        type_, kind, wire = _SCALARS[descriptor.type]
        if descriptor.type == _ENUM:
            names = self._definitions.enums[descriptor.type_name].names
            return Part("enum", type_, self._node(pa.int32()), (), names), kind, wire, 0
        return Part("plain", type_, self._node(type_)), kind, wire, 0


def _default_of_scalar(descriptor: Any) -> object:
    """The default of a scalar, which is text in a descriptor."""
    text = descriptor.default_value
    type_ = _SCALARS[descriptor.type][0]
    if descriptor.type == _BYTES:
        from google.protobuf.text_encoding import CUnescape

        return CUnescape(text)
    if pa.types.is_boolean(type_):
        return text == "true"
    if pa.types.is_floating(type_):
        return float(text)
    if pa.types.is_decimal(type_):
        return Decimal(text)
    return int(text) if pa.types.is_integer(type_) else text


def _has_presence(descriptor: Any, file: Any) -> bool:
    if descriptor.type == _MESSAGE or descriptor.HasField("oneof_index"):
        return True
    if file.syntax == "proto3":
        return bool(descriptor.proto3_optional)
    if file.syntax == "editions":
        return _feature(descriptor, file, "field_presence") != _IMPLICIT
    return True


def _is_delimited(descriptor: Any, file: Any) -> bool:
    is_message = descriptor.type == _MESSAGE
    return is_message and _feature(descriptor, file, "message_encoding") == _DELIMITED


def _feature(descriptor: Any, file: Any, name: str) -> int:
    """A feature of editions: a field's own, or else its file's; 0 without one."""
    own, of_file = descriptor.options.features, file.options.features
    return int(getattr(own if own.HasField(name) else of_file, name))
