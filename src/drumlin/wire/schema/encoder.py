"""Encoders, compiled from declared classes: one Python function for each class and version.

A run of fields of fixed size is one `struct.pack`, so that a message is written with few calls.

A `records` field may hold any object with a length, which becomes a part unchanged. An array of
structs may be `EncodedItems`, which were encoded before. Fields that a version does not have are
left out.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

from drumlin.wire.schema.declaration import Field, fields_of
from drumlin.wire.schema.parts import EncodedItems, Parts
from drumlin.wire.schema.source import Source
from drumlin.wire.schema.types import STRING_BYTES_MAX, Array, Fixed, Sized, Struct, Type, beginning
from drumlin.wire.uvarint import put_uvarint

#: Appends a value to some parts.
Encode = Callable[[Any, Parts], None]

#: The number of structs that are packed together. `struct` caches a format for each number.
_STRUCTS_AT_ONCE: Final = 64
#: Arrays of fewer numbers have a format of their own, which includes the length.
_FEW: Final = 16
#: Any string of at most this many characters fits into the maximum of bytes.
_SURELY_FITS: Final = STRING_BYTES_MAX // 4
_compiled: dict[tuple[type[Any], int, bool, bool], Encode] = {}


class StringTooLong(ValueError):
    """A string of more bytes than the protocol allows."""


def encoder(cls: Any, version: int, *, flexible: bool, cuts: bool = False) -> Encode:
    """The function that appends an instance of the class to some parts.

    `cuts`: whether a string of too many bytes is cut, as in responses: an operator's configuration
    may have any size. Else it raises `StringTooLong`.
    """
    key = cls, version, flexible, cuts
    encode = _compiled.get(key)
    if encode is None:
        encode = _compiled[key] = _Compiler(*key).compile()
    return encode


def encode(value: Any, version: int, *, flexible: bool, cuts: bool = False) -> bytes:
    """The bytes of a value without records."""
    parts = Parts()
    encoder(type(value), version, flexible=flexible, cuts=cuts)(value, parts)
    return parts.joined()


class _Compiler:
    """Writes the source of one class's encoder.

    In the source `o` is the message, `out` the parts and `b` their buffer.
    """

    def __init__(self, cls: Any, version: int, flexible: bool, cuts: bool) -> None:
        self._cls, self._version, self._flexible, self._cuts = cls, version, flexible, cuts
        self._source = Source()
        self._run: list[tuple[str, str]] = []  # code, expression of fields not yet written

    def compile(self) -> Encode:
        source = self._source
        fields = fields_of(self._cls, self._version)
        source.line("b = out.buffer")
        values = [f"o.{each.name}" for each in fields]
        if issubclass(self._cls, tuple) and fields:
            values = [f"v_{each.name}" for each in fields]
            source.line(f"{', '.join(values)}, = o")
        there = [pair for pair in zip(fields, values, strict=True) if pair[0].is_there]
        for field, value in there:
            if field.tag is None:
                self._value(field.type, value, is_nullable=field.is_nullable)
        if self._flexible:
            self._tagged([pair for pair in there if pair[0].tag is not None])
        self._end_run()
        encode: Encode = source.function("encode(o, out)", f"encoder of {self._cls.__name__}")
        return encode

    # -- fields ------------------------------------------------------------------------

    def _value(self, type_: Type, value: str, *, is_nullable: bool = False) -> None:
        match type_:
            case Fixed():
                self._fixed(type_, value)
            case Sized():
                self._line(self._sized(type_, value))
            case Array():
                self._array(type_, value, is_nullable=is_nullable)
            case Struct() if is_nullable:
                # KIP-893: a byte says whether a nullable struct is there.
                self._end_run()
                with self._source.block(f"if {value} is None:"):
                    self._source.line("b += b'\\xff'")
                with self._source.block("else:"):
                    self._source.line("b += b'\\x01'")
                    self._source.line(self._struct(type_, value))
            case Struct():
                self._line(self._struct(type_, value))

    def _line(self, text: str) -> None:
        self._end_run()
        self._source.line(text)

    def _fixed(self, type_: Fixed, value: str) -> None:
        if type_.to_packed is not None:
            value = f"{self._source.name('packed', type_.to_packed)}({value})"
        self._run.append((type_.code, value))

    def _end_run(self) -> None:
        if not self._run:
            return
        packer = struct.Struct(">" + "".join(code for code, _ in self._run)).pack
        values = [value for _, value in self._run]
        self._run.clear()
        if all(value.isdigit() for value in values):
            self._source.line(f"b += {packer(*map(int, values))!r}")
        else:
            self._source.line(f"b += {self._source.name('pack', packer)}({', '.join(values)})")

    def _sized(self, type_: Sized, value: str) -> str:
        if type_.name == "string":
            put = _PUT_STRING[self._flexible, self._cuts]
            return f"{self._source.name('string', put)}(b, {value})"
        put_bytes = _put_compact_bytes if self._flexible else _put_bytes
        return f"{self._source.name('bytes', put_bytes)}(out, {value})"

    def _struct(self, type_: Struct, value: str) -> str:
        encode = encoder(type_.of, self._version, flexible=self._flexible, cuts=self._cuts)
        return f"{self._source.name('encode', encode)}({value}, out)"

    def _array(self, type_: Array, value: str, *, is_nullable: bool) -> None:
        source, of = self._source, type_.of
        if isinstance(of, Fixed) and of.is_plain:
            numbers = source.name("numbers", _numbers_writer(of.code, self._flexible))
            self._line(f"{numbers}(b, {value})")
            return
        length = source.name("length", _put_compact_length if self._flexible else _put_length)
        self._line(f"{length}(b, {value})")
        items = f"{value} or ()" if is_nullable else value
        match of:
            case Struct():
                with source.block(f"if type({value}) is {source.name('items', EncodedItems)}:"):
                    source.line(f"{value}.put(out)")
                with source.block("else:"):
                    self._structs(of, items)
            case _:
                with source.block(f"for e in {items}:"):
                    self._value(of, "e")
                    self._end_run()

    def _structs(self, of: Struct, items: str) -> None:
        source = self._source
        codes = self._codes(of.of)
        if codes is not None:
            packing = source.name("structs", _pack_structs)
            source.line(f"b += {packing}({codes!r}, {items})")
            return
        with source.block(f"for e in {items}:"):
            source.line(self._struct(of, "e"))

    def _codes(self, cls: Any) -> str | None:
        """The format of a named tuple whose fields all have a fixed size, or None."""
        fields = fields_of(cls, self._version)
        if not issubclass(cls, tuple):
            return None
        codes = ""
        for each in fields:
            if not isinstance(each.type, Fixed) or not each.type.is_plain:
                return None
            if each.tag is not None or not each.is_there:
                return None
            codes += each.type.code
        return codes + "x" * self._flexible

    def _tagged(self, tagged: list[tuple[Field, str]]) -> None:
        """Write the number of fields whose value is not the default, and these fields."""
        tagged = sorted(tagged, key=lambda pair: pair[0].tag or 0)
        source = self._source
        conditions = [
            "True"
            if field.is_always_written
            else f"({value} != {source.name('default', field.default)})"
            for field, value in tagged
        ]
        self._run.append(("B", " + ".join(conditions) or "0"))
        for (field, value), condition in zip(tagged, conditions, strict=True):
            self._end_run()
            with source.block(f"if {condition}:"):
                self._tag(field, value)
                self._end_run()

    def _tag(self, field: Field, value: str) -> None:
        assert field.tag is not None
        assert field.tag < 0x80, "tags of one byte"
        self._run.append(("B", str(field.tag)))
        if isinstance(field.type, Fixed):
            self._run.append(("B", str(field.type.size)))
            self._fixed(field.type, value)
            return
        self._end_run()
        sized = self._source.name("sized", self._tag_encoder(field))
        self._source.line(f"{sized}({value}, b)")

    def _tag_encoder(self, field: Field) -> Callable[[Any, bytearray], None]:
        """A function that appends a value, preceded by its size."""
        part = _Compiler(self._cls, self._version, self._flexible, self._cuts)
        part._source.line("b = out.buffer")
        if field.is_nullable_struct:
            # KIP-893: in a tagged field, an unsigned varint says whether the struct is there.
            part._source.line("b.append(o is not None)")
            with part._source.block("if o is not None:"):
                part._value(field.type, "o")
        else:
            part._value(field.type, "o", is_nullable=field.is_nullable)
            part._end_run()
        encode = part._source.function("encode(o, out)", f"encoder of tag {field.name}")

        def encode_sized(value: Any, buffer: bytearray) -> None:
            parts = Parts()
            encode(value, parts)
            data = parts.joined()
            put_uvarint(buffer, len(data))
            buffer += data

        return encode_sized


# -- values --------------------------------------------------------------------------------


def _pack_structs(codes: str, items: Sequence[tuple[Any, ...]]) -> bytes:
    """The bytes of all structs. Packing them one by one, by field, would take ten times as long."""
    return b"".join(
        struct.pack(">" + codes * len(some), *chain.from_iterable(some))
        for first in range(0, len(items), _STRUCTS_AT_ONCE)
        if (some := items[first : first + _STRUCTS_AT_ONCE])
    )


@functools.cache
def _numbers_writer(code: str, flexible: bool) -> Callable[[bytearray, Any], None]:
    """A function that appends an array of numbers: a short array with a single `struct.pack`."""
    length, added = ("B", 1) if flexible else ("i", 0)
    packs = [struct.Struct(f">{length}{count}{code}").pack for count in range(_FEW)]
    put_length = _put_compact_length if flexible else _put_length

    def put(buffer: bytearray, items: Any) -> None:
        count = -1 if items is None else len(items)
        if 0 <= count < _FEW:
            buffer += packs[count](count + added, *items)
            return
        put_length(buffer, items)
        buffer += struct.pack(f">{count}{code}", *items) if items else b""

    return put


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
        raise StringTooLong(f"a string of {len(encoded)} bytes; {STRING_BYTES_MAX} fit")
    buffer += len(encoded).to_bytes(2, "big")
    buffer += encoded


def put_compact_string(buffer: bytearray, value: str | None) -> None:
    if value is None:
        buffer.append(0)
        return
    encoded = value.encode()
    if len(encoded) < 0x7F:  # nearly all strings are this short
        buffer.append(len(encoded) + 1)
        buffer += encoded
    else:
        put_compact_string_bytes(buffer, encoded)


def put_compact_string_bytes(buffer: bytearray, encoded: bytes) -> None:
    if len(encoded) > STRING_BYTES_MAX:
        raise StringTooLong(f"a string of {len(encoded)} bytes; {STRING_BYTES_MAX} fit")
    put_uvarint(buffer, len(encoded) + 1)
    buffer += encoded


def put_cut_string(buffer: bytearray, value: str | None) -> None:
    """Like `put_string`, but puts only the beginning of a value that is too long."""
    if value is not None and len(value) > _SURELY_FITS:
        value = beginning(value, STRING_BYTES_MAX)
    put_string(buffer, value)


def put_cut_compact_string(buffer: bytearray, value: str | None) -> None:
    """Like `put_compact_string`, but puts only the beginning of a value that is too long."""
    if value is not None and len(value) > _SURELY_FITS:
        value = beginning(value, STRING_BYTES_MAX)
    put_compact_string(buffer, value)


#: Keys: whether the message is flexible, and whether its strings are cut.
_PUT_STRING: Final = {
    (False, False): put_string,
    (True, False): put_compact_string,
    (False, True): put_cut_string,
    (True, True): put_cut_compact_string,
}


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
