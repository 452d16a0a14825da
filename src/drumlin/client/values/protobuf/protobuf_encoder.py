"""Encodes Arrow columns as Protobuf values: a message of a given schema from each row.

Google's library encodes row by row. What it would leave out or take for something else is refused,
where possible before a value is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from drumlin.client.values.errors import SchemaError
from drumlin.client.values.framing import header, path_of_message
from drumlin.client.values.protobuf.proto_files import files_of, message_names
from drumlin.client.values.python_values import python_values
from drumlin.client.values.registry import RegisteredSchema, SchemaRegistry, as_registry, register
from drumlin.client.values.writer_schema import SchemaId, check_schema_arguments, registered_schema

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

#: Sets the field of a message to a value that is not null.
_Setter: TypeAlias = "Callable[[Any, Any], None]"

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_INT32: Final = (pa.int8(), pa.int16(), pa.int32())
_INT64: Final = (*_INT32, pa.int64())
_UINT64: Final = (*_INT64, pa.decimal128(20, 0))
#: The types of columns that a field of a C++ type can hold; of those with a sign, values below
#: zero are refused row by row.
_TYPES: Final = {
    "int32": _INT32,
    "int64": _INT64,
    "uint32": _INT64,
    "uint64": _UINT64,
    "double": (pa.float32(), pa.float64()),
    "float": (pa.float32(),),
    "bool": (pa.bool_(),),
    "enum": (pa.string(),),
}


class ProtobufEncoder:
    """An encoder for columns of one type: structs, whose fields have the names of the message's.

    Args:
        type: the type of the columns.
        schema: a `.proto` file as text.
        message: the message's full name; by default the schema's first one.
        registry: the registry in which the schema is registered now; values begin with its id.
        subject: the subject under which it is registered.
        schema_id: write with a schema that the registry has, and register nothing: its id, or
            `latest` for the latest one of `subject`.

    Raises:
        SchemaError: a part of the type has no counterpart in the message, or the schema is invalid.
        UnknownSchema, RegistryError: the registry refuses the schema or does not have it, or
            cannot be reached.
        DecoderUnavailable: a package is not installed, or a compiler has failed.
        ValueError: arguments contradict each other.
    """

    def __init__(
        self,
        type: pa.DataType,  # noqa: A002
        schema: str | None = None,
        *,
        message: str | None = None,
        registry: SchemaRegistry | str | None = None,
        subject: str | None = None,
        schema_id: SchemaId | None = None,
    ) -> None:
        check_schema_arguments(schema, registry, subject, schema_id)
        if registry is not None and schema_id is not None:
            self._schema = registered_schema(registry, subject, schema_id, "PROTOBUF")
        elif schema is None:
            raise ValueError("Protobuf is written with a schema, or with a `schema_id`")
        else:
            self._schema = RegisteredSchema(0, "PROTOBUF", schema)
        names = message_names(self._schema)
        paths = {name: path for path, name in names.items()}
        if not names:
            raise SchemaError("the schema has no message")
        self._message = names[0,] if message is None else message
        if self._message not in paths:
            known = ", ".join(sorted(paths))
            raise SchemaError(f"there is no message {self._message!r}: there are {known}")
        self._type = type
        self._prepare()
        self._header = b""
        if registry is not None:
            number = self._schema.id
            if schema_id is None and subject is not None:
                where = as_registry(registry)
                number = register(where, subject, "PROTOBUF", self._schema.text)
            self._header = header(number) + path_of_message(paths[self._message])

    def _prepare(self) -> None:
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message_factory import GetMessageClass

        pool = DescriptorPool()
        for file in files_of(self._schema).file:
            pool.AddSerializedFile(file.SerializeToString())
        descriptor = pool.FindMessageTypeByName(self._message)
        self._new: Callable[[], Any] = GetMessageClass(descriptor)
        try:
            self._fill = _filling(descriptor, self._type, "value")
        except RecursionError:
            raise SchemaError("the schema is nested too deeply") from None

    def __getstate__(self) -> tuple[Any, ...]:
        return self._schema, self._message, self._type, self._header

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._schema, self._message, self._type, self._header = state
        self._prepare()

    def encode(self, values: pa.Array) -> pa.Array:
        """The bytes of each row; null for null rows.

        Raises:
            ValueError: a value does not fit the schema.
        """
        encoded: list[bytes | None] = []
        for value in python_values(values):
            if value is None:
                encoded.append(None)
                continue
            message = self._new()
            try:
                self._fill(message, value)
                encoded.append(self._header + message.SerializeToString(deterministic=True))
            except MemoryError:
                raise
            except Exception as error:
                raise ValueError(f"{value!r:.200} does not fit the schema: {error}") from error
        return pa.array(encoded, pa.binary())


def _filling(message: Descriptor, type_: pa.DataType, path: str) -> _Setter:
    """The function that fills a message from a struct, whose null fields are left out.

    Raises:
        SchemaError: the message cannot hold such a struct as a whole.
    """
    if not pa.types.is_struct(type_):
        raise SchemaError(f"{path}: a column of {type_} cannot be written as {message.full_name}")
    fields = message.fields_by_name
    foreign = [each.name for each in type_ if each.name not in fields]
    given = {each.name for each in type_}
    missing = [each.name for each in message.fields if each.is_required and each.name not in given]
    if foreign or missing:
        reasons = [f"{message.full_name} has no field {name!r}" for name in foreign]
        reasons += [f"the column lacks the required field {name!r}" for name in missing]
        raise SchemaError(f"{path}: {'; '.join(reasons)}")
    setters = {each.name: _setter(fields[each.name], each.type, path) for each in type_}
    choices = {
        each.name: each.containing_oneof.name
        for each in message.fields
        if each.containing_oneof is not None
    }

    def fill(target: Any, row: dict[str, Any]) -> None:
        chosen: dict[str, str] = {}
        for name, value in row.items():
            if value is None:
                continue
            other = chosen.setdefault(choices[name], name) if name in choices else name
            if other != name:
                raise ValueError(f"{path}: {other} and {name} exclude each other")
            setters[name](target, value)

    return fill


def _setter(field: FieldDescriptor, type_: pa.DataType, path: str) -> _Setter:
    name, where = field.name, f"{path}.{field.name}"
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return _map_setter(field, type_, where)
    if field.is_repeated:
        if not pa.types.is_list(type_):
            raise SchemaError(f"{where}: a column of {type_} cannot be written as a list")
        return _list_setter(field, type_.value_type, where)
    if entry is not None:
        fill = _message_filling(field, type_, where)

        def set_message(target: Any, value: Any) -> None:
            part = getattr(target, name)
            part.SetInParent()
            fill(part, value)

        return set_message
    convert = _scalar(field, type_, where)
    return lambda target, value: setattr(target, name, convert(value))


def _list_setter(field: FieldDescriptor, type_: pa.DataType, where: str) -> _Setter:
    name = field.name
    if field.message_type is None:
        convert = _scalar(field, type_, f"{where}[]")
        return lambda target, items: getattr(target, name).extend(
            convert(_given(each, where)) for each in items
        )
    fill = _message_filling(field, type_, f"{where}[]")

    def set_messages(target: Any, items: list[Any]) -> None:
        for each in items:
            fill(getattr(target, name).add(), _given(each, where))

    return set_messages


def _map_setter(field: FieldDescriptor, type_: pa.DataType, where: str) -> _Setter:
    if not pa.types.is_map(type_):
        raise SchemaError(f"{where}: a column of {type_} cannot be written as a map")
    name = field.name
    keys, values = (field.message_type.fields_by_name[each] for each in ("key", "value"))
    key_of = _scalar(keys, type_.key_type, f"{where} keys")
    if values.message_type is None:
        value_of = _scalar(values, type_.item_type, f"{where}{{}}")

        def set_values(target: Any, entries: dict[Any, Any]) -> None:
            for key, value in entries.items():
                getattr(target, name)[key_of(key)] = value_of(_given(value, where))

        return set_values
    fill = _message_filling(values, type_.item_type, f"{where}{{}}")

    def set_messages(target: Any, entries: dict[Any, Any]) -> None:
        for key, value in entries.items():
            fill(getattr(target, name)[key_of(key)], _given(value, where))

    return set_messages


def _message_filling(field: FieldDescriptor, type_: pa.DataType, where: str) -> _Setter:
    if type_ == pa.binary():  # as a message that contains itself is read
        return lambda target, value: target.MergeFromString(value)
    if field.message_type.full_name == _TIMESTAMP and pa.types.is_timestamp(type_):
        if type_.tz is None:
            raise SchemaError(f"{where}: a time without a zone cannot be written as {_TIMESTAMP}")
        return _set_time
    return _filling(field.message_type, type_, where)


def _set_time(target: Any, microseconds: int) -> None:
    target.seconds, rest = divmod(microseconds, 1_000_000)
    target.nanos = rest * 1000


def _scalar(field: FieldDescriptor, type_: pa.DataType, where: str) -> Callable[[Any], Any]:
    kind = _kind(field)
    types = _TYPES.get(kind) or ((pa.string(),) if kind == "string" else (pa.binary(),))
    if type_ not in types:
        raise SchemaError(f"{where}: a column of {type_} cannot be written as {kind}")
    if kind == "enum":
        numbers = {each.name: each.number for each in field.enum_type.values}
        return lambda text: numbers[text] if text in numbers else int(text)
    return int if pa.types.is_decimal(type_) else lambda value: value


def _kind(field: FieldDescriptor) -> str:
    if field.cpp_type == field.CPPTYPE_STRING:
        return "bytes" if field.type == field.TYPE_BYTES else "string"
    names = {getattr(field, f"CPPTYPE_{name.upper()}"): name for name in _TYPES}
    return names.get(field.cpp_type, "a group")


def _given(value: Any, where: str) -> Any:
    if value is None:
        raise ValueError(f"{where}: Protobuf has no null in lists and maps")
    return value
