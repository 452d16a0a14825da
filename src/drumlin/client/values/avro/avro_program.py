"""Compiles a writer's and a reader's Avro schema to a program for the kernel.

Owns Avro's rules of schema resolution: fields by name and alias, defaults, promotions, branches
of unions, symbols of enums. Decodes nothing: `avro_decoder.py` runs the programs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from drumlin.client.values.avro.avro_schema import (
    AvroSchema,
    Form,
    Part,
    kind_of,
    logical_of,
    takes_no_bytes,
)
from drumlin.client.values.errors import SchemaError
from drumlin.records.kernels import values_layout as at

_STEPS_MAX: Final = 100_000
_PROMOTIONS: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}
_WORD: Final = (1 << 64) - 1


class Program(NamedTuple):
    """The program that the kernel runs for each row."""

    steps: np.ndarray
    literals: bytes
    null_place: int
    loops: int


class Unreadable(SchemaError):
    """Values of the writer's schema cannot be read with the reader's."""


def program_of(writer: AvroSchema, reader: AvroSchema, part: Part) -> Program:
    """The program that reads values of `writer` into the parts of `reader`.

    Raises:
        SchemaError: no value of the writer can be read, or the program has too many steps.
    """
    making = _Making(writer, reader)
    try:
        making.read(writer.root, part, "value")
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    return making.finished(part)


class _Mark(NamedTuple):
    """The length of a program before a branch that may turn out to be unreadable."""

    steps: int
    tables: int
    literals: int
    calls: int
    writer: AvroSchema
    open_names: list[str]
    bounded: int
    loops: int


class _Making:
    def __init__(self, writer: AvroSchema, reader: AvroSchema) -> None:
        self._writer = writer
        self._reader = reader
        self._steps: list[int] = []
        self._made = 0  # steps, including those that were undone
        self._tables: list[tuple[int, Sequence[int]]] = []
        self._literals = bytearray()
        #: The position of each call's argument, and the record that the call skips.
        self._calls: list[tuple[int, Mapping[str, Any]]] = []
        self._open_names: list[str] = []
        #: The number of open records outside the innermost union, array or map (these take bytes).
        self._bounded = 0
        self._loops = self._loops_max = 0

    def finished(self, root: Part) -> Program:
        """The program: its steps, followed by the tables that they refer to."""
        self._step(at.OP_END)
        null_place = len(self._steps)
        self._null(root)
        self._step(at.OP_END)
        self._finish_calls()
        for argument, table in self._tables:
            self._steps[argument] = len(self._steps)
            self._steps += table
        steps = np.array(self._steps, np.int64)
        return Program(steps, bytes(self._literals), null_place, self._loops_max)

    def _finish_calls(self) -> None:
        """Add the steps of each called record once; these steps may call further records."""
        places: dict[str, int] = {}
        done = 0
        while done < len(self._calls):
            argument, written = self._calls[done]
            done += 1
            if written["name"] not in places:
                places[written["name"]] = len(self._steps)
                self._open_names, self._bounded = [], 0
                self._skip_fields(written, str(written["name"]))
                self._step(at.OP_RETURN)
            self._steps[argument] = places[written["name"]]

    def _step(self, op: int, node: int = 0, first: int = 0, second: int = 0) -> int:
        """Add a step; returns the position of its first argument."""
        self._steps += (op, node, first, second)
        self._made += 1
        if self._made > _STEPS_MAX:
            raise SchemaError("the schema is too large")
        return len(self._steps) - 2

    def _with_table(self, op: int, node: int, table: Sequence[int], second: int) -> None:
        self._tables.append((self._step(op, node, 0, second), table))

    def _null(self, part: Part) -> None:
        self._step(at.OP_NULL, part.node)
        if kind_of(part.form) in ("record", "union"):
            for child in part.children:
                self._null(child)

    # Reading.

    def read(self, form: Form, part: Part, path: str) -> None:
        """Read a value of the writer's `form` into a part.

        Raises:
            Unreadable: no value of `form` can be read.
        """
        written = self._writer.whole(form)
        kind = kind_of(written)
        if isinstance(written, list):
            self._branches(written, part, path)
        elif kind_of(part.form) == "union":
            self._member(written, part, path)
        elif kind == "null" and (part.may_be_null or kind_of(part.form) == "null"):
            self._null(part)
        elif kind == "record" and kind_of(part.form) == "record":
            self._record(written, part, path)
        elif kind == "array" and kind_of(part.form) == "array":
            items = part.children[0]
            self._loop(part.node, items.node, lambda: self.read(written["items"], items, path))
            self._check_items(written["items"], path)
        elif kind == "map" and kind_of(part.form) == "map":
            keys, values = part.children
            self._loop(part.node, keys.node, lambda: self._entry(written, keys, values, path))
        else:
            self._scalar(written, part, path)

    def _entry(self, written: Mapping[str, Any], keys: Part, values: Part, path: str) -> None:
        self._step(at.OP_BYTES, keys.node, 1)
        self.read(written["values"], values, path)

    def _branches(self, branches: list[Any], part: Part, path: str) -> None:
        """Read a union: steps for each branch, which fail if it has no counterpart."""

        def read(form: Form) -> None:
            before = self._mark()
            try:
                self.read(form, part, path)
            except Unreadable:
                self._go_back(before)
                self._step(at.OP_FAULT, 0, at.FAULT_UNREADABLE)

        self._choice(branches, read)

    def _mark(self) -> _Mark:
        lengths = len(self._steps), len(self._tables), len(self._literals), len(self._calls)
        return _Mark(*lengths, self._writer, list(self._open_names), self._bounded, self._loops)

    def _go_back(self, mark: _Mark) -> None:
        del self._steps[mark.steps :], self._tables[mark.tables :], self._literals[mark.literals :]
        del self._calls[mark.calls :]
        self._writer, self._open_names, self._loops = mark.writer, mark.open_names, mark.loops
        self._bounded = mark.bounded

    def _choice(self, branches: list[Any], read: Any) -> None:
        places: list[int] = []
        self._with_table(at.OP_UNION, 0, places, len(branches))
        leaving = []
        for branch in branches:
            places.append(len(self._steps))
            self._within(functools.partial(read, branch))
            leaving.append(self._step(at.OP_JUMP))
        for argument in leaving:
            self._steps[argument] = len(self._steps)

    def _member(self, written: Any, part: Part, path: str) -> None:
        """Read a value that is not a union into a branch of the reader's union."""
        if kind_of(written) == "null":
            if not part.may_be_null:
                raise Unreadable(f"{path}: null cannot be read")
            self._null(part)
            return
        chosen = self._chosen(written, part, path)
        self._step(at.OP_PRESENT, part.node)
        for child in part.children:
            if child is chosen:
                self.read(written, child, path)
            else:
                self._null(child)

    def _chosen(self, written: Any, part: Part, path: str) -> Part:
        kind = kind_of(written)
        same = [each for each in part.children if kind_of(each.form) == kind]
        same.sort(key=lambda each: _name(each.form) != _name(written))  # other names last
        for each in same:
            if _have_same_name(written, each.form):
                return each
        for each in part.children:
            if (kind, kind_of(each.form)) in _PROMOTIONS:
                return each
        raise Unreadable(f"{path}: the reader's union has no branch for {kind}")

    def _record(self, written: Any, part: Part, path: str) -> None:
        if not _have_same_name(written, part.form):
            raise Unreadable(f"{path}: {written['name']} is not {_name(part.form)}")
        self._open_names.append(written["name"])
        self._step(at.OP_PRESENT, part.node)
        fields = part.form["fields"] if isinstance(part.form, Mapping) else []
        targets = [(each["name"], child) for each, child in zip(fields, part.children, strict=True)]
        names = {each["name"] for each in written["fields"]}
        # Aliases count only for a field that the writer does not have under its own name.
        wanted = {
            alias: target
            for field, target in zip(fields, targets, strict=True)
            if field["name"] not in names
            for alias in field.get("aliases", ())
        } | {target[0]: target for target in targets}
        found = set()
        for each in written["fields"]:
            name, target = wanted.get(each["name"], ("", part))
            if not name or name in found:
                self._skip(each["type"], f"{path}.{each['name']}")
            else:
                self.read(each["type"], target, f"{path}.{each['name']}")
                found.add(name)
        for field, child in zip(fields, part.children, strict=True):
            if field["name"] not in found:
                self._default(field, child, f"{path}.{field['name']}")
        self._open_names.pop()

    def _default(self, field: Mapping[str, Any], part: Part, path: str) -> None:
        """Read the default of a field that the writer does not have."""
        if "default" not in field:
            raise Unreadable(f"{path}: the writer does not have this field, and it has no default")
        if self._writer is self._reader:  # the kernel cannot nest defaults
            raise Unreadable(f"{path}: a default does not have this field")
        start = len(self._literals)
        self._literals += self._reader.encoded(field["type"], field["default"])
        self._step(at.OP_LITERAL, 0, start, len(self._literals))
        writer, self._writer = self._writer, self._reader
        open_names, self._open_names = self._open_names, []
        bounded, self._bounded = self._bounded, 0
        self.read(field["type"], part, path)
        self._writer, self._open_names, self._bounded = writer, open_names, bounded
        self._step(at.OP_RESUME)

    def _within(self, body: Callable[[], None]) -> None:
        """Compile the inside of a union, array or map, which itself takes at least one byte."""
        bounded, self._bounded = self._bounded, len(self._open_names)
        body()
        self._bounded = bounded

    def _loop(self, node: int, items: int, body: Any) -> None:
        self._loops += 1
        self._loops_max = max(self._loops, self._loops_max)
        self._step(at.OP_LIST, node)
        again = len(self._steps)
        after = self._step(at.OP_ITEM, node, 0, items)
        self._within(body)
        self._step(at.OP_JUMP, 0, again)
        self._steps[after] = len(self._steps)
        self._loops -= 1

    def _check_items(self, form: Form, path: str) -> None:
        if takes_no_bytes(self._writer, form):
            raise SchemaError(f"{path}: an array of items that take no bytes is not supported")

    def _scalar(self, written: Any, part: Part, path: str) -> None:
        kind, wanted = kind_of(written), kind_of(part.form)
        if kind != wanted and (kind, wanted) not in _PROMOTIONS:
            raise Unreadable(f"{path}: {kind} cannot be read as {wanted}")
        if kind == "enum":
            self._enum(written, part, path)
        elif kind == "fixed" and not _are_same_fixed(written, part.form):
            raise Unreadable(f"{path}: {written['name']} is not the reader's fixed type")
        elif wanted in ("bytes", "fixed") and logical_of(part.form) == "decimal":
            self._decimal(written, part, path)
        elif kind in ("int", "long"):
            self._step(
                at.OP_INTEGER, part.node, _form(written, part.form), 32 if kind == "int" else 64
            )
        elif kind == "float":
            self._step(at.OP_FLOAT, part.node, 4 if wanted == "float" else 8)
        elif kind in ("string", "bytes"):
            self._step(at.OP_BYTES, part.node, int(wanted == "string"))
        elif kind == "fixed":
            self._step(at.OP_FIXED, part.node, written["size"])
        else:
            self._step(at.OP_BOOLEAN if kind == "boolean" else at.OP_DOUBLE, part.node)

    def _enum(self, written: Any, part: Part, path: str) -> None:
        form = part.form
        if not isinstance(form, Mapping) or not _have_same_name(written, form):
            raise Unreadable(f"{path}: {written['name']} is not the reader's enum")
        number = {symbol: index for index, symbol in enumerate(form["symbols"])}
        otherwise = number.get(form.get("default"), -1)
        table = [number.get(symbol, otherwise) for symbol in written["symbols"]]
        self._with_table(at.OP_ENUM, part.node, table, len(table))

    def _decimal(self, written: Any, part: Part, path: str) -> None:
        scale = part.type.scale
        if logical_of(written) == "decimal" and written.get("scale", 0) != scale:
            raise Unreadable(f"{path}: the decimal has another scale")
        limit = 10**part.type.precision
        limits = [*_words(limit), *_words(limit - 1)]
        size = written["size"] if kind_of(written) == "fixed" else -1
        argument = self._step(at.OP_DECIMAL, part.node, size) + 1
        self._tables.append((argument, limits))

    # Skipping: a skipped value need not be valid, if only its end can be found.

    def _skip(self, form: Form, path: str) -> None:
        if takes_no_bytes(self._writer, form):
            return
        written = self._writer.whole(form)
        kind = kind_of(written)
        if isinstance(written, list):
            self._choice(written, lambda branch: self._skip(branch, path))
        elif kind == "record":
            self._skip_record(written, path)
        elif kind == "array" and takes_no_bytes(self._writer, written["items"]):
            self._step(at.OP_SKIP_BLOCKS)
        elif kind == "array":
            self._loop(at.NO_NODE, 0, lambda: self._skip(written["items"], path))
        elif kind == "map":
            self._loop(at.NO_NODE, 0, lambda: self._skipped_entry(written, path))
        elif kind in ("int", "long", "enum"):
            self._step(at.OP_INTEGER, at.NO_NODE, at.FORM_8, 64)
        elif kind in _SIZES or kind == "fixed":
            self._step(at.OP_FIXED, at.NO_NODE, _SIZES.get(kind) or written["size"])
        else:
            self._step(at.OP_BYTES, at.NO_NODE)

    def _skip_record(self, written: Any, path: str) -> None:
        """Skip a record. A record nested in itself is skipped by a call, to any depth.

        Raises:
            SchemaError: the record always contains itself, so that no value would end.
        """
        name = written["name"]
        if name in self._open_names[self._bounded :]:
            raise SchemaError(f"{path}: {name} contains itself in every value")
        if name in self._open_names:
            self._calls.append((self._step(at.OP_CALL), written))
        else:
            self._skip_fields(written, path)

    def _skip_fields(self, written: Any, path: str) -> None:
        self._open_names.append(written["name"])
        for each in written["fields"]:
            self._skip(each["type"], f"{path}.{each['name']}")
        self._open_names.pop()

    def _skipped_entry(self, written: Mapping[str, Any], path: str) -> None:
        self._step(at.OP_BYTES, at.NO_NODE)
        self._skip(written["values"], path)


_SIZES: Final = {"boolean": 1, "float": 4, "double": 8}


def _form(written: Any, wanted: Any) -> int:
    kind = kind_of(wanted)
    if kind == "int":
        return at.FORM_4
    if kind == "float":
        return at.FORM_FLOAT
    if kind == "double":
        return at.FORM_DOUBLE
    # A column of nanoseconds is a plain long: the number as it was written.
    if "timestamp" not in logical_of(wanted) or logical_of(wanted).endswith("-nanos"):
        return at.FORM_8
    # The unit is the writer's, if it names one.
    unit = logical_of(written) if "timestamp" in logical_of(written) else logical_of(wanted)
    if unit.endswith("timestamp-nanos"):
        return at.FORM_THOUSANDTHS
    return at.FORM_THOUSANDS if unit.endswith("timestamp-millis") else at.FORM_8


def _name(form: Any) -> str:
    return str(form.get("name", "")) if isinstance(form, Mapping) else ""


def _have_same_name(written: Any, wanted: Any) -> bool:
    """Whether types match by name or alias; types without a name always match."""
    if not isinstance(written, Mapping) or "name" not in written:
        return True
    name = str(written["name"])
    aliases = [str(each) for each in wanted.get("aliases", ())]
    short = name.rpartition(".")[2]
    return short == str(wanted["name"]).rpartition(".")[2] or name in aliases or short in aliases


def _are_same_fixed(written: Any, wanted: Any) -> bool:
    return _have_same_name(written, wanted) and bool(written["size"] == wanted["size"])


def _words(value: int) -> tuple[int, int]:
    """The upper and the lower 64 bits, as signed numbers."""
    low = value & _WORD
    return value >> 64, low - (1 << 64) if low >= 1 << 63 else low
