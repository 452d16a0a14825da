"""`spark.readStream`: the long-lived reader on the driver that decides how far each batch goes.

Spark keeps one reader in a Python process for the life of a query. It journals the offsets that
the reader returns before it reads. All state that must survive is in that journal: after a restart
a new reader gets the journalled offsets back, and for the same range, tasks read the same records.
So a data loss must be found before offsets are returned (`Advance`). And Spark must get the same
answer about a batch every time it asks: for a stream joined with itself it asks twice.
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
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from drumlin.spark.options.offsets import (
    LATEST,
    OffsetLimit,
    TopicPartition,
    from_json,
    to_json,
    with_topic_ids,
    without_topic_ids,
)
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.options.ranges import rows_between
from drumlin.spark.planning.advance import Advance
from drumlin.spark.planning.cluster import Cluster
from drumlin.spark.planning.data_loss import RECREATED, report_data_loss
from drumlin.spark.planning.driver import limit_trigger, plan_tasks
from drumlin.spark.planning.group_progress import GroupProgress
from drumlin.spark.planning.known_logs import refetches
from drumlin.spark.planning.start_offsets import depends_on_the_moment, start_offsets
from drumlin.spark.reading.tasks import read_task

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
        self._advance = Advance(options, cluster)
        self._initial: Offsets | None = None
        self._first_batch: tuple[Offsets, Offsets] | None = None  # the empty one: start and end
        self._is_available_now = False
        self._admitted_at: float | None = None
        self._progress = GroupProgress(options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The start of a new query. The result never changes: Spark calls this more than once."""
        if self._initial is None:
            logs = self._cluster.partitions()
            self._advance.remember(logs)
            self._initial = start_offsets(self._cluster, self._starting, logs.keys())
            _logger.info("the query starts at %s", to_json(self._initial))
        return self._journalled(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        # Spark passes it back to `latestOffset` unless the trigger wants everything. Spark has no
        # limit with both a minimum and a maximum, so `latestOffset` takes them from the options.
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the query end at the current ends of the logs; Spark calls this on all sources."""
        self._is_available_now = True
        self._advance.fix_target()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch; `start` itself if there is none.

        Raises:
            DataLoss: records are missing, and `failOnDataLoss` is set. Nothing has been
                journalled.
        """
        form, topic_ids = without_topic_ids(start)
        begin = from_json(form)
        self._advance.recall(topic_ids)
        # Not in `commit`: Spark calls that one batch later, and for the last batch never.
        self._progress.report(begin, may_end=self._is_available_now)
        reach = self._advance.from_(begin)
        if self._must_journal_start(begin):
            self._first_batch = (begin, begin)
            return start
        end = reach.end
        if not isinstance(limit, ReadAllAvailable):
            if self._is_too_little(rows_between(reach.begin, end)):
                return start
            end = dict(limit_trigger(self._cluster, self._options, reach.begin, end))
        self._admitted_at = time.monotonic()
        return self._journalled(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The ends of the logs, from which Spark computes a query's lag."""
        return None if self._advance.latest is None else to_json(self._advance.latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        form, journalled_ids = without_topic_ids(end)
        begin, finish = from_json(without_topic_ids(start)[0]), from_json(form)
        if self._is_first_batch(begin, finish) or begin == finish:
            return []
        if self._advance.latest is None and begin == self._initial:
            begin = self._start_of_repeated(begin, finish)
        gone = begin.keys() - finish.keys()
        if gone:
            self._report_data_loss("partitions are gone", gone)
        recreated = set(refetches(begin, finish))
        if recreated:
            self._report_data_loss("topics were deleted and created again", recreated)
        if self._advance.latest is None and journalled_ids:
            finish = self._of_the_same_topics(finish, journalled_ids)
            recreated &= finish.keys()
        begin |= self._start_of_new((finish.keys() - begin.keys()) | recreated, finish)
        finish = {key: offset for key, offset in finish.items() if key in begin}
        if self._advance.latest is None and not self._options.fail_on_data_loss:
            finish = self._without_what_is_gone(begin, finish)
        topic_ids = self._advance.topic_ids
        return plan_tasks(self._cluster, self._options, begin, finish, topic_ids)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._options, partition.value)

    @property
    def _starts_at_end(self) -> bool:
        """Whether the start depends on when it is resolved."""
        strategy = self._options.no_match_is_latest
        return depends_on_the_moment(self._starting, no_match_is_latest=strategy)

    def _must_journal_start(self, begin: Offsets) -> bool:
        """Whether the first batch must be empty, and has not run yet.

        Spark journals only the ends of batches. If a query that starts at the end of the log died
        in its first batch, it would restart at a later end, and lose the records in between.
        An empty batch before the first record puts the start into the journal.
        """
        return self._first_batch is None and self._starts_at_end and begin == self._initial

    def _is_first_batch(self, begin: Offsets, finish: Offsets) -> bool:
        """Whether this is the empty first batch, perhaps repeated after the query died in it.

        Its end is in the journal. Its start is resolved again, and may lie after that end by now.
        """
        if self._must_journal_start(begin):
            self._first_batch = (begin, finish)
        return (begin, finish) == self._first_batch

    def _is_too_little(self, row_count: int) -> bool:
        """Whether to wait, as `minOffsetsPerTrigger` asks.

        It never waits longer than `maxTriggerDelay`, nor with the trigger availableNow.
        """
        smallest = self._options.min_offsets_per_trigger
        if smallest is None or self._is_available_now or self._admitted_at is None:
            return False
        waited_ms = (time.monotonic() - self._admitted_at) * 1000
        return row_count < smallest and waited_ms < self._options.max_trigger_delay_ms

    def _start_of_repeated(self, begin: Offsets, finish: Offsets) -> Offsets:
        """The start of the first batch, resolved again because the query died in that batch.

        Partitions added since then belong to the next batch. Retention may have removed records.
        """
        late = set(refetches(begin, finish))
        if late:
            self._report_data_loss("the records of the first batch are gone", late)
        return {key: min(begin[key], end) for key, end in finish.items() if key in begin}

    def _start_of_new(self, new: set[TopicPartition], finish: Offsets) -> Offsets:
        """The starts of partitions that are new since the last batch: their first records."""
        if not new:
            return {}
        missing = self._cluster.missing(new, self._advance.topic_ids)
        if missing:
            self._report_data_loss("new partitions are already gone", missing)
        start = self._cluster.earliest(new - missing)
        late = {key for key, offset in start.items() if offset > 0}
        if late:
            self._report_data_loss("new partitions have lost their first records", late)
        return {key: min(offset, finish[key]) for key, offset in start.items()}

    def _of_the_same_topics(self, finish: Offsets, topic_ids: dict[str, str]) -> Offsets:
        """The ends of a batch repeated after a restart, without topics that were recreated."""
        self._advance.recall(topic_ids)
        others = self._advance.others(topic_ids)
        if others:
            named = [f"{each} (of id {topic_ids[each]}, now {others[each]})" for each in others]
            report_data_loss(
                f"topics of a started batch were created again: {', '.join(sorted(named))}",
                fail=self._options.fail_on_data_loss,
                advice=RECREATED,
            )
        return {key: offset for key, offset in finish.items() if key.topic not in others}

    def _journalled(self, offsets: Offsets) -> dict[str, Any]:
        """The offsets in the form that Spark keeps in the checkpoint."""
        form = to_json(offsets)
        if not self._options.journals_topic_ids:
            return dict(form)
        return with_topic_ids(form, self._advance.topic_ids)

    def _without_what_is_gone(self, begin: Offsets, finish: Offsets) -> Offsets:
        """The ends of a batch repeated after a restart, without partitions that are lost."""
        requested = {key: offset for key, offset in finish.items() if offset > begin[key]}
        gone = self._cluster.missing(requested, self._advance.topic_ids) if requested else set()
        if gone:
            self._report_data_loss("partitions of a started batch are gone", gone)
        recreated = self._advance.recreated(
            {key: requested[key] for key in requested.keys() - gone}
        )
        if recreated:
            self._report_data_loss("topics of a started batch were created again", recreated)
        return {key: offset for key, offset in finish.items() if key not in gone | recreated}

    def _report_data_loss(self, what: str, partitions: set[TopicPartition]) -> None:
        names = ", ".join(str(key) for key in sorted(partitions))
        report_data_loss(f"{what}: {names}", fail=self._options.fail_on_data_loss)
