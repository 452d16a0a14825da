"""`spark.read`: looks up once where the partitions start and end, and plans tasks for these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from drumlin.spark.options.offsets import LATEST, TopicPartition
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.planning.cluster import Cluster
from drumlin.spark.planning.driver import plan_tasks, within_logs
from drumlin.spark.planning.pushdown import Bounds, take_filters
from drumlin.spark.planning.start_offsets import start_offsets
from drumlin.spark.reading.tasks import read_task

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """The reader of a batch query: plans on the driver, reads in the tasks. Spark pickles it."""

    def __init__(self, options: SourceOptions, cluster: Cluster) -> None:
        self._options = options
        self._cluster = cluster
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        cluster = self._cluster
        starting, ending = self._options.batch_limits()
        logs = cluster.partitions()
        start = start_offsets(cluster, starting, logs.keys())
        end = cluster.resolve(ending, "ending", logs.keys())
        if ending.value != LATEST:
            _check_order(start, end)
        if isinstance(ending.value, Mapping) and not ending.is_timestamp:
            fail = self._options.fail_on_data_loss
            end = within_logs(cluster, end, fail_on_data_loss=fail)
        since = cluster.since(self._bounds.since_ms, start) if self._bounds.since_ms else {}
        requested_start, requested_end = self._bounds.cut(start, end, since)
        topic_ids = {key.topic: log.topic_id for key, log in logs.items()}
        return plan_tasks(cluster, self._options, requested_start, requested_end, topic_ids)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # how Spark says that there are no partitions at all
            return iter(())
        return read_task(self._options, partition.value)


class FilteringBatchReader(BatchReader):
    """Accepts a query's filters; PySpark refuses such a reader unless pushdown is switched on."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        if self._options.transform is not None:  # these are filters on the function's results
            return filters
        self._bounds, left = take_filters(filters)
        return left


def _check_order(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> None:
    """
    Raises:
        OptionError: the options end a partition before they start it. That is not a data loss.
    """
    for key, end_offset in sorted(end.items()):
        if start[key] > end_offset:
            raise OptionError(
                f"{key} would start at offset {start[key]}, after its end {end_offset}: "
                "the starting options name a later place than the ending options"
            )
