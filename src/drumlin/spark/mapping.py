"""Runs a function on Arrow batches in the worker that has fetched them; Spark gets its results.

Spark converts every row of a source into its own form, one by one, which takes longer than
fetching and decoding it. A function that filters, parses or aggregates Arrow batches before that
saves most of a query's time.

A batch query is planned in the calling program and read by `mapInArrow`. A stream needs the data
source, which costs more per task; the function is passed to it as text.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from drumlin.client.other_names.deprecation import was_called
from drumlin.spark.old_names import takes_bootstrap_servers
from drumlin.spark.options.keyword_options import read_options, with_keywords
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.options.source_rows import COLUMNS_OPTION, TRANSFORM

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from drumlin.spark.options.transform import BatchFunction
    from drumlin.spark.reading.planned_tasks import Ranges


@takes_bootstrap_servers
def map_batches(
    spark: SparkSession,
    topic: str,
    function: BatchFunction,
    schema: StructType | str,
    *,
    bootstrap: str,
    stream: bool = False,
    columns: Sequence[str] | str | None = None,
    **options: object,
) -> DataFrame:
    """The results of `function` on a topic's records, as a DataFrame of a batch or a stream.

    The function runs once for each task, in the worker that reads the task's records: it is given
    an iterator of Arrow batches and yields batches (or tables) of its own. An aggregate that it
    computes covers one task only: let Spark combine those of all tasks. In a stream, it runs for
    each task of each micro-batch; the checkpoint holds the topic's offsets, as without a function,
    so the function may change from one start of the query to the next.

    Args:
        topic: a name, or several with commas between them.
        function: it gets the columns of `format("drumlin")`: `key` and `value` binary, `topic`
            string, `partition` int, `offset` long, `timestamp` in UTC with microseconds,
            `timestampType` int; and `headers`, a list of structs, on request.
        schema: the schema of the results, as a `StructType` or as DDL.
        bootstrap: some of the brokers, as `host:port,…`.
        stream: read the topic as a stream. A batch ends at the current end of the log.
        columns: which columns the function gets; others are not even decoded.
        options: those of `format("drumlin")`, those with dots as `**{"kafka.client.id": …}`.

    Returns:
        The rows that the function yields, with the columns of `schema`.

    Raises:
        OptionError: the options are invalid.
        TypeError: `schema` is not a schema.
    """
    given = read_options(topic, bootstrap, with_keywords(options, {COLUMNS_OPTION: columns}))
    parsed = SourceOptions.parse(given)
    if stream:
        parsed.check_stream()
        return _map_stream(spark, given, function, as_struct(schema))
    parsed.check_batch()
    struct = as_struct(schema)
    from drumlin.spark.planning.cluster import Cluster
    from drumlin.spark.reading.batch import BatchReader
    from drumlin.spark.reading.planned_tasks import run_each

    tasks = [each.value for each in BatchReader(parsed, Cluster(parsed)).partitions()]
    return run_each(spark, tasks, functools.partial(_run_task, parsed, function, struct), struct)


def map_stream(*arguments: Any, **keywords: Any) -> DataFrame:
    """The earlier name of `map_batches` with `stream=True`."""
    was_called("map_stream(…)", "map_batches(…, stream=True)")
    return map_batches(*arguments, stream=True, **keywords)


def _map_stream(
    spark: SparkSession, options: dict[str, str], function: BatchFunction, schema: StructType
) -> DataFrame:
    from drumlin.spark.options.transform import pickled_text

    source = options | {TRANSFORM.name: pickled_text(function)}
    return spark.readStream.format("drumlin").options(**source).schema(schema).load()


def as_struct(schema: StructType | str) -> StructType:
    """A schema that may be given as DDL.

    Raises:
        TypeError: the schema names no columns.
    """
    from pyspark.sql.types import StructType

    struct = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(struct, StructType):
        raise TypeError(f"expected a schema such as 'id int, name string', not {schema!r}")
    return struct


def _run_task(
    options: SourceOptions,
    function: BatchFunction,
    schema: StructType,
    ranges: Ranges,
) -> Iterator[pa.RecordBatch]:
    """The results on a task's records, in the worker that reads them."""
    from drumlin.spark.options.transform import results
    from drumlin.spark.reading.tasks import read_task

    yield from results(function, read_task(options, ranges), schema)
