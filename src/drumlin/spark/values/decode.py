"""DataFrames with typed values, from a column of bytes or from a topic.

Owns the two functions that users call, their checks, and the schema of the result. The work of a
task is in `batches.py`, the formats are in `drumlin.client.values`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from drumlin.spark.old_names import takes_bootstrap_servers
from drumlin.spark.values.bad_records import BAD_RECORDS, ERROR_COLUMN, BadRecords, raw_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

    from drumlin.client.values.decoder import Format, ValueDecoder
    from drumlin.client.values.registry import SchemaRegistry
    from drumlin.spark.values.batches import BatchDecoding, ColumnDecoding


def decode_values(
    df: DataFrame,
    schema: StructType | str | None = None,
    *,
    format: Format = "json",  # noqa: A002
    registry: SchemaRegistry | str | None = None,
    subject: str | Sequence[str] | None = None,
    message: str | None = None,
    column: str = "value",
    into: str | None = "value",
    key: ValueDecoder | StructType | str | None = None,
    bad_records: BadRecords = "fail",
) -> DataFrame:
    """A DataFrame, of a batch or a stream, whose column of bytes is decoded.

    Args:
        schema: for `json` the type of values, as a `StructType` or as DDL (`id long, name
            string`); for `avro` the reader's schema as JSON, for `protobuf` a `.proto` file as
            text; by default the latest one of `subject`, looked up now.
        format: `json`, `avro` or `protobuf`.
        registry: the registry of the schemas whose ids the values begin with (a zero byte, the id
            in four bytes): a url, or a `SchemaRegistry` with a login. Tasks look schemas up there.
            Without one, values have no such prefix, and all are of `schema`.
        subject: the registry's subject, often the topic's name with `-value`. For `avro` also
            several: then the decoded column has a field for each of their records, of which one is
            not null, by the name of the record that wrote a value.
        message: for `protobuf`, the message's full name; by default the schema's first one.
        column: the column of bytes. It is kept, unless `into` is the same.
        into: the name of the decoded column; None, if its fields become columns of their own.
        key: how to decode the column `key`, too, in place: a `drumlin.ValueDecoder`, or for JSON
            the type of keys.
        bad_records: `fail` stops the query with an error that names topic, partition and offset,
            if there are such columns. `column` adds a column `error`, null for good records, and
            a column `raw` with the bytes of bad ones (`raw_key` for those of keys); what cannot
            be decoded is null. `drop` drops them.

    Returns:
        The columns of `df` in their order. The decoded column replaces the one of its name, or
            comes last; with `into=None` the column of bytes is dropped, and the fields come
            last. Then, with `bad_records="column"`, `error` string, `raw` binary, and with `key`
            also `raw_key` binary. Types are those of "What becomes of types" in
            docs/typed-values.md; times are UTC, with microseconds.

    Raises:
        SchemaError: the schema is invalid, or cannot become columns.
        RegistryError: the registry does not have the subject, or cannot be reached.
        DecoderUnavailable: a package is not installed, or a compiler has failed.
        ValueError: arguments contradict each other, or a column does not exist.
    """
    columns = _columns(_decoder(schema, format, registry, subject, message), column, into, key)
    result, decoding = _planned(df.schema, columns, bad_records)
    return df.mapInArrow(decoding, result)


@takes_bootstrap_servers
def read_values(
    spark: SparkSession,
    topic: str,
    schema: StructType | str | None = None,
    *,
    bootstrap: str,
    stream: bool = False,
    format: Format = "json",  # noqa: A002
    registry: SchemaRegistry | str | None = None,
    subject: str | Sequence[str] | None = None,
    message: str | None = None,
    into: str | None = "value",
    key: ValueDecoder | StructType | str | None = None,
    bad_records: BadRecords = "fail",
    columns: Sequence[str] | str | None = None,
    **options: object,
) -> DataFrame:
    """A topic with decoded values, as a batch or a stream, without passing bytes through Spark.

    The same as `decode_values` of the topic's DataFrame, and faster: values are decoded where they
    are fetched (see `map_batches`).

    Args:
        topic: a name, or several with commas between them.
        schema, format, registry, subject, message, into, key, bad_records: as for `decode_values`.
        bootstrap: some of the brokers, as `host:port,…`.
        stream: read the topic as a stream. A batch ends at the current end of the log.
        columns: the columns of the topic to read, including `value`; None: those of
            `format("drumlin")`.
        options: those of `format("drumlin")`. With `bad_records="column"`, `includeHeaders` is true
            by default, for dead letters.

    Returns:
        The columns of the topic (`key` binary, `topic` string, `partition` int, `offset` long,
            `timestamp` timestamp with milliseconds, `timestampType` int), and the decoded ones as
            from `decode_values`.

    Raises:
        OptionError: the options are invalid.
        SchemaError, RegistryError, DecoderUnavailable, ValueError: as `decode_values`.
    """
    from drumlin.spark.mapping import map_batches
    from drumlin.spark.options.keyword_options import read_options, with_keywords
    from drumlin.spark.options.options import SourceOptions
    from drumlin.spark.options.source_rows import COLUMNS_OPTION
    from drumlin.spark.source import spark_schema

    given = with_keywords(options, {COLUMNS_OPTION: columns})
    SourceOptions.parse(read_options(topic, bootstrap, given))  # before a registry is asked
    decoded = _columns(_decoder(schema, format, registry, subject, message), "value", into, key)
    chosen = {name.lower() for name, each in given.items() if each is not None}
    if bad_records == "column" and not chosen & {"columns", "includeheaders"}:
        given["includeHeaders"] = not _becomes_headers(decoded[0])
    read = SourceOptions.parse(read_options(topic, bootstrap, given)).columns
    result, decoding = _planned(spark_schema(read), decoded, bad_records)
    others = {name: each for name, each in given.items() if name.lower() != COLUMNS_OPTION.key}
    return map_batches(
        spark,
        topic,
        decoding,
        result,
        bootstrap=bootstrap,
        stream=stream,
        columns=read,
        **others,
    )


def _decoder(
    schema: StructType | str | None,
    format_: Format,
    registry: SchemaRegistry | str | None,
    subject: str | Sequence[str] | None,
    message: str | None,
) -> ValueDecoder:
    from pyspark.sql.pandas.types import to_arrow_schema

    from drumlin.client.values.decoder import ValueDecoder
    from drumlin.spark.mapping import as_struct

    requested: Any = schema
    if format_ == "json" and schema is not None:
        requested = to_arrow_schema(as_struct(schema), timezone="UTC")
    return ValueDecoder(
        requested, format=format_, registry=registry, subject=subject, message=message
    )


def _columns(
    decoder: ValueDecoder,
    column: str,
    into: str | None,
    key: ValueDecoder | StructType | str | None,
) -> tuple[ColumnDecoding, ...]:
    """The columns that are decoded, each once.

    Raises:
        ValueError: the key would be decoded twice.
    """
    from drumlin.client.values.decoder import ValueDecoder
    from drumlin.spark.values.batches import ColumnDecoding

    value = ColumnDecoding(decoder, column, into)
    if key is None:
        return (value,)
    if "key" in (column, into):
        raise ValueError(
            "the column 'key' is already decoded by the argument `key`: leave out `key` or `column`"
        )
    of_key = key if isinstance(key, ValueDecoder) else _decoder(key, "json", None, None, None)
    return value, ColumnDecoding(of_key, "key", "key")


def _becomes_headers(value: ColumnDecoding) -> bool:
    """Whether a decoded column takes the name `headers`."""
    import pyarrow as pa

    if value.into is not None:
        return value.into.lower() == "headers"
    kind = value.decoder.type
    return pa.types.is_struct(kind) and "headers" in [each.name.lower() for each in kind]


def _planned(
    given: StructType, columns: tuple[ColumnDecoding, ...], bad_records: BadRecords
) -> tuple[StructType, BatchDecoding]:
    """The schema of the result, and the decoding for tasks.

    Raises:
        DecoderUnavailable: a format needs kernels, and they are not available.
        ValueError: arguments contradict each other, or a column does not exist.
    """
    from drumlin.client.values.kernel_runs import value_kernels_here
    from drumlin.spark.values.batches import BatchDecoding

    if bad_records not in BAD_RECORDS:
        raise ValueError(f"bad_records={bad_records!r}: expected one of {', '.join(BAD_RECORDS)}")
    result = given
    for each in columns:
        result = _result_schema(result, _spark_type(each.decoder), each.column, each.into)
    if bad_records == "column":
        result = _with_places_of_bad_records(result, [raw_column(each.column) for each in columns])
    if any(each.decoder.needs_kernels for each in columns):
        value_kernels_here()  # raises here, rather than in every worker
    return result, BatchDecoding(columns, bad_records)


def _spark_type(decoder: ValueDecoder) -> DataType:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(decoder.type, prefer_timestamp_ntz=True)


def _result_schema(
    given: StructType, decoded: DataType, column: str, into: str | None
) -> StructType:
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    if column not in given.names:
        raise ValueError(f"there is no column {column!r}; there are {', '.join(given.names)}")
    if not isinstance(given[column].dataType, BinaryType | StringType):
        raise ValueError(f"column {column!r} is {given[column].dataType.simpleString()}, not bytes")
    if into is not None:
        fields = [StructField(into, decoded) if each.name == into else each for each in given]
        if into not in given.names:
            fields.append(StructField(into, decoded))
        return StructType(fields)
    if not isinstance(decoded, StructType):
        raise ValueError(f"only a record has fields, and values are {decoded.simpleString()}")
    fields = [each for each in given if each.name != column]
    _check_new([each.name for each in fields], decoded.names, "choose `into`")
    return StructType([*fields, *decoded])


def _with_places_of_bad_records(schema: StructType, raw: list[str]) -> StructType:
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    added = [StructField(ERROR_COLUMN, StringType())]
    added += [StructField(each, BinaryType()) for each in raw]
    way_out = "rename the existing one, or decode key and value in one call, by `key`"
    _check_new(schema.names, [each.name for each in added], way_out)
    return StructType([*schema, *added])


def _check_new(names: list[str], added: list[str], way_out: str) -> None:
    lower = {each.lower() for each in names}
    twice = [each for each in added if each.lower() in lower]
    if twice:
        raise ValueError(f"there would be two columns {', '.join(twice)}: {way_out}")
