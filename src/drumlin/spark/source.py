"""The data source `drumlin`: the readers and writers that Spark creates by that name.

PySpark imports this module in every session that looks for data sources, so it must stay light:
everything that needs pyarrow or a broker is imported where it is used.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from drumlin.spark.options.option import Direction
from drumlin.spark.options.option_names import warn_of_misplaced, warn_of_unknown
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.options.source_rows import COLUMNS, HEADERS_COLUMN
from drumlin.spark.planning.cluster import Cluster

if TYPE_CHECKING:
    from drumlin.spark.writing.options import SinkOptions

_TYPES: Final = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS_COLUMN: ArrayType(StructType().add("key", StringType()).add("value", BinaryType())),
}


def spark_schema(columns: Sequence[str] = COLUMNS) -> StructType:
    """These columns, with the types that they have in Spark's Kafka source."""
    return StructType([StructField(name, _TYPES[name]) for name in columns])


class DrumlinDataSource(DataSource):
    """`format("drumlin")`: topics of Drumlin, or of any Kafka cluster, as DataFrames."""

    @classmethod
    def name(cls) -> str:
        return "drumlin"

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        # Spark creates a source for each load() or save(), but also for every batch of a stream.
        _warn_once(frozenset(options))

    def schema(self) -> StructType:
        return spark_schema(self._parsed_options().columns)

    def _sink_options(self) -> SinkOptions:
        from drumlin.spark.writing.options import SinkOptions

        _check_given(self.options)
        _warn_of_misplaced_once(frozenset(self.options), "sink")
        return SinkOptions.parse(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from drumlin.spark.planning import pushdown
        from drumlin.spark.reading.batch import BatchReader, FilteringBatchReader

        options = self._checked_options(schema)
        _warn_of_misplaced_once(frozenset(self.options), "source")
        if "snapshot" in self.options:
            from drumlin.spark.state.reader import SnapshotReader

            return SnapshotReader(self.options, options.columns)
        options.check_batch()
        takes_filters = options.push_filters and pushdown.is_offered()
        kind = FilteringBatchReader if takes_filters else BatchReader
        return kind(options, Cluster(options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from drumlin.spark.reading.stream import StreamReader

        if "snapshot" in self.options:
            raise OptionError("option 'snapshot' does not go with a stream: a snapshot has an end")
        options = self._checked_options(schema)
        _warn_of_misplaced_once(frozenset(self.options), "source")
        options.check_stream()
        return StreamReader(options, Cluster(options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from drumlin.spark.writing.writers import BatchWriter

        if overwrite:
            raise OptionError(
                "save mode 'overwrite' is not supported, as records can only be appended to a "
                "topic: use mode('append'), and delete the topic's records first to replace them"
            )
        options = self._sink_options()
        return BatchWriter(options, options.columns(schema))

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,
        overwrite: bool,  # noqa: ARG002
    ) -> DataSourceStreamWriter:
        # In output mode `complete` Spark passes `overwrite`. As in Spark's Kafka sink, every batch
        # appends all rows of the result: a compacted topic keeps the last one of each key.
        from drumlin.spark.writing.writers import StreamWriter

        options = self._sink_options()
        return StreamWriter(options, options.columns(schema))

    def _parsed_options(self) -> SourceOptions:
        _check_given(self.options)
        if "snapshot" not in self.options:
            return SourceOptions.parse(self.options)
        from drumlin.spark.state.options import StateOptions

        return StateOptions.parse(self.options).source

    def _checked_options(self, schema: StructType) -> SourceOptions:
        """The options, with the columns of `schema`: `.schema(...)` selects columns, too.

        Raises:
            OptionError: `schema` has other columns or types, or contradicts the option `columns`.
        """
        options = self._parsed_options()
        if "transform" in self.options:  # `schema` is then that of the function's results
            from drumlin.spark.options.transform import Transform

            transform = Transform(self.options["transform"], schema.json())
            return dataclasses.replace(options, transform=transform)
        for field in schema.fields:
            _check_field(field)
        names = tuple(schema.fieldNames())
        if len(set(names)) < len(names) or not names:
            raise OptionError(
                f"a schema must name each column once, not {', '.join(names) or 'none'}"
            )
        if "columns" in self.options and names != options.columns:
            raise OptionError(
                f".schema(...) asks for {', '.join(names)}, the option 'columns' for "
                f"{', '.join(options.columns)}: leave out one of them"
            )
        return dataclasses.replace(options, columns=names)


@functools.cache
def _warn_once(names: frozenset[str]) -> None:
    warn_of_unknown(names)


@functools.cache
def _warn_of_misplaced_once(names: frozenset[str], direction: Direction) -> None:
    warn_of_misplaced(names, direction)


def _check_given(options: Mapping[str, str]) -> None:
    """
    Raises:
        OptionError: Spark passes no options, as for a table of CREATE TABLE.
    """
    if not options:
        raise OptionError(
            "no options have arrived: Spark passes the options of a table in a catalog to no data "
            "source in Python. Use CREATE TEMPORARY VIEW … USING drumlin OPTIONS (…) instead of a "
            "table, or name the options in the query: SELECT … FROM a_table WITH "
            "('kafka.bootstrap.servers' = '…', 'subscribe' = '…')"
        )


def _check_field(field: StructField) -> None:
    expected = _TYPES.get(field.name)
    if expected is None:
        raise OptionError(
            f"a topic has no column {field.name!r}; it has {', '.join(_TYPES)}: select some of "
            "them, and convert them by expressions on the DataFrame"
        )
    if field != StructField(field.name, expected, metadata=field.metadata):
        raise OptionError(
            f"column {field.name!r} is {expected.simpleString()}, not "
            f"{field.dataType.simpleString()}{'' if field.nullable else ' not null'}: convert it "
            "by an expression on the DataFrame"
        )
