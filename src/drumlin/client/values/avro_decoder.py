"""Avro values in the bytes of records, as Arrow columns of a reader's schema.

Runs the program of each writer's schema in the kernel. There is no other path: without a
compiler (see `records/kernels`) Avro cannot be decoded, and that is an error.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import numpy as np
import pyarrow as pa

from drumlin.client.values.avro_program import Program, program_of
from drumlin.client.values.avro_schema import AvroSchema, Part, kind_of, parts_of
from drumlin.client.values.decoded import Rows
from drumlin.client.values.errors import SchemaError
from drumlin.client.values.framing import Payloads
from drumlin.client.values.nodes import Nodes, uuids
from drumlin.client.values.registry import RegisteredSchema
from drumlin.records.kernels import value_kernels
from drumlin.records.kernels import values_layout as at
from drumlin.records.kernels.machine_code import ValueKernels

_PROGRAMS_MAX: Final = 200
_FAULTS: Final = {
    at.FAULT_CUT: "the value ends too early",
    at.FAULT_INTEGER: "an integer is cut off, or too large for its type",
    at.FAULT_LENGTH: "a length is negative, or passes the end of the value",
    at.FAULT_TEXT: "text is not UTF-8",
    at.FAULT_BOOLEAN: "a boolean is neither 0 nor 1",
    at.FAULT_ENUM: "an enum has a symbol that the schema does not have",
    at.FAULT_BRANCH: "a union has a branch that the schema does not have",
    at.FAULT_DECIMAL: "a decimal has more digits than the schema says",
    at.FAULT_LEFT_OVER: "bytes are left over after the value",
    at.FAULT_TIME: "a time is too far away for microseconds",
    at.FAULT_UNREADABLE: "the reader's schema has nothing for this branch of a union",
    at.FAULT_BLOCK: "an array or map says that it has more items than bytes follow",
}


class AvroDecoder:
    """Decodes into the columns of one reader's schema."""

    def __init__(self, reader: RegisteredSchema) -> None:
        """
        Raises:
            SchemaError: the schema cannot become columns.
        """
        self._schema = reader
        self._reader = AvroSchema(reader.text, reader.references)
        self._programs: OrderedDict[RegisteredSchema, Program | SchemaError] = OrderedDict()
        self._root, count = parts_of(self._reader)
        self._parts: list[Part] = sorted(self._root.walk(), key=lambda part: part.node)
        assert len(self._parts) == count
        self._node_types = [_node_type(part) for part in self._parts]

    @property
    def type(self) -> pa.DataType:
        """What the values become."""
        return self._root.type

    @property
    def kind(self) -> str:
        """In a registry."""
        return "AVRO"

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroDecoder, (self._schema,)

    def check(self, writer: RegisteredSchema | None) -> None:
        """
        Raises:
            SchemaError: no value of the writer can be read.
        """
        self._program(writer or self._schema)

    def decode(self, values: Payloads, writer: RegisteredSchema | None) -> Rows:
        """Decode what the writer's schema wrote, or else the reader's own.

        Raises:
            SchemaError: no value of the writer can be read; or there are no kernels.
            TooLarge: the values take too much memory.
        """
        program = self._program(writer or self._schema)
        sizes = values.ends - values.starts
        nodes = Nodes(self._node_types, len(sizes), int(sizes.sum()))
        faults = _run(program, values, nodes)
        reasons = {
            int(values.rows[place]): f"{_FAULTS[int(faults[place, 0])]}, at byte {faults[place, 1]}"
            for place in np.flatnonzero(faults[:, 0])
        }
        return Rows(values.rows, self._array(self._root, nodes), reasons)

    def _program(self, writer: RegisteredSchema) -> Program:
        found = self._programs.get(writer)
        if found is None:
            try:
                schema = AvroSchema(writer.text, writer.references)
                found = program_of(schema, self._reader, self._root)
            except SchemaError as error:
                found = error
            self._programs[writer] = found
            if len(self._programs) > _PROGRAMS_MAX:
                self._programs.popitem(last=False)
        if isinstance(found, SchemaError):
            raise SchemaError(str(found))
        return found

    def _array(self, part: Part, nodes: Nodes) -> pa.Array:
        children = [self._array(child, nodes) for child in part.children]
        kind = kind_of(part.form)
        if kind == "map":
            entries = pa.StructArray.from_arrays(children, fields=_entry_fields(part.type))
            return nodes.array(part.node, part.type, [entries])
        array = nodes.array(part.node, self._node_types[part.node], children)
        if kind == "enum" and not isinstance(part.form, list):
            return pa.array(part.form["symbols"], pa.string()).take(array)
        return uuids(array) if kind == "fixed" and pa.types.is_string(part.type) else array


def _run(program: Program, values: Payloads, nodes: Nodes) -> np.ndarray:
    """Fill the nodes; the fault of each row (0: none), and where it was found."""
    kernels = _kernels()
    count = len(values.rows)
    rows = np.zeros((count, 4), np.int64)
    rows[:, 0], rows[:, 1] = values.starts, values.ends
    node_count = len(nodes.table)
    work = np.zeros(2 * node_count + program.loops + 1, np.int64)
    state = np.zeros(at.VALUES_STATE_WIDTH, np.int64)
    state[at.VALUES_ROW_COUNT] = count
    state[at.VALUES_NODE_COUNT] = node_count
    state[at.VALUES_NULL_PLACE] = program.null_place
    literals = np.frombuffer(program.literals or b"\0", np.uint8)
    arrays = (values.data, literals, rows, program.steps, nodes.table, work, state)
    addresses = [each.ctypes.data for each in arrays]
    while kernels.decode_avro(*addresses) != at.VALUES_DONE:
        nodes.grow(int(state[at.VALUES_FULL_NODE]), int(state[at.VALUES_FULL_BYTES]))
    return rows[:, 2:]


def _kernels() -> ValueKernels:
    kernels = value_kernels.require()
    if kernels is None:
        raise SchemaError("Avro needs compiled kernels, and they cannot be had here: see the log")
    return kernels


def _node_type(part: Part) -> pa.DataType:
    """What the kernel fills: numbers of symbols, and the bytes of UUIDs."""
    kind = kind_of(part.form)
    if kind == "enum":
        return pa.int32()
    return pa.binary() if kind == "fixed" and pa.types.is_string(part.type) else part.type


def _entry_fields(map_type: pa.DataType) -> list[pa.Field]:
    return [map_type.key_field, map_type.item_field]
