"""Decodes Protobuf values in the bytes of records into Arrow columns of a reader's schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from drumlin.client.values.decoded import Rows
from drumlin.client.values.framing import Payloads, message_indexes, with_zero
from drumlin.client.values.kernel_runs import FAULTS, run, value_kernels_here
from drumlin.client.values.nodes import Nodes, map_entries
from drumlin.client.values.protobuf.proto_files import files_of, message_names
from drumlin.client.values.protobuf.protobuf_plan import Part, plan_of
from drumlin.client.values.registry import RegisteredSchema

_NO_INDEXES: Final = "the value has no message indexes after its schema id"


class ProtobufDecoder:
    """A decoder for one message."""

    def __init__(self, schema: RegisteredSchema, message: str | None) -> None:
        """
        Raises:
            SchemaError: the schema is invalid, has no such message, or cannot be mapped to columns.
        """
        self._schema = schema
        self._plan, self._message = plan_of(files_of(schema), message)

    def __reduce__(self) -> tuple[Any, ...]:
        return ProtobufDecoder, (self._schema, self._message)

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the values."""
        return self._plan.root.type

    @property
    def kind(self) -> str:
        """The kind of its schemas in a registry."""
        return "PROTOBUF"

    def check(self, writer: RegisteredSchema | None) -> None:
        """Check the writer's schema.

        Raises:
            SchemaError: the writer's schema is invalid.
        """
        if writer is not None:
            message_names(writer)

    def decode(self, values: Payloads, writer: RegisteredSchema | None) -> Rows:
        """Decode values; with a writer, they begin with the path of their message in its schema.

        Raises:
            DecoderUnavailable: there are no kernels.
            TooLarge: the values take too much memory.
        """
        reasons: dict[int, str] = {}
        if writer is not None:
            values = self._messages(values, writer, reasons)
        plan = self._plan
        nodes = Nodes(plan.node_types, len(values.rows), int((values.ends - values.starts).sum()))
        decode = value_kernels_here().decode_protobuf
        tables = (plan.messages, plan.fields, plan.nulls)
        faults = run(decode, values, (), tables, nodes, plan.frame_words)
        for place in np.flatnonzero(faults[:, 0]):
            fault, position = faults[place]
            reasons[int(values.rows[place])] = f"{FAULTS[int(fault)]}, at byte {position}"
        return Rows(values.rows, _array(plan.root, nodes, plan.node_types), reasons)

    def _messages(
        self, values: Payloads, writer: RegisteredSchema, reasons: dict[int, str]
    ) -> Payloads:
        """The values of the wanted message, without their message indexes."""
        # A single zero stands for the first message, which most values have.
        good = with_zero(values, 1)
        starts = values.starts + good
        others = np.flatnonzero(~good)
        reason = self._mismatch(writer, (0,))
        if reason is not None:
            reasons |= dict.fromkeys(values.rows[good].tolist(), reason)
            good[:] = False
        for place, path, size in _paths(values.of(others)):
            starts[others[place]] += size
            reason = _NO_INDEXES if path is None else self._mismatch(writer, path)
            good[others[place]] = reason is None
            if reason is not None:
                reasons[int(values.rows[others[place]])] = reason
        return values._replace(starts=starts).of(np.flatnonzero(good))

    def _mismatch(self, writer: RegisteredSchema, path: tuple[int, ...]) -> str | None:
        found = message_names(writer).get(path)
        if found is None:
            return f"the schema has no message at {list(path)}"
        return None if found == self._message else f"message {found}, not {self._message}"


def _paths(values: Payloads) -> Iterator[tuple[int, tuple[int, ...] | None, int]]:
    """The index of each value, the path of its message (None: no path), and the path's size."""
    limit = 400  # the maximum size of a path; the rest is not copied
    for place, (start, end) in enumerate(
        zip(values.starts.tolist(), values.ends.tolist(), strict=True)
    ):
        found = message_indexes(values.data[start : min(end, start + limit)].tobytes())
        yield (place, None, 0) if found is None else (place, *found)


def _array(part: Part, nodes: Nodes, types: list[pa.DataType]) -> pa.Array:
    children = [_array(child, nodes, types) for child in part.children]
    if part.kind == "map":
        return nodes.array(part.node, part.type, [map_entries(part.type, children)])
    array = nodes.array(part.node, types[part.node] if part.kind == "enum" else part.type, children)
    if part.kind == "enum":
        array = _names(array, part.names)
    return array if part.default is None else _filled(array, part.default, nodes)


def _filled(array: pa.Array, default: pa.Scalar, nodes: Nodes) -> pa.Array:
    if default.type in (pa.string(), pa.binary()):
        nodes.take(array.null_count * len(default.as_buffer() or b""))
    return array.fill_null(default)


def _names(numbers: pa.Array, names: dict[int, str] | Any) -> pa.Array:
    """The names of an enum's numbers; unknown numbers as digits."""
    import pyarrow.compute as pc

    places = pc.index_in(numbers, value_set=pa.array(list(names), pa.int32()))
    found = pa.array(list(names.values()), pa.string()).take(places)
    return pc.coalesce(found, numbers.cast(pa.string()))
