"""One topic and its target: plans and lands batch after batch, from the target's position.

The target holds all state that matters: whatever else a run keeps makes it quicker, or is for
display.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from drumlin.serving.targets import without_password
from drumlin.spark.landing.ranges import batch_end, begin_of, may_lack_deletions, missing
from drumlin.spark.landing.rows.mode import TOPIC, Mode
from drumlin.spark.landing.targets.target import (
    NOTHING,
    Added,
    Position,
    RecordsLost,
    Source,
    Target,
    check_topic,
)
from drumlin.spark.landing.targets.urls import open_target
from drumlin.spark.landing.wanted import Wanted
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.values.bad_records import BadRecord

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import SparkSession

    from drumlin.client.client import Client
    from drumlin.spark.landing.rows.rows import Rows
    from drumlin.spark.planning.group_progress import GroupProgress

#: The fraction of delete.retention.ms after which a target without new records gets a commit that
#: stores the time.
_TOLD_AFTER: Final = 0.25
GROUP: Final = "commitoffsetstogroup"


class Landing(NamedTuple):
    """The progress of one topic."""

    topic: str
    topic_id: str
    to: str
    mode: Mode
    #: The number of offsets that this run has landed; a compacted log has fewer records.
    offsets: int
    batches: int
    #: The number of rows that this run has added or changed, and their size as files or as sent.
    rows: int
    size_bytes: int
    #: By partition: the first offset that the target does not hold, and the log's end offset.
    position: dict[int, int]
    ends: dict[int, int]

    @property
    def lag(self) -> int:
        """The number of offsets that the target is behind."""
        return sum(max(end - self.position.get(each, 0), 0) for each, end in self.ends.items())


class Run:
    """One topic and its target."""

    def __init__(
        self, spark: SparkSession | None, topic: str, wanted: Wanted, options: dict[str, str]
    ) -> None:
        """
        Raises:
            ValueError: the target does not support this mode, or another option.
            UnknownTopic: there is no such topic.
        """
        from drumlin.spark.connection import client_of
        from drumlin.spark.planning.group_progress import GroupProgress

        self._spark, self._topic, self._wanted = spark, topic, wanted
        self._parsed = SourceOptions.parse(options)
        self._options = {name: each for name, each in options.items() if name != GROUP}
        self._client: Client = client_of(self._parsed)
        self._progress: GroupProgress = GroupProgress(self._parsed)
        self._mode: Mode = wanted.mode or _mode_of(self._client, topic)
        if wanted.rebuild and self._mode == "append":
            raise ValueError(
                f"rebuild: only an upserted target is what the log is now, and {topic!r} is "
                "appended: what the log has lost would be lost there as well"
            )
        self._to = without_password(wanted.to.replace(TOPIC, topic))
        self._target: Target = open_target(
            wanted.to,
            topic,
            self._mode,
            wanted.partition_by,
            wanted.s3,
            only_looks=spark is None,
        )
        self._is_rebuilt = not wanted.rebuild
        self._offsets = self._batches = 0
        self._has_begun = False
        self._added = NOTHING
        #: The last time at which this run found the target at the log's end.
        self._at_end_ms: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._target.close()

    @property
    def batches(self) -> int:
        """The number of batches that this run has landed."""
        return self._batches

    @property
    def has_begun(self) -> bool:
        """Whether this run has already reached the brokers, the target and a registry."""
        return self._has_begun

    def round(self, stop: threading.Event, on_progress: Callable[[Landing], None]) -> None:
        """Land, batch by batch, all records that are committed when the round begins."""
        until: dict[int, int] | None = None
        asked_ms = _now_ms()
        rows = self._rows()
        before = self._batches
        while not stop.is_set():
            source, held = self._looked_up()
            if until is None:
                self._target.complete()
                until = self._ends()
            end: dict[int, int] | None
            if not self._is_rebuilt and held.offsets:
                end = self._rebuild(source, held, until, rows)
            else:
                end = self._next(source, held, until, rows, asked_ms)
            self._is_rebuilt = True
            if end is None:
                break
            self._batches += 1
            self._report_to_group(end, may_end=False)
            on_progress(self._landing(source, end, until))
        _, held = self._looked_up()
        self._report_to_group(held.offsets, may_end=True)
        if self._wanted.compact and self._batches > before:
            self._target.compact()

    def _next(
        self,
        source: Source,
        held: Position,
        until: Mapping[int, int],
        rows: Rows,
        asked_ms: int,
    ) -> dict[int, int] | None:
        """Land the next batch; returns its end offsets, or None if nothing is left to land."""
        begin = self._begin(held.offsets)
        # A partition created since then is left to the next round.
        begin = {each: offset for each, offset in begin.items() if each in until}
        end = batch_end(begin, until, self._wanted.batch_offsets)
        at_end_ms = self._at_end(held, asked_ms)
        if end == begin:
            self._at_end_ms = asked_ms
            if self._is_time_due(held, asked_ms):
                self._add(source, begin, end, asked_ms, rows, lambda: None)
            return None
        self._check_deletions(at_end_ms)
        reached_ms = asked_ms if end == until else at_end_ms
        # Checked again after reading, as a cleaner may run meanwhile.
        check = partial(self._check_deletions, at_end_ms)
        self._add(source, begin, end, reached_ms, rows, check)
        return end

    def _rebuild(
        self, source: Source, held: Position, until: Mapping[int, int], rows: Rows
    ) -> dict[int, int]:
        """Replace the target's rows with the state of the log, in one batch; its end offsets.

        Raises:
            RecordsLost: the log has lost its end; or reading took so long that tombstones may
                have been removed before they were read.
        """
        self._check_end(held.offsets)
        asked_ms = _now_ms()
        begin = self._client.offsets(self._topic, "earliest")
        begin = {each: offset for each, offset in begin.items() if each in until}
        # The end of committed records may go back, as a new leader learns the high watermark late.
        least = {each: max(offset, held.offsets.get(each, 0)) for each, offset in begin.items()}
        end = {each: max(until[each], least[each]) for each in begin}
        check = partial(self._check_deletions, asked_ms)
        self._add(source, begin, end, asked_ms, rows, check, is_whole=True)
        return end

    def _rows(self) -> Rows:
        """The conversion of records to rows, with the latest schema of the values.

        Raises:
            SchemaError, RegistryError, DecoderUnavailable, ValueError: from making the decoder.
        """
        from drumlin.spark.landing.rows.rows import Rows

        return Rows.of(self._mode, self._wanted.values, self._topic)

    def tell(self) -> Landing:
        """The topic's current progress."""
        source, held = self._looked_up()
        return self._landing(source, held.offsets, self._ends())

    def _add(
        self,
        source: Source,
        begin: dict[int, int],
        end: dict[int, int],
        at_end_ms: int | None,
        rows: Rows,
        check: Callable[[], None],
        *,
        is_whole: bool = False,
    ) -> None:
        from drumlin.spark.landing.batch import PlannedBatch

        assert self._spark is not None
        batch = PlannedBatch(
            self._spark,
            self._parsed,
            self._options,
            source,
            begin,
            end,
            rows,
            check,
            is_whole=is_whole,
        )
        position = Position(source.topic, source.topic_id, end, at_end_ms)
        with _naming_bad_records(source.topic):
            added = self._target.add(batch, position)
        self._added = Added(*map(sum, zip(self._added, added, strict=True)))
        self._offsets += sum(end.values()) - sum(begin.values())

    def _at_end(self, held: Position, asked_ms: int) -> int | None:
        """The last time at which the target was at the log's end; None: unknown.

        No tombstone that was written before this time was missed. Before the first batch it is
        the time of the request for end offsets.
        """
        if not held.offsets:
            return asked_ms
        return max((each for each in (held.at_end_ms, self._at_end_ms) if each), default=None)

    def _is_time_due(self, held: Position, asked_ms: int) -> bool:
        """Whether the target's time at the log's end is so old that it must be committed again."""
        retention_ms = self._deletions_stay_ms()
        if retention_ms is None or not held.offsets:
            return False
        return asked_ms - (held.at_end_ms or 0) > retention_ms * _TOLD_AFTER

    def _check_deletions(self, at_end_ms: int | None) -> None:
        """
        Raises:
            RecordsLost: tombstones may have been removed before they landed.
        """
        retention_ms = self._deletions_stay_ms()
        if retention_ms is None or not self._parsed.fail_on_data_loss:
            return
        if may_lack_deletions(at_end_ms, _now_ms(), retention_ms):
            raise RecordsLost(
                f"{self._to} was last at the end of {self._topic} too long ago: tombstones stay "
                f"for delete.retention.ms={retention_ms}, and some may be gone that it has not "
                "seen, so that it would keep what they delete. Nothing was landed. Land with "
                "--rebuild (rebuild=True) now, which reads all of the log, and more often than "
                "that from then on. failOnDataLoss=false goes on as it is"
            )

    def _deletions_stay_ms(self) -> int | None:
        """The time that the cleaner keeps tombstones; None: forever, or they do not matter."""
        if self._mode == "append":
            return None
        configs = self._client.topic_configs(self._topic)
        if not _is_compacted(configs):
            return None
        return int(configs["delete.retention.ms"].value or 0)

    def _looked_up(self) -> tuple[Source, Position]:
        """The topic, and the target's position in it.

        Raises:
            OtherTopic: the target belongs to another topic.
        """
        from drumlin.spark.landing.batch import look_up

        source = look_up(self._client, self._topic)
        held = self._target.position(source.partitions)
        self._has_begun = True
        if held is None:
            return source, Position(source.topic, source.topic_id, {})
        check_topic(held, source, self._to)
        return source, held

    def _begin(self, held: Mapping[int, int]) -> dict[int, int]:
        """The offsets at which the next batch begins.

        Raises:
            RecordsLost: records after the target's position are missing in the log.
        """
        self._check_end(held)
        earliest = self._client.offsets(self._topic, "earliest")
        gaps = missing(held, earliest)
        if gaps and self._parsed.fail_on_data_loss:
            number, (reached, first) = next(iter(gaps.items()))
            raise RecordsLost(
                f"{self._to} reaches up to offset {reached} of {self._topic}-{number}, whose log "
                f"begins at {first} now: {first - reached} offsets were removed before they "
                "landed. Nothing was landed. failOnDataLoss=false goes on without them"
            )
        return begin_of(held, earliest) | {each: first for each, (_, first) in gaps.items()}

    def _check_end(self, held: Mapping[int, int]) -> None:
        """
        Raises:
            RecordsLost: the log ends before the target's position.
        """
        from drumlin.spark.options.offsets import TopicPartition
        from drumlin.spark.planning.cluster import Cluster

        if not held:
            return
        wanted = {TopicPartition(self._topic, each): offset for each, offset in held.items()}
        ends = Cluster(self._parsed).high_watermarks(at_least=wanted)
        for key, offset in wanted.items():
            if ends[key] < offset:
                raise RecordsLost(
                    f"{self._to} reaches up to offset {offset} of {key}, whose log ends at "
                    f"{ends[key]}: it has lost its end, or has a leader that lags behind. "
                    "Nothing was landed"
                )

    def _ends(self) -> dict[int, int]:
        return self._client.offsets(self._topic, isolation="read_committed")

    def _report_to_group(self, reached: Mapping[int, int], *, may_end: bool) -> None:
        from drumlin.spark.options.offsets import TopicPartition

        done = {TopicPartition(self._topic, each): offset for each, offset in reached.items()}
        self._progress.report(done, may_end=may_end)

    def _landing(self, source: Source, held: Mapping[int, int], ends: Mapping[int, int]) -> Landing:
        return Landing(
            source.topic,
            source.topic_id,
            self._to,
            self._mode,
            self._offsets,
            self._batches,
            self._added.rows,
            self._added.size_bytes,
            dict(held),
            dict(ends),
        )


@contextmanager
def _naming_bad_records(topic: str) -> Iterator[None]:
    """Raise a task's error about a bad record again: Spark passes on only its text.

    Raises:
        BadRecord: a value cannot be decoded.
    """
    try:
        yield
    except Exception as error:
        if found := re.search(r"\bbad_records\.BadRecord: (.*)", str(error)):
            raise BadRecord(
                f"topic {topic} {found[1]}. Nothing of this batch was landed"
            ) from error
        raise


def _mode_of(client: Client, topic: str) -> Mode:
    return "upsert" if _is_compacted(client.topic_configs(topic)) else "append"


def _is_compacted(configs: Mapping[str, Any]) -> bool:
    return "compact" in (configs["cleanup.policy"].value or "").split(",")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
