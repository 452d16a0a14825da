"""Decoders for kio's message classes, compiled from the classes themselves.

The counterpart of `encoder.py`: every class becomes one Python function, in which a run of
fixed-size fields is one `struct.unpack_from`. The classes stay the only description of the
messages: nothing here knows any API.

Counts and lengths are checked against what is left of the frame before any memory is allocated.
So a message costs memory in proportion to the bytes that arrived, whatever it announces. An
element may still take two bytes on the wire and a hundred in memory, and its time besides:
`admit` limits the number of elements in all arrays of a message together. What the protocol
forbids is refused with the name of the field: null where the field is not nullable, strings above
32,767 bytes. Tagged fields that the class does not know are skipped (KIP-482).
"""

from __future__ import annotations

import dataclasses
import functools
import math
import struct
import threading
import typing
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from kio.serial._implicit_defaults import get_tagged_field_default

from drumlin.wire.compiled.field_types import FIXED_CODES, STRING_BYTES_MAX, unwrap
from drumlin.wire.error_codes import MalformedMessage, error_of
from drumlin.wire.uvarint import read_uvarint

#: Frame, start position -> message, end position. Running off the frame raises MalformedMessage,
#: `struct.error` or `IndexError`; text that is not UTF-8 raises UnicodeDecodeError.
Decode = Callable[[Any, int], tuple[Any, int]]

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NULL_UUID: Final = bytes(16)
_UUIDS_KEPT: Final = 4096
#: Per structure; Kafka's have four at most. Two bytes make one, so their number is limited.
TAGGED_FIELDS_MAX: Final = 32


class _Elements(threading.local):
    """How many more elements the message that this thread is reading may have."""

    left: float = math.inf


_elements: Final = _Elements()
_compiled: dict[Any, Decode] = {}


def decoder(entity: Any) -> Decode:
    """The function that reads an instance of the class `entity` out of a frame."""
    decode = _compiled.get(entity)
    if decode is None:
        decode = _compiled[entity] = _Compiler(entity).compile()
    return decode


def admit(elements_max: float) -> None:
    """How many elements the next message that this thread reads may have, in all of its arrays."""
    _elements.left = elements_max


@functools.cache
def smallest_size(entity: Any) -> int:
    """The fewest bytes that an instance of `entity` can take."""
    fields = [field for field in dataclasses.fields(entity) if "tag" not in field.metadata]
    sizes = (_smallest_field(field, entity.__flexible__) for field in fields)
    return sum(sizes) + (1 if entity.__flexible__ else 0)


def _smallest_field(field: dataclasses.Field[Any], flexible: bool) -> int:
    kafka_type = field.metadata.get("kafka_type", "")
    inner, nullable, is_array = unwrap(field.type)
    if is_array:
        return 1 if flexible else _INT32.size
    if dataclasses.is_dataclass(inner):
        return 1 if nullable else int(smallest_size(typing.cast(Any, inner)))
    return _smallest_value(kafka_type, flexible)


def _smallest_value(kafka_type: str, flexible: bool) -> int:
    if kafka_type in FIXED_CODES:
        return struct.calcsize(">" + FIXED_CODES[kafka_type])
    if flexible:
        return 1
    return _INT16.size if kafka_type == "string" else _INT32.size


class _Compiler:
    """Writes the source of one class's decoder.

    In the source `f` is the frame, `p` where the next field begins, `o` the message.
    """

    def __init__(self, entity: Any) -> None:
        self._entity = entity
        self._flexible: bool = entity.__flexible__
        self._lines: list[str] = []
        self._run: list[tuple[str, str, Any]] = []  # target, struct code, what makes the value
        self._names: dict[str, Any] = {}

    def compile(self) -> Decode:
        tagged = []
        for field in dataclasses.fields(self._entity):
            tag = field.metadata.get("tag")
            if tag is None:
                self._field(field)
            else:
                tagged.append((tag, field))
        self._end_run()
        if self._flexible:
            self._tagged(tagged)
        making = self._name("new", functools.partial(object.__new__, open_twin(self._entity)))
        closing = self._name("entity", self._entity)
        # In the end the real class, which makes it frozen; see open_twin.
        lines = [f"o = {making}()", *self._lines, f"o.__class__ = {closing}", "return o, p"]
        return self._function(lines, self._entity.__name__)

    def _function(self, lines: list[str], what: str) -> Decode:
        body = "\n".join(f"    {line}" for line in lines)
        source = f"def decode(f, p):\n{body}\n"
        exec(compile(source, f"<decoder of {what}>", "exec"), self._names)  # noqa: S102
        return typing.cast(Decode, self._names["decode"])

    # -- fields ------------------------------------------------------------------------

    def _field(self, field: dataclasses.Field[Any]) -> None:
        kafka_type = field.metadata.get("kafka_type", "")
        inner, nullable, is_array = unwrap(field.type)
        target = f"o.{field.name}"
        if not is_array and kafka_type in FIXED_CODES:
            making = _maker(kafka_type, nullable)
            self._run.append((target, FIXED_CODES[kafka_type], making))
            return
        self._end_run()
        if is_array:
            self._array(field.name, kafka_type, inner, nullable)
        elif dataclasses.is_dataclass(inner):
            decode = self._name("decode", decoder(inner))
            if nullable:
                # KIP-893: a negative byte stands for null, any other precedes the struct.
                self._lines += ["p += 1", "if f[p - 1] > 127:", f"    {target} = None", "else:"]
                self._lines.append(f"    {target}, p = {decode}(f, p)")
            else:
                self._lines.append(f"{target}, p = {decode}(f, p)")
        else:
            reading = self._name("read", _reader_of(kafka_type, self._flexible))
            self._lines.append(f"{target}, p = {reading}(f, p)")
            self._refuse_null(field.name, target, nullable)

    def _end_run(self) -> None:
        """Read the fixed-size fields that were gathered, in one go."""
        if not self._run:
            return
        layout = struct.Struct(">" + "".join(code for _, code, _ in self._run))
        unpack = self._name("unpack", layout.unpack_from)
        self._lines.append(f"{', '.join(target for target, _, _ in self._run)}, = {unpack}(f, p)")
        for target, _, making in self._run:
            if making is not None:
                self._lines.append(f"{target} = {self._name('value', making)}({target})")
        self._lines.append(f"p += {layout.size}")
        self._run.clear()

    def _array(self, name: str, kafka_type: str, inner: Any, nullable: bool) -> None:
        is_struct = dataclasses.is_dataclass(inner)
        size = smallest_size(inner) if is_struct else _smallest_value(kafka_type, self._flexible)
        assert size > 0, "nothing would limit their number"
        counting = self._name("count", _compact_count if self._flexible else _legacy_count)
        target = f"o.{name}"
        self._lines += [f"n, p = {counting}(f, p, {size}, {name!r})", "if n is None:"]
        if nullable:
            self._lines.append(f"    {target} = None")
        else:
            self._lines.append(f"    {self._name('null', _refuse_null)}({name!r})")
        if not is_struct and kafka_type in FIXED_CODES:
            code, making = FIXED_CODES[kafka_type], _maker(kafka_type, False)
            items = self._name("items", functools.partial(_fixed_items, code, making))
            self._lines += ["else:", f"    {target}, p = {items}(f, p, n)"]
            return
        reading = decoder(inner) if is_struct else _reader_of(kafka_type, self._flexible)
        self._lines += [
            "else:",
            "    items = []",
            "    for _ in range(n):",
            f"        item, p = {self._name('read', reading)}(f, p)",
            "        items.append(item)",
        ]
        if not is_struct:
            self._lines.append(
                f"    if None in items: {self._name('null', _refuse_null)}({name!r})"
            )
        self._lines.append(f"    {target} = tuple(items)")

    def _refuse_null(self, name: str, target: str, nullable: bool) -> None:
        if not nullable:
            refusing = self._name("null", _refuse_null)
            self._lines.append(f"if {target} is None: {refusing}({name!r})")

    def _tagged(self, tagged: list[tuple[int, dataclasses.Field[Any]]]) -> None:
        for _, field in tagged:
            default = self._name("default", get_tagged_field_default(field))
            self._lines.append(f"o.{field.name} = {default}")
        known = {tag: (field.name, self._tag_decoder(field)) for tag, field in tagged}
        reading, tags = self._name("tags", read_tags), self._name("known", known)
        self._lines += ["if f[p]:", f"    p = {reading}(f, p, {tags}, o)", "else:", "    p += 1"]

    def _tag_decoder(self, field: dataclasses.Field[Any]) -> Decode:
        """Reads the value of one tagged field; called only when the field is present."""
        part = _Compiler(self._entity)
        part._field(field)
        part._end_run()
        holder = part._name("holder", _Holder)
        lines = [f"o = {holder}()", *part._lines, f"return o.{field.name}, p"]
        return part._function(lines, f"tag {field.name}")

    def _name(self, prefix: str, value: Any) -> str:
        name = f"_{prefix}{len(self._names)}"
        self._names[name] = value
        return name


class _Holder:
    """Takes the value of a tagged field while it is read."""


def open_twin(entity: Any) -> Any:
    """A class laid out as `entity` whose instances can be filled by plain assignment.

    The generated classes are frozen, and setting their fields one by one through `object` would
    cost more than reading them. An instance begins as the twin's, and becomes the real thing when
    it is complete.
    """
    return type(
        entity.__name__,
        (entity,),
        {
            "__slots__": (),
            "__setattr__": object.__setattr__,
            "__delattr__": object.__delattr__,  # both, or setting stays as slow as it was
        },
    )


# -- values ------------------------------------------------------------------------------


def _refuse_null(name: str) -> None:
    raise MalformedMessage(f"{name} is null, which the protocol does not allow")


def _compact_count(frame: Any, position: int, size: int, name: str) -> tuple[int | None, int]:
    count = frame[position] - 1
    position += 1
    if count > 126:
        count, position = read_uvarint(frame, position - 1)
        count -= 1
    return _admitted(frame, position, count, size, name)


def _legacy_count(frame: Any, position: int, size: int, name: str) -> tuple[int | None, int]:
    count: int = _INT32.unpack_from(frame, position)[0]
    return _admitted(frame, position + 4, count, size, name)


def _admitted(
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
    frame: Any, position: int, known: Mapping[int, tuple[str, Decode]], message: Any
) -> int:
    """Set the tagged fields of `message` that are `known`, by tag; returns where the last one ends.

    Raises:
        MalformedMessage: they do not fit, or there are more of them than any structure has.
    """
    count, position = read_uvarint(frame, position)
    if not count:
        return position
    if count > TAGGED_FIELDS_MAX:
        raise MalformedMessage(f"{count} tagged fields; {TAGGED_FIELDS_MAX} are allowed")
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        end = position + size
        if end > len(frame):
            raise MalformedMessage(f"tagged field {tag} of {size} bytes ends after the frame")
        if tag in known:
            name, decode = known[tag]
            value, position = decode(frame, position)
            if position != end:
                raise MalformedMessage(f"{name} (tagged field {tag}) does not fill {size} bytes")
            setattr(message, name, value)
        position = end
    return position


def _reader_of(kafka_type: str, flexible: bool) -> Decode:
    if kafka_type == "string":
        return _read_compact_string if flexible else _read_legacy_string
    return _read_compact_bytes if flexible else _read_legacy_bytes


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


def _maker(kafka_type: str, nullable: bool) -> Callable[[Any], Any] | None:
    """The function that converts what `struct` gives for a fixed-size field; None: none needed."""
    match kafka_type:
        case "error_code":
            return error_of
        case "uuid":
            return _uuid
        case "timedelta_i32" | "timedelta_i64":
            return _MILLISECOND.__mul__
        case "datetime_i64":
            return _nullable_timestamp if nullable else _timestamp
    return None


@functools.lru_cache(maxsize=_UUIDS_KEPT)
def _uuid(raw: bytes) -> UUID | None:
    return None if raw == _NULL_UUID else UUID(bytes=raw)


def _timestamp(milliseconds: int) -> datetime:
    return _EPOCH + milliseconds * _MILLISECOND


def _nullable_timestamp(milliseconds: int) -> datetime | None:
    return None if milliseconds == -1 else _timestamp(milliseconds)
