"""A streaming query from a topic into files, as the tests of streams run it again and again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark.topics import Topic, rows

NewTopic = Callable[[int], Topic]
Trigger = dict[str, Any]

AVAILABLE_NOW: Trigger = {"availableNow": True}
CONTINUALLY: Trigger = {"processingTime": "50 milliseconds"}


class Pipeline:
    """A streaming query from a topic into Parquet files, which can be started again and again."""

    def __init__(self, spark: SparkSession, folder: Path, topic: Topic, **options: object) -> None:
        self._spark = spark
        self.options = topic.options(startingOffsets="earliest") | {
            name: str(value) for name, value in options.items()
        }
        self.output, self.checkpoint = folder / "output", folder / "checkpoint"

    def start(self, trigger: Trigger) -> StreamingQuery:
        stream = self._spark.readStream.format("drumlin").options(**self.options).load()
        return (
            stream.writeStream.format("parquet")
            .option("path", str(self.output))
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(**trigger)
            .start()
        )

    def run(self) -> StreamingQuery:
        """All that is there now."""
        query = self.start(AVAILABLE_NOW)
        query.awaitTermination()
        return query

    def written(self) -> list[tuple[Any, ...]]:
        return rows(self._spark.read.parquet(str(self.output)))

    def has_begun(self, batches: int) -> bool:
        return len(self.journal()) >= batches

    def journal(self) -> list[dict[str, dict[str, int]]]:
        """The offsets of every batch in the checkpoint."""
        entries = sorted((self.checkpoint / "offsets").glob("[0-9]*"), key=lambda x: int(x.name))
        return [json.loads(entry.read_text().splitlines()[-1]) for entry in entries]
