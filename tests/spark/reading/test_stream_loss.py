"""What a streaming query says when topics and records go before it has read them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark.pipeline import NewTopic, Pipeline

pytestmark = pytest.mark.spark


@pytest.mark.deep
def test_a_deleted_topic(spark: SparkSession, new_topic: NewTopic, tmp_path: Path) -> None:
    stays, goes = new_topic(1), new_topic(1)
    for topic in (stays, goes):
        topic.fill(10)
    pipeline = Pipeline(spark, tmp_path, stays, subscribe=f"{stays.name},{goes.name}")
    pipeline.run()
    goes.delete()
    stays.fill(10)
    with pytest.raises(StreamingQueryException, match=f"metadata lacks partitions: {goes.name}-0"):
        pipeline.run()
    pipeline.options["failOnDataLoss"] = "false"
    pipeline.run()
    assert len(pipeline.written()) == 30


@pytest.mark.deep
def test_records_that_went_before_they_were_read(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1)
    topic.fill(10)
    pipeline = Pipeline(spark, tmp_path, topic)
    pipeline.run()
    topic.fill(20)
    topic.delete_records_before(0, 15)
    with pytest.raises(StreamingQueryException, match="failOnDataLoss"):
        pipeline.run()
    pipeline.options["failOnDataLoss"] = "false"
    pipeline.run()
    assert pipeline.written() == [row for row in topic.expected() if not 10 <= row[1] < 15]
