"""Parses Avro schemas, with the schemas that they reference, and maps them to Arrow types.

The mapping is that of Spark's `from_avro`: a union of null and one type is that type, one of int
and long is a long, one of float and double is a double, any other union is a struct with a field
for each branch; enums and UUIDs are text, times of day are integers.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa

from drumlin.client.values.errors import DecoderUnavailable, SchemaError

#: A schema in Avro's JSON form: a name, an object or a list (a union).
Form: TypeAlias = "str | Mapping[str, Any] | list[Any]"

NO_PACKAGE: Final = "Avro needs the package fastavro: pip install fastavro"
_PARTS_MAX: Final = 10_000
_DECIMAL_DIGITS_MAX: Final = 38
_PRIMITIVE: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_ATTRIBUTES: Final = {"name": str, "size": int, "symbols": list, "aliases": list, "fields": list}
_COMPLEX: Final = frozenset({"record", "error", "enum", "array", "map", "fixed"})
_LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("fixed", "uuid"): pa.string(),
}


#: The Avro kinds that a value in a schema's JSON may have.
_KINDS_OF_JSON: Final[Mapping[type, tuple[str, ...]]] = {
    type(None): ("null",),
    bool: ("boolean",),
    int: ("int", "long", "float", "double"),
    float: ("float", "double"),
    str: ("bytes", "string", "fixed", "enum"),
    list: ("array",),
    dict: ("map", "record"),
}
#: The type of a union of two number types.
_WIDER: Final = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}


class AvroSchema:
    """A parsed schema, whose named types are looked up here."""

    def __init__(self, text: str, references: Sequence[tuple[str, str]] = ()) -> None:
        """
        Raises:
            SchemaError: the text is not an Avro schema.
            DecoderUnavailable: the package fastavro is not installed.
        """
        try:
            from fastavro.schema import parse_schema
        except ImportError:
            raise DecoderUnavailable(NO_PACKAGE) from None
        self.text = text
        self._names: dict[str, Any] = {}
        #: Cached by record name: whether all values of the record are encoded as no bytes.
        self.takes_no_bytes: dict[str, bool] = {}
        try:
            # Defaults are checked only when needed: a registry may hold invalid ones.
            for _, referred in references:
                parse_schema(_read(referred), self._names, _ignore_default_error=True)
            self.root: Form = parse_schema(_read(text), self._names, _ignore_default_error=True)
            _check_attributes([self.root, *self._names.values()])
        except RecursionError:
            raise SchemaError("not an Avro schema: it is nested too deeply") from None
        except MemoryError:
            raise  # the schema is not at fault
        except Exception as error:
            raise SchemaError(f"not an Avro schema: {error!r}") from error

    def whole(self, form: Form) -> Mapping[str, Any] | list[Any]:
        """A schema form in full: an object, or the list of a union's branches."""
        if isinstance(form, list):
            return form
        if isinstance(form, str):
            return {"type": form} if form in _PRIMITIVE else self.whole(self._names[form])
        inner = form["type"]
        if isinstance(inner, str) and (inner in _PRIMITIVE or inner in _COMPLEX):
            return form
        return self.whole(inner)

    def encoded(self, form: Form, value: Any) -> bytes:
        """A field's default in binary form; for a union, in the first branch that fits.

        Raises:
            SchemaError: the default is not of the field's type.
        """
        from fastavro import schemaless_writer, validate

        target = io.BytesIO()
        branches = form if isinstance(form, list) else [form]
        try:
            index, value = self.of_branch(branches, value)
            chosen = self._complete(branches[index])
            validate(value, chosen)
            if branches is form:
                schemaless_writer(target, "int", index)
            schemaless_writer(target, chosen, value)
        except MemoryError:
            raise
        except Exception as error:
            raise SchemaError(f"the default {value!r} has another type: {error!r}") from error
        return target.getvalue()

    def of_branch(self, branches: list[Any], value: Any) -> tuple[int, Any]:
        """The first branch of a union that fits a default, and the default as its value."""
        wholes = [self.whole(each) for each in branches]
        kinds = _KINDS_OF_JSON[type(value)]
        index = next((at for at, each in enumerate(wholes) if kind_of(each) in kinds), 0)
        return index, _from_json(self, wholes[index], value)

    def _complete(self, form: Form) -> Any:
        """A self-contained form: named types are defined at their first use; no logical types."""
        return _defined(self, form, set())


def _read(text: str) -> Any:
    return json.loads(text, object_hook=_without_impossible)


def _without_impossible(form: dict[str, Any]) -> dict[str, Any]:
    """A form without an invalid logical type, which must be ignored according to Avro."""
    if form.get("logicalType") != "decimal" or _may_be_decimal(form):
        return form
    return {name: each for name, each in form.items() if name != "logicalType"}


def _may_be_decimal(form: Mapping[str, Any]) -> bool:
    precision, scale, size = form.get("precision"), form.get("scale", 0), form.get("size", 0)
    if not all(isinstance(each, int) for each in (precision, scale, size)):
        return False
    if not 0 <= scale <= precision or precision == 0:
        return False
    if form.get("type") == "fixed":
        return bool(precision <= math.floor(math.log10(2) * (8 * size - 1)))
    return form.get("type") == "bytes"


def _check_attributes(form: Any) -> None:
    """Check attributes that the parser does not check.

    Raises:
        ValueError: an attribute is not valid in Avro.
    """
    if isinstance(form, list):
        for each in form:
            _check_attributes(each)
    if not isinstance(form, Mapping):
        return
    for name, wanted in _ATTRIBUTES.items():
        if not isinstance(form.get(name, wanted()), wanted):
            raise ValueError(f"{name} {form[name]!r:.100}: expected {wanted.__name__}")
    fields = form.get("fields", [])
    field_names = [each["name"] for each in fields]
    symbols = form.get("symbols", [])
    for text in (form.get("name", ""), *field_names, *form.get("aliases", ()), *symbols):
        str.encode(text)  # a column will have this name
    if len(set(field_names)) < len(fields):
        raise ValueError("two fields have the same name")
    if symbols and not isinstance(form.get("default", ""), str):
        raise ValueError("the default of an enum is not a symbol")
    if not 0 <= form.get("size", 0) < 1 << 63:
        raise ValueError(f"size {form['size']}")
    for each in (form.get("type"), form.get("items"), form.get("values"), fields):
        _check_attributes(each)


def kind_of(form: Mapping[str, Any] | list[Any]) -> str:
    """The name of a form's type: `union` for a list, `record` for an error."""
    kind = "union" if isinstance(form, list) else str(form["type"])
    return "record" if kind == "error" else kind


def logical_of(form: Mapping[str, Any] | list[Any]) -> str:
    """The name of a form's logical type, or an empty string."""
    return str(form.get("logicalType", "")) if isinstance(form, Mapping) else ""


def _plain_kind(form: Mapping[str, Any] | list[Any]) -> str:
    """The kind of a form without a logical type, or an empty string."""
    return "" if logical_of(form) else kind_of(form)


@dataclass(frozen=True)
class Part:
    """A part of the reader's schema, its Arrow type, and the number of its node.

    `children` are the fields of a record, the items of an array, keys and values of a map, and
    the branches of a union except null. A union of null and one type is that type's part.
    """

    form: Mapping[str, Any] | list[Any]
    type: pa.DataType
    node: int
    children: tuple[Part, ...] = ()
    may_be_null: bool = False

    def walk(self) -> Iterator[Part]:
        """The part and all parts below it, in the order of their nodes."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass
class _Builder:
    schema: AvroSchema
    count: int = 0
    open_names: list[str] = field(default_factory=list)

    def part(self, form: Form, path: str, may_be_null: bool = False) -> Part:
        whole = self.schema.whole(form)
        kind = kind_of(whole)
        if kind == "union":
            return self._union(whole, path, may_be_null)
        node = self._number()
        name = str(whole["name"]) if isinstance(whole, Mapping) and "name" in whole else ""
        if name and name in self.open_names:
            raise SchemaError(f"{path}: {name} contains itself, which is impossible in a column")
        self.open_names.append(name)
        try:
            type_, children = self._filled(whole, kind, path)
        finally:
            self.open_names.pop()
        return Part(whole, type_, node, children, may_be_null)

    def _number(self) -> int:
        self.count += 1
        if self.count > _PARTS_MAX:
            raise SchemaError(f"the schema has more than {_PARTS_MAX} parts")
        return self.count - 1

    def _union(self, branches: Any, path: str, may_be_null: bool) -> Part:
        others = [each for each in branches if kind_of(self.schema.whole(each)) != "null"]
        may_be_null = may_be_null or len(others) < len(branches)
        if len(others) == 1:
            return self.part(others[0], path, may_be_null)
        if not others:
            return self.part("null", path)
        wider = _WIDER.get(frozenset(map(_plain_kind, map(self.schema.whole, others))))
        if wider is not None:
            return self.part(wider, path, may_be_null)
        node = self._number()
        members = tuple(
            self.part(each, f"{path}.member{index}", may_be_null=True)
            for index, each in enumerate(others)
        )
        fields = [pa.field(f"member{index}", each.type) for index, each in enumerate(members)]
        return Part(branches, pa.struct(fields), node, members, may_be_null)

    def _filled(self, form: Any, kind: str, path: str) -> tuple[pa.DataType, tuple[Part, ...]]:
        if kind == "record":
            fields = form["fields"]
            names = [str(each["name"]) for each in fields]
            parts = tuple(self.part(each["type"], f"{path}.{each['name']}") for each in fields)
            types = [pa.field(name, part.type) for name, part in zip(names, parts, strict=True)]
            return pa.struct(types), parts
        if kind == "array":
            _check_size(self.schema, form["items"], path)
            items = self.part(form["items"], f"{path}[]")
            return pa.list_(pa.field("element", items.type)), (items,)
        if kind == "map":
            keys = self.part("string", f"{path} keys")
            values = self.part(form["values"], f"{path}{{}}")
            return pa.map_(keys.type, values.type), (keys, values)
        return _scalar_type(form, kind, path), ()


def parts_of(schema: AvroSchema) -> tuple[Part, int]:
    """The root part of a reader's schema, and the number of parts.

    Raises:
        SchemaError: the schema cannot be mapped to columns.
    """
    builder = _Builder(schema)
    try:
        return builder.part(schema.root, "value"), builder.count
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None


def _scalar_type(form: Mapping[str, Any], kind: str, path: str) -> pa.DataType:
    logical = logical_of(form)
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = form.get("precision"), form.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int):
            raise SchemaError(f"{path}: the decimal has no precision")
        if not 0 < precision <= _DECIMAL_DIGITS_MAX or not 0 <= scale <= precision:
            raise SchemaError(f"{path}: no column type for decimal({precision}, {scale})")
        return pa.decimal128(precision, scale)
    if (kind, logical) in _LOGICAL and not (kind == "fixed" and form["size"] != 16):
        return _LOGICAL[kind, logical]
    if kind == "enum":
        return pa.string()
    return pa.binary() if kind == "fixed" else _PRIMITIVE[kind]


def _check_size(schema: AvroSchema, form: Form, path: str) -> None:
    """Check the items of an array.

    Raises:
        SchemaError: the items take no bytes, so that a few bytes could claim any number of them.
    """
    if takes_no_bytes(schema, form):
        raise SchemaError(f"{path}: an array of items that take no bytes is not supported")


def takes_no_bytes(schema: AvroSchema, form: Form, within: frozenset[str] = frozenset()) -> bool:
    """Whether each value of a form is encoded as no bytes. `within`: the enclosing records."""
    whole = schema.whole(form)
    kind = kind_of(whole)
    if kind == "record" and isinstance(whole, Mapping):
        known, name = schema.takes_no_bytes, str(whole["name"])
        if name not in known:
            known[name] = name not in within and all(
                takes_no_bytes(schema, each["type"], within | {name}) for each in whole["fields"]
            )
        return known[name]
    if kind == "fixed" and isinstance(whole, Mapping):
        return int(whole["size"]) == 0
    return kind == "null"


def _from_json(schema: AvroSchema, form: Any, value: Any) -> Any:
    """A default as a Python value: in a schema's JSON, bytes are Latin-1 text."""
    kind = kind_of(form)
    if kind in ("bytes", "fixed") and isinstance(value, str):
        return value.encode("latin-1", "replace")
    if kind == "array" and isinstance(value, list):
        items = schema.whole(form["items"])
        return [_from_json(schema, items, each) for each in value]
    if kind == "map" and isinstance(value, dict):
        values = schema.whole(form["values"])
        return {name: _from_json(schema, values, each) for name, each in value.items()}
    if kind == "record" and isinstance(value, dict):
        return {
            each["name"]: _from_json(
                schema,
                schema.whole(each["type"]),
                value.get(each["name"], each.get("default")),
            )
            for each in form["fields"]
        }
    if kind == "union":
        return schema.of_branch(form, value)[1]
    return value


def _defined(schema: AvroSchema, form: Form, seen: set[str]) -> Any:
    whole = schema.whole(form)
    if isinstance(whole, list):
        return [_defined(schema, each, seen) for each in whole]
    plain = {name: each for name, each in whole.items() if name != "logicalType"}
    name = str(plain.get("name", ""))
    if name and name in seen:
        return name
    seen.add(name)
    if "fields" in plain:
        plain["fields"] = [
            {**each, "type": _defined(schema, each["type"], seen)} for each in plain["fields"]
        ]
    for inner in ("items", "values"):
        if inner in plain:
            plain[inner] = _defined(schema, plain[inner], seen)
    plain.pop("__fastavro_parsed__", None)
    plain.pop("__named_schemas", None)
    return plain
