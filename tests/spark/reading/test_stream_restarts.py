"""A streaming query that dies and starts again: nothing is lost and nothing comes twice."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from rig.waiting import wait_until
from spark.pipeline import CONTINUALLY, NewTopic, Pipeline
from spark.topics import rows

pytestmark = pytest.mark.spark


@pytest.mark.deep
def test_a_query_that_is_killed_over_and_over(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    pipeline = Pipeline(spark, tmp_path, topic, maxOffsetsPerTrigger=300)

    def fill() -> None:
        for _ in range(18):
            topic.fill(100)

    filler = threading.Thread(target=fill)
    filler.start()
    for wanted in (2, 4):
        query = pipeline.start(CONTINUALLY)
        has_begun = partial(pipeline.has_begun, wanted)
        wait_until(has_begun, f"batch {wanted} to be begun")
        query.stop()  # in the middle of whatever it is doing
    filler.join()
    pipeline.run()
    assert pipeline.written() == topic.expected()


def test_a_batch_that_failed_is_read_again_just_as_it_was(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    topic.fill(200)
    seen: list[list[tuple[Any, ...]]] = []

    def fail_once(batch: DataFrame, batch_id: int) -> None:
        seen.append(rows(batch))
        if len(seen) == 2:
            raise RuntimeError("as if the driver had died")

    def run() -> None:
        stream = spark.readStream.format("drumlin").options(
            **topic.options(startingOffsets="earliest", maxOffsetsPerTrigger=80)
        )
        query = stream.load().writeStream.foreachBatch(fail_once).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path)).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="as if the driver had died"):
        run()
    topic.fill(300)
    run()
    assert seen[1] == seen[2]
    assert sorted(row for batch in seen[:1] + seen[2:] for row in batch) == topic.expected()


@pytest.mark.deep
def test_a_start_at_the_end_is_not_forgotten(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    topic.fill(10)
    pipeline = Pipeline(spark, tmp_path, topic, startingOffsets="latest")
    pipeline.run()
    (tmp_path / "checkpoint" / "commits" / "0").unlink()  # as if it had died in its first batch
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink()
    topic.fill(20)
    pipeline.run()
    topic.fill(5)
    pipeline.run()
    assert pipeline.written() == topic.expected()[10:]
