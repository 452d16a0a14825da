"""Declared schemas of the records in Kafka's internal topics, compiled to encoders and decoders.

A schema says what Kafka's own JSON descriptions say: the fields of a key or a value in their
order, their types, the versions that have them, and their tags. From it one Python function is
made for each direction, in which runs of fixed-size fields are one `struct.pack`. A schema knows
nothing of what its records mean.

    key     int16: the type of the record; then the fields, never flexible
    value   int16: the version; then the fields; then tagged fields, if the version is flexible

A value is written in one version and read in every version up to the last one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Generic, Protocol, TypeVar

from drumlin.coordination.internal_records.record_code import EncoderCode
from drumlin.coordination.internal_records.record_fields import FieldReader, UnreadableRecord

T = TypeVar("T")

_NEWEST: Final = 2**15 - 1


class Type(Protocol):
    """The type of a field."""

    def write(self, code: EncoderCode, value: str) -> None:
        """Emit what appends `value`, an expression."""

    def read(self, code: DecoderCode) -> str:
        """An expression that takes a value from the reader `r`."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A type of a fixed size: `form` is its code for `struct`, `reader` a method of the reader."""

    form: str
    reader: str
    packable: str = "{}"

    def write(self, code: EncoderCode, value: str) -> None:
        code.fixed(self.form, self.packable.format(value))

    def read(self, code: DecoderCode) -> str:  # noqa: ARG002  the type needs nothing else
        return f"r.{self.reader}()"


INT8: Final = Fixed("b", "int8")
INT16: Final = Fixed("h", "int16")
INT32: Final = Fixed("i", "int32")
INT64: Final = Fixed("q", "int64")
UUID: Final = Fixed("16s", "uuid", "{}.bytes")


@dataclass(frozen=True, slots=True)
class String:
    """Text of at most 32,767 bytes."""

    nullable: bool = False

    def write(self, code: EncoderCode, value: str) -> None:
        code.part(f"{'compact_string' if code.flexible else 'legacy_string'}({value})")

    def read(self, code: DecoderCode) -> str:  # noqa: ARG002
        return "r.nullable_string()" if self.nullable else "r.string()"


@dataclass(frozen=True, slots=True)
class Bytes:
    """Any bytes, with their length."""

    def write(self, code: EncoderCode, value: str) -> None:
        code.length(value)
        code.part(value)

    def read(self, code: DecoderCode) -> str:  # noqa: ARG002
        return "r.bytes_field()"


STRING: Final = String()
NULLABLE_STRING: Final = String(nullable=True)
BYTES: Final = Bytes()


@dataclass(frozen=True, slots=True)
class Array:
    """Elements of one type; read as a list."""

    of: Type

    def write(self, code: EncoderCode, value: str) -> None:
        code.length(value)
        match self.of:
            case Fixed(form=form, packable="{}"):
                code.part(f'pack(f">{{len({value})}}{form}", *{value})')
            case Struct() as element if (forms := element.fixed_forms(code.flexible)) is not None:
                code.part(f"pack_structs({forms!r}, {value})")
            case _:
                item = code.new_name()
                with code.block(f"for {item} in {value}:"):
                    self.of.write(code, item)

    def read(self, code: DecoderCode) -> str:
        if self.of is INT32:
            return "r.int32s()"
        return f"[{self.of.read(code)} for _ in range(r.array_length())]"


@dataclass(frozen=True, slots=True)
class NullableArray(Array):
    """An array that may be null, which is read as one without elements and never written."""

    def read(self, code: DecoderCode) -> str:
        return f"[{self.of.read(code)} for _ in range(r.nullable_array_length() or 0)]"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A field whose bytes are at hand when it is written; read as `type`."""

    type: Type

    def write(self, code: EncoderCode, value: str) -> None:
        code.part(value)

    def read(self, code: DecoderCode) -> str:
        return self.type.read(code)


@dataclass(frozen=True, slots=True)
class NullableStruct:
    """A struct or None; a byte before it tells which."""

    of: Struct

    def write(self, code: EncoderCode, value: str) -> None:
        with code.block(f"if {value} is None:"):
            code.part("b'\\0'")
        with code.block("else:"):
            code.part("b'\\1'")
            self.of.write(code, value)

    def read(self, code: DecoderCode) -> str:
        return f"({self.of.read(code)} if r.int8() == 1 else None)"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a schema or struct.

    since, until: the first and the last version that has it.
    default: its value where a version does not have it or a tagged field is missing. A tagged
        field with that value is not written, unless it is `always_written`.
    """

    name: str
    type: Type
    since: int = 0
    until: int = _NEWEST
    tag: int | None = None
    default: Any = None
    always_written: bool = False

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until

    @property
    def is_always_there(self) -> bool:
        return self.since == 0 and self.until == _NEWEST


class Struct:
    """Fields that belong together. Both sides have a struct as a tuple of its fields' values."""

    def __init__(self, *fields: Field) -> None:
        self.fields = fields

    def fixed_forms(self, flexible: bool) -> str | None:
        """The code for `struct` if all its fields have a fixed size; else None."""
        forms = ""
        for each in self.fields:
            if not isinstance(each.type, Fixed) or each.type.packable != "{}":
                return None
            if each.tag is not None or each.since:
                return None
            forms += each.type.form
        return forms + "x" * flexible

    def write(self, code: EncoderCode, value: str) -> None:
        names = [code.new_name() for _ in self.fields]
        code.line(f"{', '.join(names)}, = {value}")
        _write_fields(code, self.fields, names)

    def read(self, code: DecoderCode) -> str:
        return f"{code.function(self.fields)}(r, version)"


def _write_fields(code: EncoderCode, fields: Sequence[Field], values: Sequence[str]) -> None:
    """All fields of a structure, and what ends it."""
    given = [
        (each, value)
        for each, value in zip(fields, values, strict=True)
        if each.is_in(code.version)
    ]
    for each, value in given:
        if each.tag is None:
            each.type.write(code, value)
    if code.flexible:
        _write_tags(code, [(each, value) for each, value in given if each.tag is not None])


def _write_tags(code: EncoderCode, tagged: list[tuple[Field, str]]) -> None:
    if all(each.always_written for each, _ in tagged):
        code.fixed("B", str(len(tagged)))
        for each, value in tagged:
            _write_tag(code, each, value)
        return
    conditions = [f"({value} != {code.constant(each.default)})" for each, value in tagged]
    code.part(f"uvarint({' + '.join(conditions)})")
    for (each, value), condition in zip(tagged, conditions, strict=True):
        with code.block(f"if {condition}:"):
            _write_tag(code, each, value)


def _write_tag(code: EncoderCode, each: Field, value: str) -> None:
    code.fixed("B", str(each.tag))
    if isinstance(each.type, Fixed):
        code.fixed("B", str(struct.calcsize(each.type.form)))
        each.type.write(code, value)
        return
    start = code.new_name()
    code.part("b''")  # the size: known when the field is written
    code.line(f"{start} = len(parts)")
    each.type.write(code, value)
    code.line(f"parts[{start} - 1] = uvarint(sum(map(len, parts[{start}:])))")


def _version(reader: FieldReader, what: str, last_version: int, first_flexible: int) -> int:
    version = reader.int16()
    if not 0 <= version <= last_version:
        raise UnreadableRecord(f"{what} of version {version}")
    reader.flexible = version >= first_flexible
    return version


def _tagged(tags: dict[int, bytes], tag: int, size: int | None, default: Any, read: Any) -> Any:
    """A tagged field's value; one of a fixed size must have that size."""
    data = tags.get(tag)
    if data is None:
        return default
    if size is not None and len(data) != size:
        raise UnreadableRecord(f"a tagged field of {len(data)} bytes instead of {size}")
    reader = FieldReader(data)
    reader.flexible = True
    return read(reader)


def _is_always_fixed(each: Field) -> bool:
    is_number = isinstance(each.type, Fixed) and each.type.packable == "{}"
    return is_number and each.is_always_there and each.tag is None


class DecoderCode:
    """Emits functions that read a structure: each takes the reader and the version."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"tagged": _tagged}
        self._functions = 0

    def function(self, fields: Sequence[Field]) -> str:
        """The name of a function that reads a structure as a tuple."""
        self._functions += 1
        name = f"read{self._functions}"
        body = [f"def {name}(r, version):"]
        plain = [(index, each) for index, each in enumerate(fields) if each.tag is None]
        for is_run, some in groupby(plain, key=lambda item: _is_always_fixed(item[1])):
            run = list(some)
            if is_run and len(run) > 1:
                names = "".join(f"v{index}, " for index, _ in run)
                body.append(f"    {names}= r.unpack({self._form(run)})")
            else:
                body += [f"    v{index} = {self._field(each, index, name)}" for index, each in run]
        tagged = [(index, each) for index, each in enumerate(fields) if each.tag is not None]
        body.append("    tags = r.tagged_fields()")
        body += [f"    v{index} = {self._tagged(each, index, name)}" for index, each in tagged]
        body.append(f"    return ({''.join(f'v{index}, ' for index in range(len(fields)))})")
        self.lines += body
        return name

    def _form(self, run: Sequence[tuple[int, Field]]) -> str:
        name = f"form{len(self.names)}"
        self.names[name] = struct.Struct(">" + "".join(each.type.form for _, each in run))  # type: ignore[attr-defined]
        return name

    def _field(self, each: Field, index: int, function: str) -> str:
        value = each.type.read(self)
        if each.is_always_there:
            return value
        default = self._default(each, index, function)
        return f"{value} if {each.since} <= version <= {each.until} else {default}"

    def _tagged(self, each: Field, index: int, function: str) -> str:
        default = self._default(each, index, function)
        size = struct.calcsize(each.type.form) if isinstance(each.type, Fixed) else None
        read = f"lambda r: {each.type.read(self)}"
        return f"tagged(tags, {each.tag}, {size}, {default}, {read}) if tags else {default}"

    def _default(self, each: Field, index: int, function: str) -> str:
        name = f"{function}_default{index}"
        self.names[name] = each.default
        return name


def _compiled(lines: Sequence[str], names: dict[str, Any], what: str) -> dict[str, Any]:
    exec(compile("\n".join(lines), f"<schema of {what}>", "exec"), names)  # noqa: S102
    return names


def _encoder(
    what: str,
    fields: Sequence[Field],
    start: int,
    written_version: int,
    flexible: bool,
    parts_of: Callable[[Any], tuple[Any, ...]] | None,
) -> Callable[[Any], bytes]:
    code = EncoderCode(written_version, flexible)
    code.lines += ["def encode(value):", "    parts = []", "    add = parts.append"]
    names = [f"f{index}" for index in range(len(fields))]
    if parts_of is None:
        for name, each in zip(names, fields, strict=True):
            code.line(f"{name} = value.{each.name}")
    else:
        code.names["parts_of"] = parts_of
        code.line(f"{', '.join(names)}, = parts_of(value)")
    code.fixed("h", str(start))
    _write_fields(code, fields, names)
    code.line("return b''.join(parts)")
    encode: Callable[[Any], bytes] = _compiled(code.lines, code.names, what)["encode"]
    return encode


def _decoder(what: str, fields: Sequence[Field]) -> Callable[[FieldReader, int], tuple[Any, ...]]:
    code = DecoderCode()
    name = code.function(fields)
    read: Callable[[FieldReader, int], tuple[Any, ...]]
    read = _compiled(code.lines, code.names, what)[name]
    return read


class KeySchema(Generic[T]):
    """The keys of one type of record.

    make: what a key is read as, from its fields' values.
    parts_of: those values, in the fields' order; by default attributes with the fields' names.
    """

    def __init__(
        self,
        key_type: int,
        make: Callable[..., T],
        *fields: Field,
        parts_of: Callable[[T], tuple[Any, ...]] | None = None,
    ) -> None:
        self.key_type = key_type
        self._make = make
        what = f"key {key_type}"
        self.encode: Callable[[T], bytes] = _encoder(
            what, fields, key_type, key_type, False, parts_of
        )
        self._read = _decoder(what, fields)

    def read(self, reader: FieldReader) -> T:
        """All of the key after its type.

        Raises:
            UnreadableRecord: the bytes are no such key.
        """
        return self._make(*self._read(reader, self.key_type))


class ValueSchema(Generic[T]):
    """The values of one type of record.

    what: named in errors.
    make, parts_of: as those of a key.
    written_version: the version that is written; the last one that is read if not given.
    first_flexible_version: the first version with compact lengths and tagged fields.
    """

    def __init__(
        self,
        what: str,
        make: Callable[..., T],
        *fields: Field,
        parts_of: Callable[[T], tuple[Any, ...]] | None = None,
        last_version: int = 0,
        written_version: int | None = None,
        first_flexible_version: int = 0,
    ) -> None:
        written = last_version if written_version is None else written_version
        is_flexible = written >= first_flexible_version
        self._what, self._make = what, make
        self._last_version, self._first_flexible = last_version, first_flexible_version
        self.encode: Callable[[T], bytes] = _encoder(
            what, fields, written, written, is_flexible, parts_of
        )
        self._read = _decoder(what, fields)

    def decode(self, data: bytes) -> T:
        """A whole value.

        Raises:
            UnreadableRecord: a version or bytes that are not known here.
        """
        reader = FieldReader(data)
        version = _version(reader, self._what, self._last_version, self._first_flexible)
        return self._make(*self._read(reader, version))


@dataclass(frozen=True, slots=True)
class ByHand:
    """Values that have functions of their own, for speed or because nothing in them is read."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
