"""`spark.readStream`: the long-lived half on the driver that says how far the next batch goes.

Spark keeps one reader in a Python process for the life of a query and journals the offsets that
it answers. Everything that must survive is in that journal: after a restart a new reader gets
the journalled offsets back, and asked for the same range, tasks read the same records.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from drumlin.spark.cluster import Cluster
from drumlin.spark.data_loss import report_data_loss
from drumlin.spark.driver import plan_tasks
from drumlin.spark.offsets import LATEST, OffsetLimit, TopicPartition, from_json, to_json
from drumlin.spark.options import SourceOptions
from drumlin.spark.planning import limit_rows, rows_between
from drumlin.spark.tasks import read_task

if TYPE_CHECKING:
    import pyarrow as pa

_logger = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Admission control and planning of one streaming query."""

    def __init__(self, options: SourceOptions, cluster: Cluster) -> None:
        self._options = options
        self._cluster = cluster
        self._starting = options.starting or OffsetLimit(LATEST)
        self._initial: Offsets | None = None
        self._start_is_journalled = False
        self._latest: Offsets | None = None  # as last seen, whatever was admitted
        self._is_available_now = False
        self._admitted_at: float | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query starts. The same answer every time: Spark asks more than once."""
        if self._initial is None:
            partitions = self._cluster.partitions()
            self._initial = self._cluster.resolve(self._starting, "starting", partitions)
            _logger.info("the query starts at %s", to_json(self._initial))
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        # Spark hands it back to `latestOffset` unless the trigger wants everything. It knows no
        # limit that has both a minimum and a maximum: the options themselves have the numbers.
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._is_available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends; `start` itself if there is to be none."""
        begin = from_json(start)
        if self._latest is None or not self._is_available_now:
            self._latest = self._cluster.current_ends(expected=begin)
        if self._must_journal_start(begin):
            return start
        end = self._latest
        if not isinstance(limit, ReadAllAvailable):
            begin |= self._cluster.earliest(end.keys() - begin.keys())
            if self._is_too_little(rows_between(begin, end)):
                return start
            if self._options.max_offsets_per_trigger is not None:
                end = limit_rows(begin, end, self._options.max_offsets_per_trigger)
        self._admitted_at = time.monotonic()
        return to_json(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The ends of the logs, from which a query's progress tells how far it is behind."""
        return None if self._latest is None else to_json(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, finish = from_json(start), from_json(end)
        if self._must_journal_start(begin) or begin == finish:
            return []
        gone = begin.keys() - finish.keys()
        if gone:
            self._report_data_loss("partitions are gone", gone)
        begin |= self._start_of_new(finish.keys() - begin.keys())
        finish = {key: offset for key, offset in finish.items() if key in begin}
        return plan_tasks(self._cluster, self._options, begin, finish)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._options, partition.value)

    @property
    def _starts_at_end(self) -> bool:
        """Whether the start depends on when it is asked for."""
        if self._starting.is_timestamp:
            return self._options.no_match_is_latest
        return LATEST in self._starting.values()

    def _must_journal_start(self, begin: Offsets) -> bool:
        """Whether the first batch must be an empty one, or is that one.

        Spark journals only where batches end. If a query that starts at the end of the log died
        in its first batch, it would start again at a later end, and what came in between would
        be lost. An empty batch before the first record puts the start into the journal.

        A query that dies in that batch runs it again: it has the end of the batch from its
        journal, and asks anew for the start, which may well lie behind that end by then.
        """
        if self._start_is_journalled or not self._starts_at_end or begin != self._initial:
            return False
        self._start_is_journalled = True
        return True

    def _is_too_little(self, row_count: int) -> bool:
        """Whether `minOffsetsPerTrigger` asks to wait: never for long, and not for a last batch."""
        smallest = self._options.min_offsets_per_trigger
        if smallest is None or self._is_available_now or self._admitted_at is None:
            return False
        waited_ms = (time.monotonic() - self._admitted_at) * 1000
        return row_count < smallest and waited_ms < self._options.max_trigger_delay_ms

    def _start_of_new(self, new: set[TopicPartition]) -> Offsets:
        """Partitions that came up since the last batch are read from their first record on."""
        if not new:
            return {}
        there = new & self._cluster.partitions(expected=new)
        if there != new:
            self._report_data_loss("new partitions are gone already", new - there)
        start = self._cluster.earliest(there)
        late = {key for key, offset in start.items() if offset > 0}
        if late:
            self._report_data_loss("new partitions have lost their first records", late)
        return start

    def _report_data_loss(self, what: str, partitions: set[TopicPartition]) -> None:
        names = ", ".join(str(key) for key in sorted(partitions))
        report_data_loss(f"{what}: {names}", fail=self._options.fail_on_data_loss)
