"""Values of several record types in one topic: each is decoded by the schema of its own name.

So are the values that producers write with Confluent's RecordNameStrategy and
TopicRecordNameStrategy, where each record type has a subject.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from drumlin.client.values.avro.avro_decoder import AvroDecoder
from drumlin.client.values.avro.avro_schema import AvroSchema, kind_of
from drumlin.client.values.decoded import Rows
from drumlin.client.values.errors import SchemaError
from drumlin.client.values.framing import Payloads
from drumlin.client.values.registry import RegisteredSchema


class RecordTypes:
    """A decoder of Avro records of several names into a struct with a field for each of them.

    One field of each value is not null. Fields have the short names of their records; of two that
    are the same, the full names, with `_` in place of dots.
    """

    def __init__(self, readers: Sequence[RegisteredSchema]) -> None:
        """
        Raises:
            SchemaError: a schema is no record, cannot be mapped to columns, or has the name of
                another one.
        """
        names = [_record_name(each) for each in readers]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise SchemaError(f"several subjects have the record {twice[0]}")
        short = Counter(name.rpartition(".")[2] for name in names)
        self._decoders = dict(zip(names, map(AvroDecoder, readers), strict=True))
        self._fields = [
            pa.field(last if short[last] == 1 else name.replace(".", "_"), each.type)
            for name, each in self._decoders.items()
            for last in (name.rpartition(".")[2],)
        ]
        self._names_of: dict[RegisteredSchema, str] = {}

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the values."""
        return pa.struct(self._fields)

    @property
    def kind(self) -> str:
        """The kind of its schemas in a registry."""
        return "AVRO"

    def check(self, writer: RegisteredSchema | None) -> None:
        """Check the writer's schema.

        Raises:
            SchemaError: it is of another record, or no value of the writer can be read.
        """
        self._decoders[self._name(writer)].check(writer)

    def decode(self, values: Payloads, writer: RegisteredSchema | None) -> Rows:
        """Decode values written by `writer`'s schema.

        Raises:
            SchemaError: no value of the writer can be read.
            DecoderUnavailable: there are no kernels.
            TooLarge: the values take too much memory.
        """
        name = self._name(writer)
        found = self._decoders[name].decode(values, writer)
        place = list(self._decoders).index(name)
        fields = [
            found.values if index == place else pa.nulls(len(found.values), each.type)
            for index, each in enumerate(self._fields)
        ]
        whole = pa.StructArray.from_arrays(fields, fields=self._fields, mask=found.values.is_null())
        return found._replace(values=whole)

    def _name(self, writer: RegisteredSchema | None) -> str:
        if writer is None:
            raise SchemaError("records of several types need a registry, which tells their types")
        name = self._names_of.get(writer) or _record_name(writer)
        if name not in self._decoders:
            raise SchemaError(f"a record {name}, not one of {', '.join(self._decoders)}")
        self._names_of[writer] = name
        return name


def _record_name(schema: RegisteredSchema) -> str:
    parsed = AvroSchema(schema.text, schema.references)
    whole = parsed.whole(parsed.root)
    if isinstance(whole, list) or kind_of(whole) != "record":
        raise SchemaError(f"schema {schema.id} is a {kind_of(whole)}, not a record")
    return str(whole["name"])
