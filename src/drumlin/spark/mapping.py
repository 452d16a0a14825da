"""Runs a function on Arrow batches in the worker that has fetched them; Spark sees its results.

Spark converts every row of a source into its own form, one by one, which takes longer than
fetching and decoding it. A function over Arrow batches that filters, parses or aggregates before
that saves most of a query's time.

A batch query is planned in the calling program and read by `mapInArrow`. A stream needs the data
source, which costs more per task, and passes the function to it as text.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from drumlin.spark.options.keyword_options import as_text
from drumlin.spark.options.option_names import warn_of_unknown
from drumlin.spark.options.options import SourceOptions

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from drumlin.spark.options.transform import BatchFunction
    from drumlin.spark.reading.planned_tasks import Ranges


def map_batches(
    spark: SparkSession,
    topic: str,
    function: BatchFunction,
    schema: StructType | str,
    *,
    bootstrap_servers: str,
    **options: object,
) -> DataFrame:
    """The results of `function` on a topic's records, as a DataFrame.

    The function runs once for each task, in the worker that reads the task's records: it is given
    an iterator of Arrow batches and yields batches (or tables) of its own. An aggregate that it
    computes covers one task only: let Spark combine those of all tasks.

    Args:
        topic: a name, or several with commas between them.
        schema: of the function's results, as a `StructType` or as DDL.
        options: those of `format("drumlin")`; `columns` may be a sequence of names.

    Raises:
        OptionError: the options are invalid.
    """
    from drumlin.spark.planning.cluster import Cluster
    from drumlin.spark.reading.batch import BatchReader
    from drumlin.spark.reading.planned_tasks import run_each

    given = as_text(topic, bootstrap_servers, options)
    warn_of_unknown(given)
    parsed = SourceOptions.parse(given)
    parsed.check_batch()
    tasks = [each.value for each in BatchReader(parsed, Cluster(parsed)).partitions()]
    struct = as_struct(schema)
    return run_each(spark, tasks, functools.partial(_run_task, parsed, function, struct), struct)


def map_stream(
    spark: SparkSession,
    topic: str,
    function: BatchFunction,
    schema: StructType | str,
    *,
    bootstrap_servers: str,
    **options: object,
) -> DataFrame:
    """Like `map_batches`, for a stream: the function runs once for each task of a micro-batch.

    The checkpoint holds the topic's offsets, as without a function. So the function may change
    from one start of the query to the next.
    """
    from drumlin.spark.options.transform import pickled_text

    source = as_text(topic, bootstrap_servers, options) | {"transform": pickled_text(function)}
    reader = spark.readStream.format("drumlin").options(**source)
    return reader.schema(as_struct(schema)).load()


def as_struct(schema: StructType | str) -> StructType:
    """A schema that may be given as DDL.

    Raises:
        TypeError: it names no columns.
    """
    from pyspark.sql.types import StructType

    struct = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(struct, StructType):
        raise TypeError(f"a schema names columns and their types, as 'id int': {schema!r}")
    return struct


def _run_task(
    options: SourceOptions,
    function: BatchFunction,
    schema: StructType,
    ranges: Ranges,
) -> Iterator[pa.RecordBatch]:
    """What a worker does."""
    from drumlin.spark.options.transform import results
    from drumlin.spark.reading.tasks import read_task

    yield from results(function, read_task(options, ranges), schema)
