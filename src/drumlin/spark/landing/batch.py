"""Reading the records of one batch: a range of offsets in each partition of a topic."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from drumlin.spark.connection import client_of
from drumlin.spark.landing.targets.target import OtherTopic, Source
from drumlin.spark.mapping import map_batches
from drumlin.spark.options.client_rows import BOOTSTRAP
from drumlin.spark.options.source_rows import SUBSCRIBE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from drumlin.client.client import Client
    from drumlin.spark.landing.rows.rows import Rows
    from drumlin.spark.options.options import SourceOptions
    from drumlin.spark.options.transform import BatchFunction


class PlannedBatch:
    """A batch with fixed begin and end offsets. Nothing is read until the target calls a method."""

    def __init__(
        self,
        spark: SparkSession,
        parsed: SourceOptions,
        given: Mapping[str, str],
        source: Source,
        begin: Mapping[int, int],
        end: Mapping[int, int],
        rows: Rows,
        check: Callable[[], None],
        *,
        is_whole: bool,
    ) -> None:
        """
        Args:
            check: called once the batch is read; raises an error if it must not be committed.
        """
        self._spark, self._parsed, self._source = spark, parsed, source
        self._check = check
        self.rows, self.is_whole = rows, is_whole
        self._options = {
            **given,
            "startingoffsets": json.dumps({source.topic: dict(begin)}),
            "endingoffsets": json.dumps({source.topic: dict(end)}),
        }

    def map(self, function: BatchFunction, schema: str) -> DataFrame:
        options: dict[str, Any] = dict(self._options)
        topic, bootstrap = options.pop(SUBSCRIBE.key), options.pop(BOOTSTRAP.key)
        return map_batches(
            self._spark,
            topic,
            partial(_on_rows, self.rows, function),
            schema,
            bootstrap=bootstrap,
            columns=self.rows.read,
            **options,
        )

    def confirm(self) -> None:
        now = look_up(client_of(self._parsed), self._source.topic)
        if now.topic_id != self._source.topic_id:
            raise OtherTopic(
                f"topic {now.topic!r} was deleted and created again while it was read: its id was "
                f"{self._source.topic_id!r}, and is {now.topic_id!r}. Nothing of this batch was "
                "landed"
            )
        self._check()


def look_up(client: Client, topic: str) -> Source:
    """The current id and partitions of the topic with this name.

    Raises:
        UnknownTopic: there is no such topic.
    """
    client.refresh()
    found = client.describe_topics([topic])[topic]
    numbers = tuple(sorted(each.index for each in found.partitions))
    return Source(topic, found.topic_id or "", numbers)


def _on_rows(
    rows: Rows, function: BatchFunction, batches: Iterator[pa.RecordBatch]
) -> Iterable[pa.RecordBatch | pa.Table]:
    """In a worker: the results of `function` on the rows of a task's records."""
    return function(rows(batches))
