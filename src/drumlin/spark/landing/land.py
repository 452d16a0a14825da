"""`drumlin.spark.land`: topics brought into tables and files, every record once.

The loop keeps nothing: each batch begins where the target ends, and is planned anew.
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
#: The part of delete.retention.ms after which a target is told that nothing was new.
_TOLD_AFTER: Final = 0.25
_ISOLATION: Final = "kafka.isolation.level"
#: What else a landing leaves to its user, besides how to reach the cluster.
_ALLOWED: Final = {"failondataloss", "minpartitions", "maxrecordsperpartition"}
_GROUP: Final = "commitoffsetstogroup"


class Landing(NamedTuple):
    """How far one topic has landed."""

    topic: str
    topic_id: str
    to: str
    mode: Mode
    #: How many offsets this run has landed; a compacted log has fewer records.
    offsets: int
    batches: int
    #: By partition, the first offset that the target does not hold, and where the log ends.
    position: dict[int, int]
    ends: dict[int, int]

    @property
    def lag(self) -> int:
        """How many offsets the target is behind."""
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
    """Add to tables or files what topics have and these have not, every record once.

    Records and the position that is reached become visible together, in the target's own commit.
    There is no checkpoint: whatever is killed, the next run goes on where the target ends. Only
    committed records land.

    Args:
        topics: a name, or several.
        to: where: `parquet:FOLDER`, `hdfs://HOST:PORT/FOLDER` (Parquet files), `delta:TABLE`,
            `iceberg:CATALOG/NAMESPACE.TABLE[?buckets=N]`,
            `postgresql://USER@HOST/DATABASE[?table=NAME]` (the name is the topic's by default).
            `{topic}` stands for the topic's name, and is needed for several topics.
        bootstrap: some of the brokers, as `host:port,…`.
        mode: `append`: every record is a row. `upsert`: every key is one, with its last value;
            records without a key are left out. None: upsert where the topic is compacted.
        batch_offsets: about how many offsets a batch has, and with it a commit of the target.
        group: a consumer group whose offsets show the progress; they are never read.
        every_s: land again and again, with so many seconds between the end of a round and the next,
            until `stop`. None: return when what is there now has landed.
        stop: ends the loop after the batch at hand.
        on_progress: called after each batch.
        options: `kafka.…` as for `format("drumlin")`, `minPartitions`, `maxRecordsPerPartition`
            and `failOnDataLoss`: false goes on where the log begins now, if it has lost records.

    Returns:
        How far each topic has landed, in their order.

    Raises:
        OtherTopic: a target is of another topic, or the topic was deleted and created again.
        OtherRun: another run lands into the same target.
        RecordsLost: what follows the target's position is no longer in the log, or tombstones may
            not be, as it landed too long ago.
        LandingRefused: the target has something else in its place.
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
    """How far topics have landed, and how far the targets are behind. Starts no Spark.

    Args and errors are those of `land`. Changes nothing.
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
        OptionError: an option is unknown, or is the landing's own.
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
        #: When this run has last found the target at the log's end.
        self._at_end_ms: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._target.close()

    def round(self, stop: threading.Event, on_progress: Callable[[Landing], None] | None) -> None:
        """Land what is committed when the round begins, batch by batch."""
        until: dict[int, int] | None = None
        asked_ms = _now_ms()
        while not stop.is_set():
            source, held = self._looked_up()
            if until is None:
                until = self._ends()
            begin = self._begin(held.offsets)
            # A partition that is new since then is for the next round.
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
            # Once more when all is read, as a cleaner may run meanwhile.
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
        """As it is now."""
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
        """Since when no tombstone was missed: what the target says, or this run knows better."""
        if not held.offsets:
            return asked_ms
        return max((each for each in (held.at_end_ms, self._at_end_ms) if each), default=None)

    def _is_time_due(self, held: Position, asked_ms: int) -> bool:
        """Whether the target has to be told that there was nothing new for a long time."""
        retention_ms = self._deletions_stay_ms()
        if retention_ms is None or not held.offsets:
            return False
        return asked_ms - (held.at_end_ms or 0) > retention_ms * _TOLD_AFTER

    def _check_deletions(self, at_end_ms: int | None) -> None:
        """
        Raises:
            RecordsLost: tombstones may be gone.
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
        """For how long a cleaner leaves tombstones that count here; None: for ever."""
        if self._mode == "append":
            return None
        configs = self._client.topic_configs(self._topic)
        if not _is_compacted(configs):
            return None
        return int(configs["delete.retention.ms"].value or 0)

    def _looked_up(self) -> tuple[Source, Position]:
        """The topic, and how far the target is in it.

        Raises:
            OtherTopic: the target is of another one.
        """
        from drumlin.spark.landing.batch import look_up

        source = look_up(self._client, self._topic)
        held = self._target.position(source.partitions)
        if held is None:
            return source, Position(source.topic, source.topic_id, {})
        check_topic(held, source, self._to)
        return source, held

    def _begin(self, held: Mapping[int, int]) -> dict[int, int]:
        """Where the next batch begins.

        Raises:
            RecordsLost: not where the target ends, as records are missing there.
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
