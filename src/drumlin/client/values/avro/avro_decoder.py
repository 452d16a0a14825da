"""Decodes Avro values in the bytes of records into Arrow columns of a reader's schema.

Runs the program of each writer's schema in the kernel. There is no fallback: without a compiler
(see `records/kernels`) decoding Avro is an error.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import numpy as np
import pyarrow as pa

from drumlin.client.values.avro.avro_program import Program, program_of
from drumlin.client.values.avro.avro_schema import AvroSchema, Part, kind_of, parts_of
from drumlin.client.values.decoded import Rows
from drumlin.client.values.errors import SchemaError
from drumlin.client.values.framing import Payloads
from drumlin.client.values.kernel_runs import FAULTS, run, value_kernels_here
from drumlin.client.values.nodes import Nodes, map_entries, uuids
from drumlin.client.values.registry import RegisteredSchema

_PROGRAMS_MAX: Final = 200


class AvroDecoder:
    """A decoder for one reader's schema."""

    def __init__(self, reader: RegisteredSchema) -> None:
        """
        Raises:
            SchemaError: the schema cannot be mapped to columns.
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
        """The Arrow type of the values."""
        return self._root.type

    @property
    def kind(self) -> str:
        """The kind of its schemas in a registry."""
        return "AVRO"

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroDecoder, (self._schema,)

    def check(self, writer: RegisteredSchema | None) -> None:
        """Check the writer's schema.

        Raises:
            SchemaError: no value of the writer can be read.
        """
        self._program(writer or self._schema)

    def decode(self, values: Payloads, writer: RegisteredSchema | None) -> Rows:
        """Decode values written by `writer`'s schema, or by the reader's if there is none.

        Raises:
            SchemaError: no value of the writer can be read.
            DecoderUnavailable: there are no kernels.
            TooLarge: the values take too much memory.
        """
        program = self._program(writer or self._schema)
        sizes = values.ends - values.starts
        nodes = Nodes(self._node_types, len(sizes), int(sizes.sum()))
        decode = value_kernels_here().decode_avro
        literals = np.frombuffer(program.literals or b"\0", np.uint8)
        faults = run(
            decode, values, (literals,), (program.steps,), nodes, program.loops, program.null_place
        )
        reasons = {
            int(values.rows[place]): f"{FAULTS[int(faults[place, 0])]}, at byte {faults[place, 1]}"
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
            return nodes.array(part.node, part.type, [map_entries(part.type, children)])
        array = nodes.array(part.node, self._node_types[part.node], children)
        if kind == "enum" and not isinstance(part.form, list):
            return pa.array(part.form["symbols"], pa.string()).take(array)
        return uuids(array) if kind == "fixed" and pa.types.is_string(part.type) else array


def _node_type(part: Part) -> pa.DataType:
    """The type that the kernel fills: for enums and UUIDs, symbol numbers and bytes."""
    kind = kind_of(part.form)
    if kind == "enum":
        return pa.int32()
    return pa.binary() if kind == "fixed" and pa.types.is_string(part.type) else part.type
