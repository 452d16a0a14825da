"""The user's settings for values that are landed as typed columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from drumlin.spark.landing.rows.mode import TOPIC
from drumlin.spark.values.bad_records import BAD_RECORDS, BadRecords

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql.types import StructType

    from drumlin.client.values.decoder import Format, ValueDecoder
    from drumlin.client.values.registry import SchemaRegistry

_SUBJECT = f"{TOPIC}-value"


class TypedValues(NamedTuple):
    """The settings for decoding values: arguments of `decode_values`."""

    format: Format
    schema: StructType | str | None
    registry: SchemaRegistry | str | None
    subject: str | None
    message: str | None
    bad_records: BadRecords

    def decoder(self, topic: str) -> ValueDecoder:
        """A decoder into the given schema, or else into the subject's latest one, as it is now.

        Raises:
            SchemaError: the schema is invalid, or cannot become columns.
            RegistryError: the registry does not have the subject, or cannot be reached.
            DecoderUnavailable: a package is not installed, or a compiler has failed.
            ValueError: arguments contradict each other.
        """
        from pyspark.sql.pandas.types import to_arrow_schema

        from drumlin.client.values.decoder import ValueDecoder
        from drumlin.client.values.kernel_runs import value_kernels_here
        from drumlin.spark.values.ddl import struct_of

        schema: Any = self.schema
        if self.format == "json" and schema is not None:
            struct = struct_of(schema) if isinstance(schema, str) else schema
            schema = to_arrow_schema(struct, timezone="UTC")
        subject = self.subject
        if subject is None and self.registry is not None and schema is None:
            subject = _SUBJECT
        made = ValueDecoder(
            schema,
            format=self.format,
            registry=self.registry,
            subject=None if subject is None else subject.replace(TOPIC, topic),
            message=self.message,
        )
        if made.needs_kernels:
            value_kernels_here()  # raises here, rather than in every worker
        return made


def typed_values(
    *,
    format: Format | None,  # noqa: A002
    schema: StructType | str | None,
    registry: SchemaRegistry | str | None,
    subject: str | None,
    message: str | None,
    bad_records: BadRecords,
) -> TypedValues | None:
    """The settings in these arguments; None if there are none: then values are bytes.

    Raises:
        ValueError: there are settings, but no format; or no schema can be found.
    """
    from drumlin.client.values.decoder import FORMATS

    if bad_records not in BAD_RECORDS:
        raise ValueError(f"bad_records={bad_records!r}: expected one of {', '.join(BAD_RECORDS)}")
    said = {"schema": schema, "registry": registry, "subject": subject, "message": message}
    if format is None:
        names = [name for name, each in said.items() if each is not None]
        if names or bad_records != "fail":
            raise ValueError(f"{', '.join(names) or 'bad_records'}: of use only with a format")
        return None
    if format not in FORMATS:
        raise ValueError(f"format={format!r}: expected one of {', '.join(FORMATS)}")
    if schema is None and (registry is None or format == "json"):
        way_out = "" if format == "json" else ", or a registry that has it"
        raise ValueError(f"format={format!r} needs a schema{way_out}")
    return TypedValues(format, schema, registry, subject, message, bad_records)
