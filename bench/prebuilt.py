"""A Spark source that has its Arrow batches ready: what Spark itself takes, and nothing else.

It hands over batches of the shape and size of Drumlin's source, in as many tasks, but fetches
and decodes nothing. No source in Python can be read faster with the same query.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from drumlin.client.read.reader import FETCH_BYTES
from drumlin.spark.options.offsets import TopicPartition
from drumlin.spark.options.ranges import PlannedRange
from drumlin.spark.options.source_rows import COLUMNS
from drumlin.spark.planning.density import Density, split_by_bytes
from drumlin.spark.reading.columns import arrow_schema
from drumlin.spark.source import spark_schema

_TOPIC = "prebuilt"


class PrebuiltSource(DataSource):
    """`format("prebuilt")`; the option `subscribe` is "RECORDSxBYTES"."""

    @classmethod
    def name(cls) -> str:
        return _TOPIC

    def schema(self) -> StructType:
        return spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(*self._size())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _StreamReader(*self._size(), int(self.options["maxOffsetsPerTrigger"]))

    def _size(self) -> tuple[int, int]:
        records, record_bytes = map(int, self.options["subscribe"].split("x"))
        return records, record_bytes


class _Reader(DataSourceReader):
    def __init__(self, records: int, record_bytes: int) -> None:
        self._records = records
        self._record_bytes = record_bytes

    def partitions(self) -> Sequence[InputPartition]:
        everything = PlannedRange(_TOPIC, 0, 0, self._records)
        density = {TopicPartition(_TOPIC, 0): Density.mean(self._record_bytes)}
        return [InputPartition(each) for each in split_by_bytes([everything], density)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = _batch(self._record_bytes)
        wanted = partition.value.size
        for start in range(0, wanted, batch.num_rows):
            yield batch.slice(0, min(batch.num_rows, wanted - start))


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches of one task each, of which the driver knows everything without a question."""

    def __init__(self, records: int, record_bytes: int, rows_per_batch: int) -> None:
        self._records = records
        self._record_bytes = record_bytes
        self._rows_per_batch = rows_per_batch

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"offset": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The end is known."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"offset": min(self._records, start["offset"] + self._rows_per_batch)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(end["offset"] - start["offset"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield _batch(self._record_bytes).slice(0, partition.value)


@functools.cache
def _batch(record_bytes: int) -> pa.RecordBatch:
    """The records of one fetch; built once in a worker process."""
    rows = FETCH_BYTES // record_bytes
    zeros = np.zeros(rows, np.int32)
    numbers = np.arange(rows, dtype=np.int64)
    schema = arrow_schema(COLUMNS)
    timestamp = schema.field("timestamp").type
    columns = [
        pa.nulls(rows, pa.binary()),
        pa.array([b"v" * record_bytes] * rows, pa.binary()),
        pa.array([_TOPIC] * rows, pa.string()),
        pa.array(zeros),
        pa.array(numbers),
        pa.array(numbers).cast(timestamp),
        pa.array(zeros),
    ]
    gc.collect()
    gc.freeze()  # as Drumlin's source: Spark collects garbage after every task
    return pa.RecordBatch.from_arrays(columns, schema=schema)
