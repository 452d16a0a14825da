"""`spark.read`: one look at where the partitions begin and end, then tasks over what is between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from drumlin.spark.cluster import Cluster
from drumlin.spark.driver import plan_tasks
from drumlin.spark.options import SourceOptions
from drumlin.spark.tasks import read_task

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Plans on the driver, reads in the tasks; Spark pickles it on the way."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        cluster = Cluster(self._options)
        starting, ending = self._options.batch_limits()
        partitions = cluster.partitions()
        start = cluster.resolve(starting, "starting", partitions)
        end = cluster.resolve(ending, "ending", partitions)
        return plan_tasks(cluster, self._options, start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # how Spark says that there are no partitions at all
            return iter(())
        return read_task(self._options, partition.value)
