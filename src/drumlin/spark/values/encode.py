"""Encodes columns as values of a topic: JSON by Spark's own function, Avro in the workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from drumlin.client.values.avro.avro_encoder import AvroEncoder
    from drumlin.client.values.registry import SchemaRegistry
    from drumlin.client.values.writer_schema import SchemaId

WrittenFormat: TypeAlias = Literal["json", "avro"]
WRITTEN_FORMATS: Final = ("json", "avro")


def encode_values(
    df: DataFrame,
    column: str = "value",
    *,
    format: WrittenFormat = "json",  # noqa: A002
    schema: str | None = None,
    registry: SchemaRegistry | str | None = None,
    subject: str | None = None,
    schema_id: SchemaId | None = None,
) -> DataFrame:
    """A DataFrame, of a batch or a stream, whose column is encoded to bytes; null stays null.

    Args:
        column: the column to encode; mostly a struct, as `struct("id", "price").alias("value")`.
        format: `json` or `avro`.
        schema: for `avro`, as JSON; by default derived from the column's type.
        registry: for `avro`, the registry where the schema is registered now: values then begin
            with a zero byte and its id. Without one, they have no such prefix.
        subject: the subject of the schema, often the topic's name with `-value`.
        schema_id: for `avro`, write with a schema that the registry has, and register nothing: its
            id, or `latest` for the latest one of `subject`, looked up now.

    Returns:
        The columns of `df` in their order, with `column` as binary.

    Raises:
        SchemaError: a part of the column has no counterpart in Avro or in the schema, or the
            schema is invalid.
        UnknownSchema, RegistryError: the registry refuses the schema or does not have it, or
            cannot be reached.
        ValueError: arguments contradict each other, or a column does not exist.
    """
    if format not in WRITTEN_FORMATS:
        raise ValueError(f"format {format!r}: expected one of {', '.join(WRITTEN_FORMATS)}")
    if column not in df.columns:
        raise ValueError(f"there is no column {column!r}; there are {', '.join(df.columns)}")
    if format == "json":
        if (schema, registry, subject, schema_id) != (None, None, None, None):
            raise ValueError("JSON is written without a schema or a registry")
        return _as_json(df, column)
    from pyspark.sql.pandas.types import to_arrow_type

    from drumlin.client.values.avro.avro_encoder import AvroEncoder

    type_ = to_arrow_type(df.schema[column].dataType, timezone="UTC")
    encoder = AvroEncoder(type_, schema, registry=registry, subject=subject, schema_id=schema_id)
    return df.mapInArrow(BatchEncoding(encoder, column), _result_schema(df.schema, column))


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

    encoder: AvroEncoder
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
