"""Decoders, compiled from declared classes: one Python function for each class and version.

A run of fields of fixed size is one `struct.unpack_from`.

Counts and lengths are checked against the rest of the frame before any memory is allocated. So a
message costs memory in proportion to the bytes that arrived, whatever it announces. An element may
still take two bytes on the wire and a hundred in memory, and it takes time: `admit` limits the
number of elements in all arrays of a message together. Violations of the protocol are refused with
the name of the field: null where the field is not nullable, strings above 32,767 bytes. Tagged
fields that the class does not have are skipped (KIP-482).
"""

from __future__ import annotations

import functools
import math
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.schema.declaration import Field, fields_of, is_message
from drumlin.wire.schema.source import Source
from drumlin.wire.schema.types import STRING_BYTES_MAX, Array, Fixed, Sized, Struct, Type
from drumlin.wire.uvarint import read_uvarint

#: Frame, start position -> value, end position. It raises the exceptions in `UNREADABLE`.
Decode = Callable[[Any, int], tuple[Any, int]]
T = TypeVar("T")

#: A decoder's exceptions; `struct.error` and `IndexError` mean a read past the end of the frame.
UNREADABLE: Final = (
    *(MalformedMessage, struct.error, IndexError, UnicodeDecodeError, OverflowError),
)
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
#: The maximum number of tagged fields in a structure. Kafka's structures have at most four, but a
#: peer could send very many, as a field takes only two bytes.
TAGGED_FIELDS_MAX: Final = 32


class _Elements(threading.local):
    """The number of elements left for the message that this thread is reading."""

    left: float = math.inf


_elements: Final = _Elements()
_compiled: dict[tuple[type[Any], int, bool], Decode] = {}


def decoder(cls: Any, version: int, *, flexible: bool) -> Decode:
    """The function that reads an instance of the class out of a frame."""
    key = cls, version, flexible
    decode = _compiled.get(key)
    if decode is None:
        decode = _compiled[key] = _Compiler(cls, version, flexible).compile()
    return decode


def admit(elements_max: float) -> None:
    """Limit the elements, in all arrays together, that this thread reads until the next call.

    A thread starts without a limit (`math.inf`), which the caller must restore afterwards.
    """
    _elements.left = elements_max


def decode(cls: type[T], version: int, data: bytes, position: int = 0, *, flexible: bool) -> T:
    """The value that begins at `position`; bytes after it are ignored.

    Raises:
        MalformedMessage: the bytes are not such a value.
    """
    try:
        value: T = decoder(cls, version, flexible=flexible)(data, position)[0]
    except (struct.error, IndexError) as error:
        raise MalformedMessage(f"{cls.__name__} ends early, after {len(data)} bytes") from error
    except (UnicodeDecodeError, OverflowError) as error:
        raise MalformedMessage(f"{cls.__name__}: {error}") from error
    return value


@functools.cache
def smallest_size(cls: Any, version: int, flexible: bool) -> int:
    """The minimum size of an instance of a class in bytes."""
    fields = [each for each in fields_of(cls, version) if each.is_there and each.tag is None]
    sizes = (
        1 if _has_presence_byte(each) else _smallest(each.type, version, flexible)
        for each in fields
    )
    return sum(sizes) + (1 if flexible else 0)


def _has_presence_byte(field: Field) -> bool:
    return field.is_nullable and isinstance(field.type, Struct)


def _smallest(type_: Type, version: int, flexible: bool) -> int:
    match type_:
        case Fixed():
            return type_.size
        case Struct():
            return smallest_size(type_.of, version, flexible)
        case Sized("string"):
            return 1 if flexible else _INT16.size
        case _:
            return 1 if flexible else _INT32.size


class _Compiler:
    """Writes the source of one class's decoder.

    In the source `f` is the frame, `p` the position of the next field, `o` the message.
    """

    def __init__(self, cls: Any, version: int, flexible: bool) -> None:
        self._cls, self._version, self._flexible = cls, version, flexible
        self._is_filled = is_message(cls)
        self._source = Source()
        self._run: list[tuple[str, Fixed]] = []  # target, type

    def compile(self) -> Decode:
        source = self._source
        fields = fields_of(self._cls, self._version)
        if self._is_filled:
            new = functools.partial(object.__new__, self._cls)
            source.line(f"o = {source.name('new', new)}()")
        for field in fields:
            if not field.is_there or (field.tag is not None and not self._flexible):
                source.line(f"{self._target(field)} = {source.name('default', field.default)}")
            elif field.tag is None:
                self._field(field, self._target(field))
        self._end_run()
        if self._flexible:
            self._tagged([each for each in fields if each.is_there and each.tag is not None])
        self._make(fields)
        function: Decode = source.function("decode(f, p)", f"decoder of {self._cls.__name__}")
        return function

    def _target(self, field: Field) -> str:
        return f"o.{field.name}" if self._is_filled else f"v_{field.name}"

    def _make(self, fields: tuple[Field, ...]) -> None:
        source = self._source
        if self._is_filled:
            source.line("return o, p")
            return
        values = "".join(f"{self._target(each)}, " for each in fields)
        if issubclass(self._cls, tuple):
            making = source.name("make", functools.partial(tuple.__new__, self._cls))
            source.line(f"return {making}(({values})), p")
        else:
            source.line(f"return {source.name('make', self._cls)}({values}), p")

    # -- fields ------------------------------------------------------------------------

    def _field(self, field: Field, target: str) -> None:
        if isinstance(field.type, Fixed):
            self._run.append((target, field.type))
            return
        self._end_run()
        self._value(field.type, field.name, target, is_nullable=field.is_nullable)

    def _end_run(self) -> None:
        """Read the gathered fields of fixed size, all at once."""
        if not self._run:
            return
        layout = struct.Struct(">" + "".join(type_.code for _, type_ in self._run))
        unpack = self._source.name("unpack", layout.unpack_from)
        self._source.line(f"{', '.join(target for target, _ in self._run)}, = {unpack}(f, p)")
        for target, type_ in self._run:
            if type_.from_packed is not None:
                making = self._source.name("value", type_.from_packed)
                self._source.line(f"{target} = {making}({target})")
        self._source.line(f"p += {layout.size}")
        self._run.clear()

    def _value(self, type_: Type, name: str, target: str, *, is_nullable: bool) -> None:
        source = self._source
        match type_:
            case Struct() if is_nullable:
                # KIP-893: a negative byte stands for null, any other precedes the struct.
                source.line("p += 1")
                with source.block("if f[p - 1] > 127:"):
                    source.line(f"{target} = None")
                with source.block("else:"):
                    source.line(f"{target}, p = {self._reading(type_)}(f, p)")
            case Array():
                self._array(type_, name, target, is_nullable=is_nullable)
            case _:
                source.line(f"{target}, p = {self._reading(type_)}(f, p)")
                if isinstance(type_, Sized) and not is_nullable:
                    source.line(f"if {target} is None: {self._refusal(name)}")

    def _array(self, type_: Array, name: str, target: str, *, is_nullable: bool) -> None:
        source, of = self._source, type_.of
        size = _smallest(of, self._version, self._flexible)
        assert size > 0, "nothing would limit their number"
        count = source.name("count", _compact_count if self._flexible else _legacy_count)
        source.line(f"n, p = {count}(f, p, {size}, {name!r})")
        with source.block("if n is None:"):
            source.line(f"{target} = None" if is_nullable else self._refusal(name))
        with source.block("else:"):
            if isinstance(of, Fixed):
                items = functools.partial(_fixed_items, of.code, of.from_packed)
                source.line(f"{target}, p = {source.name('items', items)}(f, p, n)")
                return
            source.line("items = []")
            with source.block("for _ in range(n):"):
                source.line(f"item, p = {self._reading(of)}(f, p)")
                source.line("items.append(item)")
            if isinstance(of, Sized):
                source.line(f"if None in items: {self._refusal(name)}")
            source.line(f"{target} = tuple(items)")

    def _reading(self, type_: Type) -> str:
        """The name of the function that reads a value of a type that is not an array."""
        match type_:
            case Struct():
                return self._source.name(
                    "read", decoder(type_.of, self._version, flexible=self._flexible)
                )
            case Sized("string"):
                strings = _read_compact_string if self._flexible else _read_legacy_string
                return self._source.name("string", strings)
            case _:
                raws = _read_compact_bytes if self._flexible else _read_legacy_bytes
                return self._source.name("bytes", raws)

    def _refusal(self, name: str) -> str:
        return f"{self._source.name('null', _refuse_null)}({name!r})"

    def _tagged(self, tagged: list[Field]) -> None:
        source = self._source
        for field in tagged:
            source.line(f"{self._target(field)} = {source.name('default', field.default)}")
        if not tagged:
            skipping = source.name("tags", skip_tags)
            source.line(f"p = {skipping}(f, p) if f[p] else p + 1")
            return
        known = {field.tag or 0: (field.name, self._tag_decoder(field)) for field in tagged}
        with source.block("if f[p]:"):
            reading, tags = source.name("tags", read_tags), source.name("known", known)
            source.line(f"found, p = {reading}(f, p, {tags})")
            for field in tagged:
                target = self._target(field)
                source.line(f"{target} = found.get({field.name!r}, {target})")
        source.line("else: p += 1")

    def _tag_decoder(self, field: Field) -> Decode:
        """Reads the value of one tagged field; called only when the field is present."""
        part = _Compiler(self._cls, self._version, self._flexible)
        if field.is_nullable_struct:
            # KIP-893: in a tagged field, an unsigned varint says whether the struct is there.
            part._source.line("p += 1")
            part._source.line("if not f[p - 1]: return None, p")
            field = field._replace(is_nullable=False)
        part._field(field, "value")
        part._end_run()
        part._source.line("return value, p")
        function: Decode = part._source.function("decode(f, p)", f"decoder of tag {field.name}")
        return function


# -- values --------------------------------------------------------------------------------


def _refuse_null(name: str) -> None:
    raise MalformedMessage(f"{name} is null, which the protocol does not allow")


def _compact_count(frame: Any, position: int, size: int, name: str) -> tuple[int | None, int]:
    count = frame[position] - 1
    position += 1
    if count > 126:
        count, position = read_uvarint(frame, position - 1)
        count -= 1
    return _checked_count(frame, position, count, size, name)


def _legacy_count(frame: Any, position: int, size: int, name: str) -> tuple[int | None, int]:
    count: int = _INT32.unpack_from(frame, position)[0]
    return _checked_count(frame, position + 4, count, size, name)


def _checked_count(
    frame: Any, position: int, count: int, size: int, name: str
) -> tuple[int | None, int]:
    if count < 0:
        return None, position
    if count * size > len(frame) - position:
        left = len(frame) - position
        raise MalformedMessage(f"{name} announces {count} elements, and {left} bytes are left")
    _elements.left -= count
    if _elements.left < 0:
        raise MalformedMessage(f"{name} has {count} elements: too many, with those before it")
    return count, position


def _fixed_items(
    code: str, making: Callable[[Any], Any] | None, frame: Any, position: int, count: int
) -> tuple[Any, int]:
    end = position + count * struct.calcsize(">" + code)
    if code.endswith("s"):
        values = tuple(value for (value,) in struct.iter_unpack(code, frame[position:end]))
    else:
        values = struct.unpack_from(f">{count}{code}", frame, position)
    return values if making is None else tuple(map(making, values)), end


def read_tags(
    frame: Any, position: int, known: Mapping[int, tuple[str, Decode]]
) -> tuple[dict[str, Any], int]:
    """The tagged fields that are `known`, by name, and the position after the last one.

    Raises:
        MalformedMessage: the fields exceed the frame, or there are more than `TAGGED_FIELDS_MAX`.
    """
    found: dict[str, Any] = {}
    count, position = read_uvarint(frame, position)
    if count > TAGGED_FIELDS_MAX:
        raise MalformedMessage(f"{count} tagged fields; {TAGGED_FIELDS_MAX} are allowed")
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        end = position + size
        if end > len(frame):
            raise MalformedMessage(f"tagged field {tag} of {size} bytes ends after the frame")
        if tag in known:
            name, decode_value = known[tag]
            found[name], position = decode_value(frame, position)
            if position != end:
                raise MalformedMessage(f"{name} (tagged field {tag}) does not fill {size} bytes")
        position = end
    return found, position


def skip_tags(frame: Any, position: int) -> int:
    """The end of the tagged fields that begin at `position`.

    Raises:
        MalformedMessage: see `read_tags`.
    """
    if position < len(frame) and frame[position] == 0:
        return position + 1
    return read_tags(frame, position, {})[1]


def _read_compact_string(frame: Any, position: int) -> tuple[str | None, int]:
    size = frame[position] - 1
    position += 1
    if size > 126:
        size, position = read_uvarint(frame, position - 1)
        size -= 1
    if size < 0:
        return None, position
    return _text(frame, position, size)


def _read_legacy_string(frame: Any, position: int) -> tuple[str | None, int]:
    size: int = _INT16.unpack_from(frame, position)[0]
    if size < 0:
        return None, position + 2
    return _text(frame, position + 2, size)


def _text(frame: Any, position: int, size: int) -> tuple[str, int]:
    end = position + size
    if size > STRING_BYTES_MAX or end > len(frame):
        _refuse_size("string", size, len(frame) - position)
    return str(frame[position:end], "utf-8"), end


def _read_compact_bytes(frame: Any, position: int) -> tuple[bytes | None, int]:
    size, position = read_uvarint(frame, position)
    if size == 0:
        return None, position
    return _raw(frame, position, size - 1)


def _read_legacy_bytes(frame: Any, position: int) -> tuple[bytes | None, int]:
    size: int = _INT32.unpack_from(frame, position)[0]
    if size < 0:
        return None, position + 4
    return _raw(frame, position + 4, size)


def _raw(frame: Any, position: int, size: int) -> tuple[bytes, int]:
    end = position + size
    if end > len(frame):
        _refuse_size("byte field", size, len(frame) - position)
    return bytes(frame[position:end]), end


def _refuse_size(what: str, size: int, left: int) -> None:
    if size > left:
        raise MalformedMessage(f"a {what} of {size} bytes, and {left} bytes are left")
    raise MalformedMessage(f"a {what} of {size} bytes; {STRING_BYTES_MAX} are allowed")
