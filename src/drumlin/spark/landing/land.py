"""`drumlin.spark.land`: copies topics into tables and files, every record exactly once.

The loop has no state of its own: each batch starts at the position stored in the target.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from drumlin.serving.targets import without_password
from drumlin.spark.landing.ranges import batch_end, begin_of, may_lack_deletions, missing
from drumlin.spark.landing.target import (
    MODES,
    Mode,
    Position,
    RecordsLost,
    Source,
    Target,
    check_topic,
)
from drumlin.spark.landing.targets import TOPIC, check_places, open_target
from drumlin.spark.options.keyword_options import read_options
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.options import SourceOptions

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import SparkSession

    from drumlin.client.client import Client
    from drumlin.spark.planning.group_progress import GroupProgress

BATCH_OFFSETS: Final = 1_000_000
#: The fraction of delete.retention.ms after which a target without new records gets a commit that
#: stores the time.
_TOLD_AFTER: Final = 0.25
_ISOLATION: Final = "kafka.isolation.level"
#: The options that a user may set, besides those of the connection.
_ALLOWED: Final = {"failondataloss", "minpartitions", "maxrecordsperpartition"}
_GROUP: Final = "commitoffsetstogroup"


class Landing(NamedTuple):
    """The progress of one topic."""

    topic: str
    topic_id: str
    to: str
    mode: Mode
    #: The number of offsets that this run has landed; a compacted log has fewer records.
    offsets: int
    batches: int
    #: By partition: the first offset that the target does not hold, and the log's end offset.
    position: dict[int, int]
    ends: dict[int, int]

    @property
    def lag(self) -> int:
        """The number of offsets that the target is behind."""
        return sum(max(end - self.position.get(each, 0), 0) for each, end in self.ends.items())


def land(
    spark: SparkSession,
    topics: str | Sequence[str],
    to: str,
    *,
    bootstrap: str,
    mode: Mode | None = None,
    batch_offsets: int = BATCH_OFFSETS,
    group: str | None = None,
    every_s: float | None = None,
    stop: threading.Event | None = None,
    on_progress: Callable[[Landing], None] | None = None,
    **options: object,
) -> list[Landing]:
    """Copy the new records of topics to tables or files, every record exactly once.

    Each commit of the target makes records and the new position visible together. There is no
    checkpoint: after a kill at any moment, the next run continues from the target's position. Only
    committed records land.

    Args:
        topics: a name, or several.
        to: the target: `parquet:FOLDER`, `hdfs://HOST:PORT/FOLDER` (Parquet files), `delta:TABLE`,
            `iceberg:CATALOG/NAMESPACE.TABLE[?buckets=N]`,
            `postgresql://USER@HOST/DATABASE[?table=NAME]` (the name is the topic's by default).
            `{topic}` stands for the topic's name, and is needed for several topics.
        bootstrap: some of the brokers, as `host:port,…`.
        mode: `append`: a row for every record. `upsert`: a row for every key, with its last value;
            records without a key are skipped. None: `upsert` for compacted topics, else `append`.
        batch_offsets: the approximate number of offsets in a batch, which is one commit.
        group: a consumer group whose offsets show the progress; they are never read.
        every_s: land repeatedly, with a pause of this many seconds between rounds, until `stop` is
            set. None: return when all records that are in the log now have landed.
        stop: set it to end the loop after the current batch.
        on_progress: called after each batch.
        options: `kafka.…` as for `format("drumlin")`, `minPartitions`, `maxRecordsPerPartition`
            and `failOnDataLoss`: with false, continue at the log's start if records were lost.

    Returns:
        The progress of each topic, in the order of `topics`.

    Raises:
        OtherTopic: a target belongs to another topic, or the topic was deleted and recreated.
        OtherRun: another run lands into the same target.
        RecordsLost: the records after the target's position are no longer in the log; or the last
            run was so long ago that tombstones may have been removed.
        LandingRefused: there is something in the target's place that no landing has created.
        OptionError, ValueError: an argument or option is invalid.
        UnknownTopic: there is no such topic.
    """
    names = [topics] if isinstance(topics, str) else list(topics)
    check_places(to, names)
    if batch_offsets < 1:
        raise ValueError(f"batch_offsets={batch_offsets}: expected a positive number")
    if every_s is not None and every_s <= 0:
        raise ValueError(f"every_s={every_s}: expected a positive number")
    stop = stop or threading.Event()
    with ExitStack() as stack:
        runs = []
        for name in names:
            given = _options(name, bootstrap, group, options)
            runs.append(stack.enter_context(_Run(spark, name, to, mode, batch_offsets, given)))
        while True:
            for run in runs:
                run.round(stop, on_progress)
            if every_s is None or stop.wait(every_s):
                return [run.tell() for run in runs]


def landed(
    topics: str | Sequence[str],
    to: str,
    *,
    bootstrap: str,
    mode: Mode | None = None,
    **options: object,
) -> list[Landing]:
    """The progress of topics, and how far their targets lag behind. Read-only, without Spark.

    Arguments and errors are those of `land`.
    """
    names = [topics] if isinstance(topics, str) else list(topics)
    check_places(to, names)
    found = []
    for name in names:
        with _Run(None, name, to, mode, 1, _options(name, bootstrap, None, options)) as run:
            found.append(run.tell())
    return found


def _options(
    topic: str, bootstrap: str, group: str | None, options: dict[str, object]
) -> dict[str, str]:
    """
    Raises:
        OptionError: an option is unknown, or is set by the landing itself.
    """
    for name in options:
        lowered = name.lower()
        is_own = lowered == _ISOLATION or not lowered.startswith("kafka.")
        if is_own and lowered not in _ALLOWED:
            raise OptionError(f"option {name!r} has no place in a landing, which says what is read")
    given = read_options(topic, bootstrap, options)
    given[_ISOLATION] = "read_committed"
    return given if group is None else {**given, _GROUP: group}


class _Run:
    """One topic and its target."""

    def __init__(
        self,
        spark: SparkSession | None,
        topic: str,
        to: str,
        mode: Mode | None,
        batch_offsets: int,
        options: dict[str, str],
    ) -> None:
        from drumlin.spark.connection import client_of
        from drumlin.spark.planning.group_progress import GroupProgress

        self._spark, self._topic, self._batch_offsets = spark, topic, batch_offsets
        self._parsed = SourceOptions.parse(options)
        self._options = {name: each for name, each in options.items() if name != _GROUP}
        self._client: Client = client_of(self._parsed)
        self._progress: GroupProgress = GroupProgress(self._parsed)
        self._mode: Mode = mode or _mode_of(self._client, topic)
        if self._mode not in MODES:
            raise ValueError(f"mode={mode!r}: expected one of {', '.join(MODES)}")
        self._to = without_password(to.replace(TOPIC, topic))
        self._target: Target = open_target(to, topic, self._mode)
        self._offsets = self._batches = 0
        #: The last time at which this run found the target at the log's end.
        self._at_end_ms: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._target.close()

    def round(self, stop: threading.Event, on_progress: Callable[[Landing], None] | None) -> None:
        """Land, batch by batch, all records that are committed when the round begins."""
        until: dict[int, int] | None = None
        asked_ms = _now_ms()
        while not stop.is_set():
            source, held = self._looked_up()
            if until is None:
                until = self._ends()
            begin = self._begin(held.offsets)
            # A partition created since then is left to the next round.
            begin = {each: offset for each, offset in begin.items() if each in until}
            end = batch_end(begin, until, self._batch_offsets)
            at_end_ms = self._at_end(held, asked_ms)
            if end == begin:
                self._at_end_ms = asked_ms
                if self._is_time_due(held, asked_ms):
                    self._add(source, begin, end, asked_ms, lambda: None)
                break
            self._check_deletions(at_end_ms)
            reached_ms = asked_ms if end == until else at_end_ms
            # Checked again after reading, as a cleaner may run meanwhile.
            check = partial(self._check_deletions, at_end_ms)
            self._add(source, begin, end, reached_ms, check)
            self._offsets += sum(end.values()) - sum(begin.values())
            self._batches += 1
            self._report_to_group(end, may_end=False)
            if on_progress is not None:
                on_progress(self._landing(source, end, until))
        _, held = self._looked_up()
        self._report_to_group(held.offsets, may_end=True)

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
        check: Callable[[], None],
    ) -> None:
        from drumlin.spark.landing.batch import PlannedBatch

        assert self._spark is not None
        batch = PlannedBatch(self._spark, self._parsed, self._options, source, begin, end, check)
        self._target.add(batch, Position(source.topic, source.topic_id, end, at_end_ms))

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
                "seen, so that it would keep what they delete. Nothing was landed. Land more "
                "often than that, and now into another place. failOnDataLoss=false goes on"
            )

    def _deletions_stay_ms(self) -> int | None:
        """How long the cleaner keeps tombstones; None: forever, or they do not matter."""
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
        if held is None:
            return source, Position(source.topic, source.topic_id, {})
        check_topic(held, source, self._to)
        return source, held

    def _begin(self, held: Mapping[int, int]) -> dict[int, int]:
        """The offsets at which the next batch begins.

        Raises:
            RecordsLost: records after the target's position are missing in the log.
        """
        from drumlin.spark.options.offsets import TopicPartition
        from drumlin.spark.planning.cluster import Cluster

        if held:
            wanted = {TopicPartition(self._topic, each): offset for each, offset in held.items()}
            ends = Cluster(self._parsed).high_watermarks(at_least=wanted)
            for key, offset in wanted.items():
                if ends[key] < offset:
                    raise RecordsLost(
                        f"{self._to} reaches up to offset {offset} of {key}, whose log ends at "
                        f"{ends[key]}: it has lost its end, or has a leader that lags behind. "
                        "Nothing was landed"
                    )
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

    def _ends(self) -> dict[int, int]:
        return self._client.offsets(self._topic, isolation="read_committed")

    def _report_to_group(self, reached: Mapping[int, int], *, may_end: bool) -> None:
        from drumlin.spark.options.offsets import TopicPartition

        done = {TopicPartition(self._topic, each): offset for each, offset in reached.items()}
        self._progress.report(done, may_end=may_end)

    def _landing(self, source: Source, held: Mapping[int, int], ends: dict[int, int]) -> Landing:
        return Landing(
            source.topic,
            source.topic_id,
            self._to,
            self._mode,
            self._offsets,
            self._batches,
            dict(held),
            ends,
        )


def _mode_of(client: Client, topic: str) -> Mode:
    return "upsert" if _is_compacted(client.topic_configs(topic)) else "append"


def _is_compacted(configs: Mapping[str, Any]) -> bool:
    return "compact" in (configs["cleanup.policy"].value or "").split(",")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
