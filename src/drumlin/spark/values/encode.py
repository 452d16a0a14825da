"""Encodes columns as values of a topic: JSON by Spark, Avro and Protobuf in the workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from drumlin.client.values.avro.avro_encoder import AvroEncoder
    from drumlin.client.values.protobuf.protobuf_encoder import ProtobufEncoder
    from drumlin.client.values.registry import SchemaRegistry
    from drumlin.client.values.writer_schema import SchemaId

Encoder: TypeAlias = "AvroEncoder | ProtobufEncoder"
WrittenFormat: TypeAlias = Literal["json", "avro", "protobuf"]
WRITTEN_FORMATS: Final = ("json", "avro", "protobuf")


def encode_values(
    df: DataFrame,
    column: str = "value",
    *,
    format: WrittenFormat = "json",  # noqa: A002
    schema: str | None = None,
    registry: SchemaRegistry | str | None = None,
    subject: str | None = None,
    schema_id: SchemaId | None = None,
    message: str | None = None,
) -> DataFrame:
    """A DataFrame, of a batch or a stream, whose column is encoded to bytes; null stays null.

    Args:
        column: the column to encode; mostly a struct, as `struct("id", "price").alias("value")`.
        format: `json`, `avro` or `protobuf`.
        schema: for `avro`, as JSON; by default derived from the column's type. For `protobuf`, a
            `.proto` file as text, which must be given unless `schema_id` is.
        registry: not for `json`: the registry where the schema is registered now: values then
            begin with a zero byte and its id. Without one, they have no such prefix.
        subject: the subject of the schema, often the topic's name with `-value`.
        schema_id: not for `json`: write with a schema that the registry has, and register nothing:
            its id, or `latest` for the latest one of `subject`, looked up now.
        message: for `protobuf`, the message's full name; by default the schema's first one.

    Returns:
        The columns of `df` in their order, with `column` as binary.

    Raises:
        SchemaError: a part of the column has no counterpart in the format or in the schema, or
            the schema is invalid.
        UnknownSchema, RegistryError: the registry refuses the schema or does not have it, or
            cannot be reached.
        DecoderUnavailable: a package is not installed, or a compiler has failed.
        ValueError: arguments contradict each other, or a column does not exist.
    """
    if format not in WRITTEN_FORMATS:
        raise ValueError(f"format {format!r}: expected one of {', '.join(WRITTEN_FORMATS)}")
    if column not in df.columns:
        raise ValueError(f"there is no column {column!r}; there are {', '.join(df.columns)}")
    if message is not None and format != "protobuf":
        raise ValueError("`message` is an option of Protobuf only")
    given = {"registry": registry, "subject": subject, "schema_id": schema_id}
    if format == "json":
        if schema is not None or set(given.values()) != {None}:
            raise ValueError("JSON is written without a schema or a registry")
        return _as_json(df, column)
    from pyspark.sql.pandas.types import to_arrow_type

    type_ = to_arrow_type(df.schema[column].dataType, timezone="UTC")
    encoder = _encoder(format, type_, schema, message, given)
    return df.mapInArrow(BatchEncoding(encoder, column), _result_schema(df.schema, column))


def _encoder(
    format_: str, type_: pa.DataType, schema: str | None, message: str | None, given: Any
) -> Encoder:
    if format_ == "avro":
        from drumlin.client.values.avro.avro_encoder import AvroEncoder

        return AvroEncoder(type_, schema, **given)
    from drumlin.client.values.protobuf.protobuf_encoder import ProtobufEncoder

    return ProtobufEncoder(type_, schema, message=message, **given)


def _as_json(df: DataFrame, column: str) -> DataFrame:
    from pyspark.sql.functions import col, to_json

    return df.withColumn(column, to_json(col(f"`{column}`")).cast("binary"))


def _result_schema(schema: StructType, column: str) -> StructType:
    from pyspark.sql.types import BinaryType, StructField, StructType

    return StructType(
        [StructField(column, BinaryType()) if each.name == column else each for each in schema]
    )


@dataclass(frozen=True)
class BatchEncoding:
    """The encoding of batches: a function for `mapInArrow`."""

    encoder: Encoder
    column: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches with the column encoded.

        Raises:
            ValueError: a value does not fit the schema.
        """
        for batch in batches:
            place = batch.schema.names.index(self.column)
            encoded = self.encoder.encode(batch.column(place))
            yield batch.set_column(place, self.column, encoded)
