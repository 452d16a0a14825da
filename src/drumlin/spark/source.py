"""The data source `drumlin`: what `spark.read` and `spark.readStream` reach by that name.

PySpark imports this module in every session that looks for data sources, so it must stay light:
everything that needs pyarrow or a broker is imported where it is used.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from drumlin.spark.cluster import Cluster
from drumlin.spark.option_names import warn_of_unknown
from drumlin.spark.option_values import OptionError
from drumlin.spark.options import SourceOptions


def spark_schema(*, include_headers: bool) -> StructType:
    """The columns of Spark's Kafka source."""
    schema = (
        StructType()
        .add("key", BinaryType())
        .add("value", BinaryType())
        .add("topic", StringType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
        .add("timestampType", IntegerType())
    )
    if include_headers:
        header = StructType().add("key", StringType()).add("value", BinaryType())
        schema = schema.add("headers", ArrayType(header))
    return schema


class DrumlinDataSource(DataSource):
    """`format("drumlin")`: topics of Drumlin, or of any Kafka cluster, as DataFrames."""

    @classmethod
    def name(cls) -> str:
        return "drumlin"

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        warn_of_unknown(options)  # here, as Spark makes a source once for each load()

    def schema(self) -> StructType:
        return spark_schema(include_headers=SourceOptions.parse(self.options).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        from drumlin.spark.batch import BatchReader

        options = self._checked_options(schema)
        options.check_batch()
        return BatchReader(options, Cluster(options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from drumlin.spark.stream import StreamReader

        options = self._checked_options(schema)
        options.check_stream()
        return StreamReader(options, Cluster(options))

    def _checked_options(self, schema: StructType) -> SourceOptions:
        options = SourceOptions.parse(self.options)
        if schema != spark_schema(include_headers=options.include_headers):
            raise OptionError("the columns of a topic are fixed: leave out .schema(...)")
        return options
