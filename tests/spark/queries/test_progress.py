"""A query's progress: from Spark's report, with the ends of now, and for Prometheus."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from drumlin.spark import progress, progress_listener
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.queries.query_progress import PartitionProgress, progress_of
from rig.ports import free_ports
from rig.waiting import wait_until
from spark.pipeline import Pipeline
from spark.topics import Topic

NewTopic = Callable[[int], Topic]


def report(batch: int = 3, name: str | None = "flights", **sources: Any) -> StreamingQueryProgress:
    """What Spark reports: one source of topics, and one that counts."""
    topics = {
        "description": "org.apache.spark...PythonMicroBatchStreamWithTriggerAvailableNow@1",
        "startOffset": {"a": {"0": 10, "1": 5}, "b": {"0": 0}},
        "endOffset": {"a": {"0": 30, "1": 5}, "b": {"0": 10}, "topic ids": {"a": "x"}},
        "latestOffset": {"a": {"0": 50, "1": 5}, "b": {"0": 11}},
        "numInputRows": 28,
        "inputRowsPerSecond": 7.0,
        "processedRowsPerSecond": 14.0,
    } | sources
    rate = topics | {"startOffset": 1, "endOffset": 2, "latestOffset": 2}
    return StreamingQueryProgress.fromJson(
        {
            "id": "8a3e1a52-0000-4000-8000-000000000001",
            "runId": "8a3e1a52-0000-4000-8000-000000000002",
            "name": name,
            "timestamp": "2026-11-30T07:00:00.500Z",
            "batchId": batch,
            "batchDuration": 2000,
            "durationMs": {},
            "stateOperators": [],
            "sources": [rate, topics],
            "sink": {"description": "s", "numOutputRows": 28},
            "numInputRows": 56,
            "inputRowsPerSecond": 14.0,
            "processedRowsPerSecond": 28.0,
        }
    )


def test_what_spark_reports_by_topic_and_partition() -> None:
    found = progress_of(report())
    assert (found.name, found.batch_id, found.behind, found.rows_per_s) == ("flights", 3, 21, 14.0)
    assert found.partitions == (
        PartitionProgress(1, "a", 0, 10, 30, 50),
        PartitionProgress(1, "a", 1, 5, 5, 5),
        PartitionProgress(1, "b", 0, 0, 10, 11),
    )
    assert found.by_topic() == {"a": (20, 20, 10.0), "b": (1, 10, 5.0)}


def test_what_is_not_known_is_not_made_up() -> None:
    found = progress_of(report(startOffset=None, latestOffset=None, inputRowsPerSecond=None))
    assert found.behind is None
    assert found.by_topic()["a"] == (None, None, None)
    found = progress_of(report(startOffset={"a": {"0": 35}}))  # of a log that was created again
    assert [each.offsets for each in found.partitions] == [0, None, None]
    for other in ("7", '"text"', "{}", '{"logOffset":3}', '{"a":{"0":"x"}}', "not JSON"):
        reported = report()
        reported["sources"][1]["endOffset"] = other
        assert progress_of(reported).partitions == ()


def test_prometheus_finds_it_while_the_query_runs(tmp_path: Path) -> None:
    address, file = f"127.0.0.1:{free_ports(1)[0]}", tmp_path / "queries.prom"
    served, written = (
        progress_listener(metrics_listener=address),
        progress_listener(metrics_file=file),
    )
    for listener in (served, written):
        for batch in (3, 4):
            listener.onQueryProgress(SimpleNamespace(progress=report(batch)))  # type: ignore[arg-type]
    with urllib.request.urlopen(f"http://{address}/metrics") as answer:
        found = answer.read().decode()
    assert found == file.read_text()
    source = 'query="flights",source="1"'
    assert 'drumlin_query_batches_total{query="flights"} 2.0' in found
    assert f"drumlin_query_rows_total{{{source}}} 56.0" in found
    assert f"drumlin_query_rows_per_second{{{source}}} 14.0" in found
    assert f'drumlin_query_offsets_total{{{source},topic="a"}} 40.0' in found
    assert f'drumlin_query_lag_offsets{{partition="0",{source},topic="a"}} 20.0' in found
    assert f'drumlin_query_position_offset{{partition="0",{source},topic="b"}} 10.0' in found
    assert 'drumlin_query_batch_duration_seconds{query="flights"} 2.0' in found
    written.onQueryTerminated(SimpleNamespace(runId=report().runId))  # type: ignore[arg-type]
    assert "flights" not in file.read_text()
    served.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://{address}/metrics")


def test_a_listener_says_what_it_cannot_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for given in ({}, {"metrics_listener": "127.0.0.1:0", "metrics_file": tmp_path / "m"}):
        with pytest.raises(ValueError, match="exactly one of"):
            progress_listener(**given)  # type: ignore[arg-type]
    listener = progress_listener(metrics_file=tmp_path / "not there" / "m")
    listener.onQueryProgress(SimpleNamespace(progress=report()))  # type: ignore[arg-type]
    assert [each.getMessage()[:29] for each in caplog.records] == ["metrics cannot be written to "]


def test_the_ends_of_now(new_topic: NewTopic) -> None:
    topic = new_topic(2)
    topic.fill(40)
    offsets = {topic.name: {"0": 5, "1": 20}}
    query = SimpleNamespace(lastProgress=report(endOffset=offsets, latestOffset=offsets))
    then, now = progress(query), progress(query, bootstrap=topic.address)
    assert then is not None
    assert now is not None
    assert (then.behind, now.behind) == (0, 15)
    with pytest.raises(OptionError, match="options without `bootstrap`: columns"):
        progress(query, columns="key")
    assert progress(SimpleNamespace(lastProgress=None)) is None


@pytest.mark.spark
@pytest.mark.deep
def test_a_query_and_its_listener(spark: SparkSession, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic(2)
    topic.fill(100)
    file = tmp_path / "queries.prom"
    listener = progress_listener(metrics_file=file)
    spark.streams.addListener(listener)
    pipeline = Pipeline(spark, tmp_path, topic, maxOffsetsPerTrigger=40)
    query = pipeline.start({"processingTime": "50 milliseconds"})
    try:
        query.processAllAvailable()
        labels = f'query="{query.id}",source="0",topic="{topic.name}"'
        wait_until(
            lambda: f"offsets_total{{{labels}}} 60.0" in file.read_text(), "batches to be counted"
        )
        assert f'position_offset{{partition="1",{labels}}} 50.0' in file.read_text()
        found = progress(query)
        assert found is not None
        assert (found.behind, json.loads(query.lastProgress.sources[0].endOffset)) == (
            0,
            {topic.name: {"0": 50, "1": 50}},
        )
    finally:
        query.stop()
    wait_until(lambda: topic.name not in file.read_text(), "the query's metrics to go")
    spark.streams.removeListener(listener)
