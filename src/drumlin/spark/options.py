"""The source's options: the names, defaults and refusals of Spark's Kafka source.

Options arrive as text with names in lower case. `SourceOptions.parse` checks them all before
anything is asked of a broker; what only a batch or only a stream may say is checked by
`check_batch` and `check_stream`. Unknown options are ignored, as Spark's source ignores them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from drumlin.spark.offsets import (
    EARLIEST,
    LATEST,
    OffsetLimit,
    TopicPartition,
    parse_offsets,
    parse_partitions,
)
from drumlin.spark.planning import SplitRule

_logger = logging.getLogger(__name__)
_Value = TypeVar("_Value")

_SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribepattern")

#: Kafka consumer options that contradict how a Spark source works, and why.
_REFUSED_KAFKA_OPTIONS: Final = {
    "kafka.auto.offset.reset": "set 'startingOffsets' instead: Spark keeps the offsets itself",
    "kafka.key.deserializer": "keys are bytes; decode them with DataFrame functions",
    "kafka.value.deserializer": "values are bytes; decode them with DataFrame functions",
    "kafka.enable.auto.commit": "offsets are kept in the checkpoint, never committed",
    "kafka.interceptor.classes": "an interceptor could change the records",
}

#: Options of the Kafka client that have an effect here, and what ours calls them.
_CLIENT_OPTIONS: Final = {
    "kafka.request.timeout.ms": "request_timeout_ms",
    "kafkaConsumer.pollTimeoutMs": "request_timeout_ms",  # the same in the end: it wins
    "kafka.socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "kafka.retry.backoff.ms": "retry_backoff_ms",
    "kafka.retry.backoff.max.ms": "retry_backoff_max_ms",
}

_DURATION: Final = re.compile(r"(\d+)\s*(us|ms|s|m|min|h|d)?")
_DURATION_UNITS_MS: Final = {
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


#: How long the driver and tasks go on trying, where no option says so.
_PATIENCE_MS: Final = 60_000

#: What a task fetches, decodes and hands to Spark at a time.
_FETCH_BYTES: Final = 8 << 20


class OptionError(ValueError):
    """An option of the source that cannot be; the message names it."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which topic-partitions to read: exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options of one query, checked; picklable, as tasks get them too."""

    bootstrap_servers: str
    subscription: Subscription
    starting: OffsetLimit | None
    ending: OffsetLimit | None
    no_match_is_latest: bool
    fail_on_data_loss: bool
    include_headers: bool
    split_rule: SplitRule
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    isolation_level: Literal["read_uncommitted", "read_committed"]
    offset_fetch_attempts: int
    offset_fetch_interval_ms: int
    fetch_bytes: int
    client_options: tuple[tuple[str, str | int], ...]  # for `drumlin.connect`

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Check and convert the options, whose names are in lower case.

        Raises:
            OptionError: what Spark's Kafka source refuses too.
        """
        _refuse_kafka_options(options)
        if not options.get("kafka.bootstrap.servers", "").strip():
            raise OptionError("option 'kafka.bootstrap.servers' must be specified")
        parsed = cls(
            bootstrap_servers=options["kafka.bootstrap.servers"],
            subscription=_subscription(options),
            starting=_limit(options, "starting"),
            ending=_limit(options, "ending"),
            no_match_is_latest=_choice(
                options, "startingOffsetsByTimestampStrategy", ("error", "latest")
            )
            == "latest",
            fail_on_data_loss=_boolean(options, "failOnDataLoss", default=True),
            include_headers=_boolean(options, "includeHeaders", default=False),
            split_rule=SplitRule(
                min_partitions=_positive(options, "minPartitions"),
                max_records=_positive(options, "maxRecordsPerPartition"),
            ),
            max_offsets_per_trigger=_positive(options, "maxOffsetsPerTrigger"),
            min_offsets_per_trigger=_positive(options, "minOffsetsPerTrigger"),
            max_trigger_delay_ms=_converted(options, "maxTriggerDelay", _duration_ms, "15m"),
            isolation_level=_isolation_level(options),
            offset_fetch_attempts=_converted(options, "fetchOffset.numRetries", int, "3"),
            offset_fetch_interval_ms=_converted(
                options, "fetchOffset.retryIntervalMs", int, "1000"
            ),
            fetch_bytes=_positive(options, "kafka.max.partition.fetch.bytes") or _FETCH_BYTES,
            client_options=_client_options(options),
        )
        parsed._check_trigger_limits()
        return parsed

    def check_batch(self) -> None:
        """What holds for a batch query only.

        Raises:
            OptionError: it would start at the end, or end at the beginning.
        """
        starting, ending = self.batch_limits()
        if not starting.is_timestamp and LATEST in starting.values():
            raise OptionError("startingOffsets can't be latest for batch queries")
        if not ending.is_timestamp and EARLIEST in ending.values():
            raise OptionError("endingOffsets can't be earliest for batch queries")
        if starting.is_timestamp == ending.is_timestamp:
            _check_order(starting, ending)
        if self.max_offsets_per_trigger or self.min_offsets_per_trigger:
            _logger.warning("maxOffsetsPerTrigger and minOffsetsPerTrigger mean nothing in a batch")

    def check_stream(self) -> None:
        """What holds for a streaming query only.

        Raises:
            OptionError: it has an end.
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
    # Never speak in the clear to a cluster for which encryption or a login was asked.
    protocol = options.get("kafka.security.protocol", "PLAINTEXT")
    if protocol.strip().upper() != "PLAINTEXT":
        raise OptionError(f"option 'kafka.security.protocol': {protocol!r} is not supported yet")


def _client_options(options: Mapping[str, str]) -> tuple[tuple[str, str | int], ...]:
    values: dict[str, str | int] = {"client_id": options.get("kafka.client.id", "drumlin-spark")}
    for name, keyword in _CLIENT_OPTIONS.items():
        number = _positive(options, name)
        if number is not None:
            values[keyword] = number
    # A cluster whose brokers are restarted one by one is without a leader for a while, and a task
    # that fails is lost work. Who sets a time of his own gets that.
    if "request_timeout_ms" not in values:
        values["call_timeout_ms"] = _PATIENCE_MS
    return tuple(values.items())


def _subscription(options: Mapping[str, str]) -> Subscription:
    given = [name for name in _SUBSCRIPTIONS if name in options]
    if len(given) != 1:
        raise OptionError(
            "exactly one of the options 'assign', 'subscribe', 'subscribePattern' must be "
            f"specified, not {len(given)}"
        )
    value = options[given[0]].strip()
    if given[0] == "assign":
        partitions = _parsed("assign", value, parse_partitions)
        if not partitions:
            raise OptionError(f"no topic-partitions to assign in option 'assign': {value!r}")
        return Subscription(partitions=partitions)
    if given[0] == "subscribe":
        topics = tuple(topic.strip() for topic in value.split(",") if topic.strip())
        if not topics:
            raise OptionError(f"no topics to subscribe to in option 'subscribe': {value!r}")
        return Subscription(topics=topics)
    if not value:
        raise OptionError("the pattern in option 'subscribePattern' is empty")
    _parsed("subscribePattern", value, re.compile)
    return Subscription(pattern=value)


def _limit(options: Mapping[str, str], side: Literal["starting", "ending"]) -> OffsetLimit | None:
    """The most special of three ways to say it wins: one time, times, offsets."""
    text = options.get(f"{side}timestamp")
    if text is not None:
        return OffsetLimit(_parsed(f"{side}Timestamp", text, int), is_timestamp=True)
    text = options.get(f"{side}offsetsbytimestamp")
    if text is not None:
        times = _parsed(f"{side}OffsetsByTimestamp", text, parse_offsets)
        return OffsetLimit(times, is_timestamp=True)
    text = options.get(f"{side}offsets")
    if text is None:
        return None
    text = text.strip()
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in words:
        return OffsetLimit(words[text.lower()])
    return OffsetLimit(_parsed(f"{side}Offsets", text, parse_offsets))


def _check_order(starting: OffsetLimit, ending: OffsetLimit) -> None:
    if isinstance(starting.value, int) or isinstance(ending.value, int):
        return
    if starting.value.keys() != ending.value.keys():
        raise OptionError("starting and ending offsets name different topic-partitions")
    for key, start in starting.value.items():
        if start >= 0 and 0 <= ending.value[key] < start:
            raise OptionError(f"{key} starts at {start}, after its end {ending.value[key]}")


def _isolation_level(options: Mapping[str, str]) -> Literal["read_uncommitted", "read_committed"]:
    level = _choice(options, "kafka.isolation.level", ("read_uncommitted", "read_committed"))
    return "read_committed" if level == "read_committed" else "read_uncommitted"


def _choice(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """One of `allowed`, the first being the default."""
    value = options.get(name.lower(), allowed[0]).strip().lower()
    if value not in allowed:
        raise OptionError(f"option '{name}' must be one of {', '.join(allowed)}, not {value!r}")
    return value


def _boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    allowed = ("true", "false") if default else ("false", "true")
    return _choice(options, name, allowed) == "true"


def _positive(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    value = _parsed(name, text, int)
    if value <= 0:
        raise OptionError(f"option '{name}' must be positive, not {value}")
    return value


def _converted(
    options: Mapping[str, str], name: str, convert: Callable[[str], _Value], default: str
) -> _Value:
    return _parsed(name, options.get(name.lower(), default), convert)


def _duration_ms(text: str) -> int:
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"expected e.g. 500ms, 30s, 15m, 2h, got {text!r}")
    return round(int(match[1]) * _DURATION_UNITS_MS[match[2] or "ms"])


def _parsed(name: str, text: str, parse: Callable[[str], _Value]) -> _Value:
    try:
        return parse(text)
    except (ValueError, re.error) as error:
        raise OptionError(f"option '{name}': {error}") from error
