"""The source's options, with the names, defaults and refusals of Spark's Kafka source.

Options arrive as text with names in lower case. `SourceOptions.parse` checks them all before any
request is sent. `check_batch` and `check_stream` check what holds for one kind of query only.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from drumlin.spark.options.java_pattern import python_pattern
from drumlin.spark.options.offset_limits import check_order, limit_of
from drumlin.spark.options.offsets import (
    EARLIEST,
    LATEST,
    OffsetLimit,
    TopicPartition,
    parse_partitions,
)
from drumlin.spark.options.option_names import refuse_unknown
from drumlin.spark.options.option_values import (
    OptionError,
    boolean,
    choice,
    converted,
    duration_ms,
    not_negative,
    parsed,
    positive,
    size_bytes,
    text,
    topic_name,
    whole_number,
)
from drumlin.spark.options.portable import Portable
from drumlin.spark.options.ranges import SplitRule
from drumlin.spark.options.security import security_of

if TYPE_CHECKING:  # pulls in pyarrow
    from drumlin.peer.security.security import Security
    from drumlin.spark.options.transform import Transform

_logger = logging.getLogger(__name__)
ClientOption: TypeAlias = "str | int | Security"

_SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribepattern")

#: Kafka consumer options that contradict how a Spark source works, and why.
_REFUSED_KAFKA_OPTIONS: Final = {
    "kafka.auto.offset.reset": "set 'startingOffsets' instead: Spark keeps the offsets itself",
    "kafka.key.deserializer": "keys are bytes; decode them with DataFrame functions",
    "kafka.value.deserializer": "values are bytes; decode them with DataFrame functions",
    "kafka.enable.auto.commit": "offsets are kept in the checkpoint; see 'commitOffsetsToGroup'",
    "kafka.interceptor.classes": "an interceptor could change the records",
}

#: Options of Kafka's client that have an effect here, and the name of each in our client.
_CLIENT_OPTIONS: Final = {
    "kafka.request.timeout.ms": "request_timeout_ms",
    "kafkaConsumer.pollTimeoutMs": "request_timeout_ms",  # the same here; of the two, this wins
    "kafka.socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "kafka.retry.backoff.ms": "retry_backoff_ms",
    "kafka.retry.backoff.max.ms": "retry_backoff_max_ms",
}

#: How long the driver and tasks keep trying by default.
_PATIENCE_MS: Final = 60_000

#: How much a task fetches and decodes at a time, and the size of the batches it hands to Spark.
_FETCH_BYTES: Final = 8 << 20
_BATCH_BYTES: Final = 8 << 20

#: The columns of Spark's Kafka source, in its order; `headers` comes last, and only on request.
COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS_COLUMN: Final = "headers"


@dataclass(frozen=True, slots=True)
class Subscription(Portable):
    """Which topic-partitions to read: exactly one of the three fields is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None  # in Python's syntax, to match whole names
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOptions(Portable):
    """All options of one query, checked; picklable, as tasks get them too."""

    bootstrap_servers: str
    subscription: Subscription
    starting: OffsetLimit | None
    ending: OffsetLimit | None
    no_match_is_latest: bool
    fail_on_data_loss: bool
    columns: tuple[str, ...]  # of Spark's schema, in the order of the result
    push_filters: bool
    split_rule: SplitRule
    max_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    isolation_level: Literal["read_uncommitted", "read_committed"]
    offset_fetch_attempts: int
    offset_fetch_interval_ms: int
    fetch_bytes: int
    progress_group: str | None  # the consumer group to which a stream commits its progress
    batch_bytes: int
    transform: Transform | None  # a user's function over the records that are read
    client_options: tuple[tuple[str, ClientOption], ...]  # for `drumlin.connect`
    journals_topic_ids: bool = False  # in a stream's checkpoint, beside the offsets
    without_gaps: bool = False  # for a state that is exact only if nothing is missing

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Check and convert the options, whose names are in lower case.

        Raises:
            OptionError: Spark's Kafka source refuses the options too, or fails when it reads.
        """
        _refuse_kafka_options(options)
        if "snapshot" in options:
            raise OptionError(
                "option 'snapshot' is for spark.read.format('drumlin') alone; in a program, "
                "see drumlin.spark.snapshot"
            )
        if not options.get("kafka.bootstrap.servers", "").strip():
            raise OptionError("option 'kafka.bootstrap.servers' must be specified")
        if boolean(options, "strictOptions", default=False):
            refuse_unknown(options)
        source = cls(
            bootstrap_servers=options["kafka.bootstrap.servers"],
            subscription=_subscription(options),
            starting=limit_of(options, "starting"),
            ending=limit_of(options, "ending"),
            no_match_is_latest=choice(
                options, "startingOffsetsByTimestampStrategy", ("error", "latest")
            )
            == "latest",
            fail_on_data_loss=boolean(options, "failOnDataLoss", default=True),
            columns=_columns(options),
            push_filters=boolean(options, "pushFilters", default=False),
            split_rule=SplitRule(
                min_partitions=positive(options, "minPartitions"),
                max_records=positive(options, "maxRecordsPerPartition"),
            ),
            max_offsets_per_trigger=positive(options, "maxOffsetsPerTrigger"),
            max_bytes_per_trigger=positive(options, "maxBytesPerTrigger"),
            min_offsets_per_trigger=positive(options, "minOffsetsPerTrigger"),
            max_trigger_delay_ms=converted(options, "maxTriggerDelay", duration_ms, "15m"),
            isolation_level=_isolation_level(options),
            offset_fetch_attempts=converted(options, "fetchOffset.numRetries", whole_number, "3"),
            offset_fetch_interval_ms=converted(
                options, "fetchOffset.retryIntervalMs", not_negative, "1000"
            ),
            fetch_bytes=size_bytes(options, "kafka.max.partition.fetch.bytes", _FETCH_BYTES),
            progress_group=_progress_group(options),
            batch_bytes=size_bytes(options, "batchBytes", _BATCH_BYTES),
            transform=None,
            journals_topic_ids=boolean(options, "checkpointTopicIds", default=False),
            client_options=_client_options(options),
        )
        source._check_trigger_limits()
        return source

    def check_batch(self) -> None:
        """Check what holds for batch queries only.

        Raises:
            OptionError: the query would start at the end, end at the beginning, or start after
                its end.
        """
        starting, ending = self.batch_limits()
        if not starting.is_timestamp and LATEST in starting.values():
            raise OptionError("startingOffsets can't be latest for batch queries")
        if not ending.is_timestamp and EARLIEST in ending.values():
            raise OptionError("endingOffsets can't be earliest for batch queries")
        check_order(starting, ending)
        limits = (
            self.max_offsets_per_trigger,
            self.max_bytes_per_trigger,
            self.min_offsets_per_trigger,
        )
        if any(limits):
            _logger.warning("limits of a trigger have no effect in a batch query")
        if self.progress_group is not None:
            _logger.warning("commitOffsetsToGroup has no effect in a batch query")

    def check_stream(self) -> None:
        """Check what holds for streaming queries only.

        Raises:
            OptionError: the options set an end.
        """
        if self.ending is not None:
            raise OptionError("ending offsets and timestamps are not valid in streaming queries")

    def batch_limits(self) -> tuple[OffsetLimit, OffsetLimit]:
        """Where a batch query starts and ends."""
        return self.starting or OffsetLimit(EARLIEST), self.ending or OffsetLimit(LATEST)

    def _check_trigger_limits(self) -> None:
        smallest, largest = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if smallest is not None and largest is not None and smallest > largest:
            raise OptionError(
                f"minOffsetsPerTrigger ({smallest}) is above maxOffsetsPerTrigger ({largest})"
            )


def _refuse_kafka_options(options: Mapping[str, str]) -> None:
    for name, reason in _REFUSED_KAFKA_OPTIONS.items():
        if name in options:
            raise OptionError(f"option '{name}' is not supported: {reason}")


def _client_options(options: Mapping[str, str]) -> tuple[tuple[str, ClientOption], ...]:
    values: dict[str, ClientOption] = {"client_id": options.get("kafka.client.id", "drumlin-spark")}
    if "kafka.client.rack" in options:
        values["client_rack"] = options["kafka.client.rack"].strip()
    security = security_of(options)
    if security is not None:
        values["security"] = security
    for name, keyword in _CLIENT_OPTIONS.items():
        number = positive(options, name)
        if number is not None:
            values[keyword] = number
    # In a rolling restart, partitions have no leader for a while, and a task that fails is lost
    # work. A timeout that the user has set comes first.
    if "request_timeout_ms" not in values:
        values["call_timeout_ms"] = _PATIENCE_MS
    return tuple(values.items())


def _progress_group(options: Mapping[str, str]) -> str | None:
    group = text(options, "commitOffsetsToGroup")
    joined = options.get("kafka.group.id", group)
    if group is not None and joined != group:
        raise OptionError(
            f"'kafka.group.id' is {joined!r} and 'commitOffsetsToGroup' {group!r}: only the second "
            "has an effect, so leave the first one out"
        )
    return group


def _subscription(options: Mapping[str, str]) -> Subscription:
    given = [name for name in _SUBSCRIPTIONS if name in options]
    if len(given) != 1:
        raise OptionError(
            "exactly one of the options 'assign', 'subscribe', 'subscribePattern' must be "
            f"specified, not {len(given)}"
        )
    value = options[given[0]].strip()
    if given[0] == "assign":
        partitions = parsed("assign", value, parse_partitions)
        if not partitions:
            raise OptionError(f"no topic-partitions to assign in option 'assign': {value!r}")
        for topic in {key.topic for key in partitions}:
            topic_name("assign", topic)
        return Subscription(partitions=partitions)
    if given[0] == "subscribe":
        topics = tuple(topic.strip() for topic in value.split(",") if topic.strip())
        if not topics:
            raise OptionError(f"no topics to subscribe to in option 'subscribe': {value!r}")
        return Subscription(topics=tuple(topic_name("subscribe", topic) for topic in topics))
    if not value:
        raise OptionError("the pattern in option 'subscribePattern' is empty")
    return Subscription(pattern=parsed("subscribePattern", value, python_pattern))


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of the option `columns`; by default all, `headers` only with `includeHeaders`."""
    everything = (*COLUMNS, HEADERS_COLUMN)
    include_headers = boolean(options, "includeHeaders", default=False)
    text = options.get("columns")
    if text is None:
        return everything if include_headers else COLUMNS
    known = {name.lower(): name for name in everything}
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name.lower() not in known]
    if unknown or not names:
        raise OptionError(
            f"option 'columns': {', '.join(unknown) or 'nothing'} is no column of a topic; there "
            f"are {', '.join(everything)}"
        )
    columns = tuple(known[name.lower()] for name in names)
    if len(set(columns)) < len(columns):
        raise OptionError(f"option 'columns' names a column twice: {text!r}")
    return columns


def _isolation_level(options: Mapping[str, str]) -> Literal["read_uncommitted", "read_committed"]:
    level = choice(options, "kafka.isolation.level", ("read_uncommitted", "read_committed"))
    return "read_committed" if level == "read_committed" else "read_uncommitted"
