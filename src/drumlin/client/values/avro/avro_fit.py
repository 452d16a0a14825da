"""Whether a column's type fits a given schema, so that its values are written as what they are.

A schema of the derived form always fits. For any other one, what the encoder would leave out, cut
or take for something else is refused before a value is written. Times are converted to the unit
that the schema has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa

from drumlin.client.values.avro.avro_schema import AvroSchema, Form, kind_of, logical_of
from drumlin.client.values.errors import SchemaError

#: Converts a value that is not null; None: it stays as it is.
Conversion: TypeAlias = "Callable[[Any], Any] | None"

_INT32: Final = frozenset({"int", "long", "double"})
_KINDS: Final[Mapping[pa.DataType, frozenset[str]]] = {
    pa.null(): frozenset({"null"}),
    pa.bool_(): frozenset({"boolean"}),
    pa.int8(): _INT32 | {"float"},
    pa.int16(): _INT32 | {"float"},
    pa.int32(): _INT32,
    pa.int64(): frozenset({"long"}),
    pa.float32(): frozenset({"float", "double"}),
    pa.float64(): frozenset({"double"}),
    pa.string(): frozenset({"string", "enum"}),
    pa.binary(): frozenset({"bytes", "fixed"}),
}
_MICROSECONDS: Final[Mapping[str, Conversion]] = {
    "millis": lambda value: value // 1000,
    "micros": None,
    "nanos": lambda value: value * 1000,
}


def conversion_of(schema: AvroSchema, type_: pa.DataType) -> Conversion:
    """The conversion of a column's values, whose times are integers, for the schema.

    Raises:
        SchemaError: values of this type cannot be written with the schema, or not as a whole.
    """
    try:
        return _fit(schema, schema.root, type_, "value")
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None


def _fit(schema: AvroSchema, form: Form, type_: pa.DataType, path: str) -> Conversion:
    whole = schema.whole(form)
    if isinstance(whole, list):
        return _of_branch(schema, whole, type_, path)
    kind = kind_of(whole)
    if kind == "record" and pa.types.is_struct(type_):
        return _of_fields(schema, whole, type_, path)
    if kind == "array" and pa.types.is_list(type_):
        of_item = _fit(schema, whole["items"], type_.value_type, f"{path}[]")
        return of_item and (lambda items: [_or_null(of_item, each) for each in items])
    if kind == "map" and pa.types.is_map(type_) and type_.key_type == pa.string():
        of_value = _fit(schema, whole["values"], type_.item_type, f"{path}{{}}")
        return of_value and (
            lambda items: {name: _or_null(of_value, each) for name, each in items.items()}
        )
    return _of_scalar(whole, kind, type_, path)


def _of_branch(
    schema: AvroSchema, branches: list[Any], type_: pa.DataType, path: str
) -> Conversion:
    """The conversion for the branch of a union that fits."""
    fitting, refusals = [], []
    for branch in branches:
        if kind_of(schema.whole(branch)) == "null" and type_ != pa.null():
            continue
        try:
            fitting.append((branch, _fit(schema, branch, type_, path)))
        except SchemaError as error:
            refusals.append(str(error))
    if not fitting:
        raise SchemaError("; ".join(refusals) or f"{path}: the schema has nothing but null")
    records = [branch for branch, _ in fitting if kind_of(schema.whole(branch)) == "record"]
    converted = [convert for _, convert in fitting if convert is not None]
    if len(records) > 1 or (converted and len(fitting) > 1):
        raise SchemaError(f"{path}: a {type_} fits several branches of the schema's union")
    return converted[0] if converted else None


def _of_fields(
    schema: AvroSchema, record: Mapping[str, Any], type_: pa.StructType, path: str
) -> Conversion:
    fields = {each["name"]: each for each in record["fields"]}
    given = {each.name: each.type for each in type_}
    foreign = [name for name in given if name not in fields]
    missing = [name for name in fields.keys() - given.keys() if "default" not in fields[name]]
    if foreign or missing:
        reasons = [f"the schema has no field {name!r}" for name in foreign]
        reasons += [f"the column has no field {name!r}, and it no default" for name in missing]
        raise SchemaError(f"{path}: {'; '.join(sorted(reasons))}")
    found = {
        name: _fit(schema, fields[name]["type"], each, f"{path}.{name}")
        for name, each in given.items()
    }
    converted = {name: convert for name, convert in found.items() if convert is not None}
    if not converted:
        return None
    return lambda row: (
        row | {name: _or_null(convert, row[name]) for name, convert in converted.items()}
    )


def _of_scalar(form: Mapping[str, Any], kind: str, type_: pa.DataType, path: str) -> Conversion:
    logical = logical_of(form)
    if pa.types.is_timestamp(type_) and kind == "long":
        prefix = "local-timestamp-" if type_.tz is None else "timestamp-"
        unit = logical.removeprefix(prefix)
        if logical.startswith(prefix) and unit in _MICROSECONDS:
            return _MICROSECONDS[unit]
    elif pa.types.is_date32(type_):
        if (kind, logical) == ("int", "date"):
            return None
    elif pa.types.is_decimal128(type_):
        scale = form.get("scale", 0)
        digits = form.get("precision", 0) - scale
        if (
            logical == "decimal"
            and scale >= type_.scale
            and digits >= type_.precision - type_.scale
        ):
            return None
    elif kind in _KINDS.get(type_, ()) and logical != "decimal":
        return None
    shown = f"{kind} ({logical})" if logical else kind
    raise SchemaError(f"{path}: a column of {type_} cannot be written as {shown}")


def _or_null(convert: Conversion, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)
