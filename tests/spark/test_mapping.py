"""A function over Arrow batches, in the workers: the same results as Spark's own, of rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from drumlin.spark import configure, map_batches
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.transform import results
from spark.topics import Topic

# Spark's workers do not find the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

NewTopic = Callable[[int], Topic]

SUMS = "partition int, records long, bytes long"


def sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Records and bytes of a task, partition by partition."""
    for batch in batches:
        lengths = pc.binary_length(batch["value"]).cast(pa.int64())
        table = pa.table({"partition": batch["partition"], "bytes": lengths})
        grouped = table.group_by("partition").aggregate([([], "count_all"), ("bytes", "sum")])
        yield grouped.rename_columns({"count_all": "records", "bytes_sum": "bytes"})


def total(frame: DataFrame) -> list[tuple[Any, ...]]:
    grouped = frame.groupBy("partition").sum("records", "bytes")
    return sorted(tuple(row) for row in grouped.collect())


def wanted(topic: Topic) -> list[tuple[int, int, int]]:
    values = [(partition, value or b"") for partition, _, value, _, _ in topic.produced]
    return [
        (
            partition,
            sum(1 for each, _ in values if each == partition),
            sum(len(value) for each, value in values if each == partition),
        )
        for partition in sorted({each for each, _ in values})
    ]


@pytest.mark.spark
@pytest.mark.parametrize("options", [{}, {"minPartitions": 5, "failOnDataLoss": False}])
def test_a_batch(spark: SparkSession, new_topic: NewTopic, options: dict[str, Any]) -> None:
    topic = new_topic(3)
    topic.fill(500)
    columns = ["value", "partition"]
    frame = map_batches(
        spark,
        topic.name,
        sums,
        SUMS,
        bootstrap=topic.address,
        columns=columns,
        **options,
    )
    assert frame.schema == StructType.fromDDL(SUMS)
    assert total(frame) == wanted(topic)
    empty = new_topic(1)
    nothing = map_batches(spark, empty.name, sums, SUMS, bootstrap=topic.address)
    assert nothing.collect() == []


@pytest.mark.spark
def test_a_stream(spark: SparkSession, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic(2)

    def run() -> None:
        frame = map_batches(
            spark,
            topic.name,
            sums,
            SUMS,
            bootstrap=topic.address,
            stream=True,
            columns="value,partition",
            startingOffsets="earliest",
        )
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "sums"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination(60)

    for count in (100, 70):
        topic.fill(count)
        run()
    assert total(spark.read.parquet(str(tmp_path / "sums"))) == wanted(topic)


@pytest.mark.spark
def test_what_a_function_may_not_give(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    topic.fill(10)
    frame = map_batches(spark, topic.name, sums, "price long", bootstrap=topic.address)
    with pytest.raises(PySparkException, match="result lacks price; it has partition, records"):
        frame.collect()
    with pytest.raises(OptionError, match="payload is not a column"):
        map_batches(
            spark,
            topic.name,
            sums,
            SUMS,
            bootstrap=topic.address,
            columns=["payload"],
        )


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"startingOffset": "latest"}, "did you mean 'startingOffsets'"),
        ({"sinkId": "mine"}, r"'sinkId' \(only a sink has it\)"),
        ({"reducers": 7}, r"'reducers' \(only a state has it\)"),
        ({"subscribe": "u"}, "'subscribe' and the argument topic are one setting, and differ"),
        (
            {"kafka.bootstrap.servers": "127.0.0.1:8"},
            "the argument bootstrap are one setting, and differ",
        ),
        ({"Columns": "offset", "columns": "value"}, "'columns' is given twice"),
        ({"columns": "payload"}, "option 'columns': payload is not a column of a topic; there are"),
        ({"batchBytes": "much"}, "'batchBytes': expected a whole number, got 'much'"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_a_function_does_not_take(options: dict[str, Any], why: str, stream: bool) -> None:
    """Before anybody is asked: a misspelt name would be an option without effect."""
    with pytest.raises(OptionError, match=why):
        map_batches(nobody(), "t", sums, SUMS, bootstrap="127.0.0.1:9", stream=stream, **options)


def test_newer_options_of_kafka_are_ignored_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    options: dict[str, Any] = {"kafka.from.tomorrow": 1, "columns": "payload"}
    with pytest.raises(OptionError, match="payload is not a column"):
        map_batches(nobody(), "t", sums, SUMS, bootstrap="127.0.0.1:9", **options)
    assert "ignores an option it does not have: 'kafka.from.tomorrow'" in caplog.text


def nobody() -> Any:
    """In place of a session that is not to be used."""
    return None


def given(*made: Any) -> Callable[[Iterator[pa.RecordBatch]], Iterable[Any]]:
    return lambda _: iter(made)


def test_results_get_the_types_that_spark_was_told() -> None:
    schema = StructType.fromDDL("name string, size int")
    table = pa.table({"extra": [1], "size": [7], "name": pa.array(["x"], pa.large_string())})
    batch = table.to_batches()[0]
    found = list(results(given(table, batch), iter(()), schema))
    assert [each.to_pylist() for each in found] == [[{"name": "x", "size": 7}]] * 2
    assert {str(each.schema.field("size").type) for each in found} == {"int32"}
    with pytest.raises(ValueError, match="2147483648"):
        list(results(given(table.set_column(1, "size", [[2**31]])), iter(()), schema))
    with pytest.raises(TypeError, match="must yield Arrow batches or tables"):
        list(results(given([1]), iter(()), schema))


def test_settings_are_added_to_those_that_are_there() -> None:
    name = "spark.driver.extraJavaOptions"
    own = "-Xss4m -Darrow.enable_null_check_for_get=true"
    builder: Any = configure(SparkSession.Builder().config(name, own))
    flags = "-Darrow.enable_unsafe_memory_access=true"
    assert builder._options[name] == f"{own} {flags}"
    executor = builder._options["spark.executor.extraJavaOptions"]
    assert executor == f"{flags} -Darrow.enable_null_check_for_get=false"
    assert configure(builder)._options[name] == f"{own} {flags}"
    assert builder._options["spark.python.unix.domain.socket.enabled"] == "true"
    batch_bytes = "spark.sql.execution.arrow.maxBytesPerBatch"
    assert builder._options[batch_bytes] == str(8 << 20)
    assert configure(builder.config(batch_bytes, "1m"))._options[batch_bytes] == "1m"
