"""The source's options, with the names, defaults and refusals of Spark's Kafka source.

Options arrive as text with names in lower case. `SourceOptions.parse` checks them all before any
request is sent. `check_batch` and `check_stream` check the rules of one kind of query.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drumlin.spark.options import source_rows as rows
from drumlin.spark.options.client_options import ClientOptions, checked_bootstrap, client_options
from drumlin.spark.options.client_rows import INCLUDE_HEADERS
from drumlin.spark.options.offset_limits import check_order, end_of, start_of
from drumlin.spark.options.offsets import EARLIEST, LATEST, OffsetLimit, TopicPartition
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.portable import Portable
from drumlin.spark.options.ranges import SplitRule
from drumlin.spark.options.sink_rows import TOPIC
from drumlin.spark.options.source_rows import COLUMNS, HEADERS_COLUMN
from drumlin.spark.options.starts import Start

if TYPE_CHECKING:  # pulls in pyarrow
    from drumlin.spark.options.transform import Transform

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Subscription(Portable):
    """The topic-partitions to read: exactly one of the three fields is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None  # in Python's syntax, to match whole names
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOptions(Portable):
    """All options of one query, checked; picklable, as tasks get them too."""

    bootstrap_servers: str
    subscription: Subscription
    starting: Start | None
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
    isolation_level: rows.IsolationLevel
    offset_fetch_attempts: int
    offset_fetch_interval_ms: int
    fetch_bytes: int
    progress_group: str | None  # the consumer group to which a stream commits its progress
    batch_bytes: int
    transform: Transform | None  # a user's function over the records that are read
    client_options: ClientOptions  # for `drumlin.connect`
    journals_topic_ids: bool = False  # stored in a stream's checkpoint
    without_gaps: bool = False  # for a state that is exact only if nothing is missing

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Check and convert the options, whose names are in lower case.

        Raises:
            OptionError: an option is invalid: Spark's Kafka source refuses it, too, or fails later.
        """
        if rows.SNAPSHOT.is_in(options):
            raise OptionError(
                "option 'snapshot' is for spark.read.format('drumlin') alone; in a program, "
                "see drumlin.spark.snapshot"
            )
        source = cls(
            bootstrap_servers=checked_bootstrap(options, "source", rows.REFUSED_BY_SOURCE),
            subscription=_subscription(options),
            starting=start_of(options),
            ending=end_of(options),
            no_match_is_latest=rows.STRATEGY.value(options) == "latest",
            fail_on_data_loss=rows.FAIL_ON_DATA_LOSS.value(options),
            columns=_columns(options),
            push_filters=rows.PUSH_FILTERS.value(options),
            split_rule=SplitRule(
                min_partitions=rows.MIN_PARTITIONS.find(options),
                max_records=rows.MAX_RECORDS_PER_PARTITION.find(options),
            ),
            max_offsets_per_trigger=rows.MAX_OFFSETS_PER_TRIGGER.find(options),
            max_bytes_per_trigger=rows.MAX_BYTES_PER_TRIGGER.find(options),
            min_offsets_per_trigger=rows.MIN_OFFSETS_PER_TRIGGER.find(options),
            max_trigger_delay_ms=rows.MAX_TRIGGER_DELAY.value(options),
            isolation_level=rows.ISOLATION_LEVEL.value(options),
            offset_fetch_attempts=rows.NUM_RETRIES.value(options),
            offset_fetch_interval_ms=rows.RETRY_INTERVAL.value(options),
            fetch_bytes=rows.FETCH_BYTES.value(options),
            progress_group=_progress_group(options),
            batch_bytes=rows.BATCH_BYTES.value(options),
            transform=None,
            journals_topic_ids=rows.CHECKPOINT_TOPIC_IDS.value(options),
            client_options=client_options(options, "source"),
        )
        source._check_trigger_limits()
        return source

    def check_batch(self) -> None:
        """Check the rules of batch queries.

        Raises:
            OptionError: the query would start at the end, end at the beginning, or start after
                its end.
        """
        starting, ending = self.batch_limits()
        if isinstance(starting, OffsetLimit):
            if not starting.is_timestamp and LATEST in starting.values():
                raise OptionError("startingOffsets can't be latest for batch queries")
            check_order(starting, ending)
        if not ending.is_timestamp and EARLIEST in ending.values():
            raise OptionError("endingOffsets can't be earliest for batch queries")
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
        """Check the rules of streaming queries.

        Raises:
            OptionError: the options set an end.
        """
        if self.ending is not None:
            raise OptionError("ending offsets and timestamps are not valid in streaming queries")

    def batch_limits(self) -> tuple[Start, OffsetLimit]:
        """The start and end of a batch query."""
        return self.starting or OffsetLimit(EARLIEST), self.ending or OffsetLimit(LATEST)

    def _check_trigger_limits(self) -> None:
        smallest, largest = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if smallest is not None and largest is not None and smallest > largest:
            raise OptionError(
                f"minOffsetsPerTrigger ({smallest}) is above maxOffsetsPerTrigger ({largest})"
            )


def _progress_group(options: Mapping[str, str]) -> str | None:
    group = rows.COMMIT_OFFSETS_TO_GROUP.find(options)
    joined = rows.GROUP_ID.find(options)
    if group is not None and joined not in (None, group):
        raise OptionError(
            f"'kafka.group.id' is {joined!r} and 'commitOffsetsToGroup' {group!r}: only the second "
            "has an effect, so leave out the first"
        )
    return group


def _subscription(options: Mapping[str, str]) -> Subscription:
    ways = (rows.ASSIGN, rows.SUBSCRIBE, rows.SUBSCRIBE_PATTERN)
    given = [each for each in ways if each.is_in(options)]
    if len(given) != 1:
        hint = "" if given or not TOPIC.is_in(options) else "; 'topic' is an option of the sink"
        raise OptionError(
            "exactly one of the options 'assign', 'subscribe', 'subscribePattern' must be "
            f"specified, not {len(given)}{hint}"
        )
    return Subscription(
        rows.SUBSCRIBE.find(options) or (),
        rows.SUBSCRIBE_PATTERN.find(options),
        rows.ASSIGN.find(options) or (),
    )


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of the option `columns`; by default all, `headers` only with `includeHeaders`."""
    include_headers = INCLUDE_HEADERS.value(options)
    chosen = rows.COLUMNS_OPTION.find(options)
    if chosen is not None:
        return chosen
    return (*COLUMNS, HEADERS_COLUMN) if include_headers else COLUMNS
