"""The rows of the source's options, and of the options only for a state from a log.

Names, defaults and refusals are those of Spark's Kafka source, if it has them.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from drumlin.spark.options.java_pattern import python_pattern
from drumlin.spark.options.offsets import (
    WORDS,
    OffsetLimit,
    TopicPartition,
    parse_offsets,
    parse_partitions,
    parse_times,
)
from drumlin.spark.options.option import IT_IS_NO_STREAM, STATES, Option, Refusal, rows_among
from drumlin.spark.options.option_values import (
    boolean,
    choice,
    duration_ms,
    not_blank,
    not_negative,
    positive,
    size_bytes,
    time_ms,
    topic_name,
    whole_number,
)
from drumlin.spark.options.starts import parse_start

#: The columns of Spark's Kafka source, in its order; `headers` comes last, and only on request.
COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS_COLUMN: Final = "headers"

IsolationLevel: TypeAlias = Literal["read_uncommitted", "read_committed"]

_NAMED_ELSEWHERE: Final = "the topic is an argument of the function"
_START_FOLLOWS: Final = "it follows from the moment where to start"
_END_FOLLOWS: Final = "it follows from the moment where to end"


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(topic.strip() for topic in text.split(",") if topic.strip())
    if not topics:
        raise ValueError(f"no topics to subscribe to: {text!r}")
    return tuple(map(topic_name, topics))


def _pattern(text: str) -> str:
    if not text.strip():
        raise ValueError("the pattern is empty")
    return python_pattern(text.strip())


def _partitions(text: str) -> tuple[TopicPartition, ...]:
    partitions = parse_partitions(text.strip())
    if not partitions:
        raise ValueError(f"no topic-partitions to assign: {text!r}")
    for topic in {key.topic for key in partitions}:
        topic_name(topic)
    return partitions


def _offsets(text: str) -> OffsetLimit:
    word = WORDS.get(text.strip().lower())
    return parse_offsets(text) if word is None else OffsetLimit(word)


def _columns(text: str) -> tuple[str, ...]:
    everything = (*COLUMNS, HEADERS_COLUMN)
    known = {name.lower(): name for name in everything}
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name.lower() not in known]
    if unknown or not names:
        raise ValueError(
            f"{', '.join(unknown) or 'nothing'} is not a column of a topic; there are "
            f"{', '.join(everything)}"
        )
    columns = tuple(known[name.lower()] for name in names)
    if len(set(columns)) < len(columns):
        raise ValueError(f"names a column twice: {text!r}")
    return columns


SUBSCRIBE: Final = Option(
    "subscribe",
    _topics,
    "the names of topics, with commas between them. Exactly one of this and the next two must be "
    "given",
)
SUBSCRIBE_PATTERN: Final = Option(
    "subscribePattern",
    _pattern,
    "a regular expression for the whole name of a topic, as in Java; what cannot be translated is "
    "refused",
    not_of_states=_NAMED_ELSEWHERE,
)
ASSIGN: Final = Option(
    "assign",
    _partitions,
    'partitions of topics, as JSON: `{"topic":[0,1]}`',
    not_of_states=_NAMED_ELSEWHERE,
)
STARTING_OFFSETS: Final = Option(
    "startingOffsets",
    parse_start,
    "`earliest`, `latest`, or JSON for all partitions: "
    '`{"topic":{"0":23,"1":-2}}`, where -2 is the earliest and -1 the latest; a word does for a '
    'topic: `{"a":"earliest","b":{"0":23}}`. Or `10 minutes ago`, `last 100`, `group:NAME`: '
    "[Where to start](#where-to-start)",
    shown="`earliest` (batch), `latest` (stream)",
    not_of_states=_START_FOLLOWS,
)
STARTING_TIMESTAMP: Final = Option(
    "startingTimestamp",
    time_ms,
    "milliseconds since 1970: the first record that is not older. It wins over "
    "`startingOffsetsByTimestamp`, and that over `startingOffsets`",
    not_of_states=_START_FOLLOWS,
)
STARTING_OFFSETS_BY_TIMESTAMP: Final = Option(
    "startingOffsetsByTimestamp",
    parse_times,
    'the same for each partition, as JSON: `{"topic":{"0":1357020000000}}`',
    not_of_states=_START_FOLLOWS,
)
STRATEGY: Final = Option(
    "startingOffsetsByTimestampStrategy",
    choice("error", "latest"),
    "what to do if no record is at or after the time: `error` or `latest`",
    "error",
)
ENDING_OFFSETS: Final = Option(
    "endingOffsets",
    _offsets,
    "where a batch ends, exclusive: `latest`, or JSON as in `startingOffsets`; a stream has no end",
    shown="`latest`",
    not_of_states=_END_FOLLOWS,
)
ENDING_TIMESTAMP: Final = Option(
    "endingTimestamp",
    time_ms,
    "the same, as `startingTimestamp`",
    not_of_states=_END_FOLLOWS,
)
ENDING_OFFSETS_BY_TIMESTAMP: Final = Option(
    "endingOffsetsByTimestamp",
    parse_times,
    "the same, as `startingOffsetsByTimestamp`",
    not_of_states=_END_FOLLOWS,
)
FAIL_ON_DATA_LOSS: Final = Option(
    "failOnDataLoss",
    boolean,
    "fail if records, partitions or topics are gone before they were read; otherwise warn and "
    "continue without what is proven gone: [Loss](#loss)",
    "true",
    not_of_states="with records missing it would be wrong, so it fails",
)
COLUMNS_OPTION: Final = Option(
    "columns",
    _columns,
    "columns and their order: `offset,value`. Then `includeHeaders` adds nothing",
    shown="all but `headers`",
)
SNAPSHOT: Final = Option(
    "snapshot",
    str,
    "in a batch: the last record of each key only, see "
    "[The table in a log](spark-state.md#as-an-option)",
)
PUSH_FILTERS: Final = Option(
    "pushFilters",
    boolean,
    "filters of a batch query choose what is read: [Filters](#filters)",
    "false",
)
MIN_PARTITIONS: Final = Option(
    "minPartitions",
    positive,
    "how many tasks at least: [Tasks](#tasks)",
    shown="by size",
)
MAX_RECORDS_PER_PARTITION: Final = Option(
    "maxRecordsPerPartition",
    positive,
    "how many offsets a task reads at most",
    shown="by size",
)
MAX_OFFSETS_PER_TRIGGER: Final = Option(
    "maxOffsetsPerTrigger",
    positive,
    "how many offsets a batch of a stream takes, shared out by what the partitions hold",
    shown="no limit",
    not_of_states=IT_IS_NO_STREAM,
)
MAX_BYTES_PER_TRIGGER: Final = Option(
    "maxBytesPerTrigger",
    positive,
    "about how many bytes of the logs a batch of a stream takes; of this and the limits on "
    "offsets, the narrowest counts",
    shown="no limit",
    not_of_states=IT_IS_NO_STREAM,
)
MIN_OFFSETS_PER_TRIGGER: Final = Option(
    "minOffsetsPerTrigger",
    positive,
    "wait with a batch of a stream for that many offsets. The last batch of available-now does "
    "not wait",
    shown="none",
    not_of_states=IT_IS_NO_STREAM,
)
MAX_TRIGGER_DELAY: Final = Option(
    "maxTriggerDelay",
    duration_ms,
    "how long `minOffsetsPerTrigger` may keep a batch waiting: milliseconds, or `30s`, `15m`, `2h`",
    "15m",
    not_of_states=IT_IS_NO_STREAM,
)
CHECKPOINT_TOPIC_IDS: Final = Option(
    "checkpointTopicIds",
    boolean,
    "keep the ids of topics in a stream's checkpoint, so that one that was created again is "
    "noticed: [Loss](#loss)",
    "false",
    not_of_states=IT_IS_NO_STREAM,
)
COMMIT_OFFSETS_TO_GROUP: Final = Option(
    "commitOffsetsToGroup",
    not_blank,
    "a consumer group to which a stream commits its progress: [Progress](#progress); ignored by a "
    "batch",
    not_of_states=IT_IS_NO_STREAM,
)
ISOLATION_LEVEL: Final[Option[IsolationLevel]] = Option(
    "kafka.isolation.level",
    choice("read_uncommitted", "read_committed"),
    "`read_committed` leaves out records of open and aborted transactions",
    "read_uncommitted",
)
NUM_RETRIES: Final = Option(
    "fetchOffset.numRetries",
    whole_number,
    "how often the driver asks in all, if an answer is an error or cannot be true",
    "3",
)
RETRY_INTERVAL: Final = Option(
    "fetchOffset.retryIntervalMs",
    not_negative,
    "how long the driver waits before it asks again",
    "1000",
)
FETCH_BYTES: Final = Option(
    "kafka.max.partition.fetch.bytes",
    size_bytes,
    "how much a task fetches and decodes at a time: bytes, or `512k`, `8m`",
    "8m",
)
BATCH_BYTES: Final = Option(
    "batchBytes",
    size_bytes,
    "about how large the Arrow batches for Spark are, independent of the fetches",
    "8m",
)
#: Only compared with the group of `commitOffsetsToGroup`.
GROUP_ID: Final = Option("kafka.group.id", str, "")
#: A user's pickled function for a stream, set by `map_batches`.
TRANSFORM: Final = Option("transform", str, "")

REDUCERS: Final = Option(
    "reducers",
    positive,
    "into how many parts the table is divided: one part must fit a worker",
    shown="a part of the log of 48 MiB each; at least the session's default parallelism (4 over "
    "Spark Connect)",
    directions=STATES,
)
TASK_MEMORY: Final = Option(
    "taskMemory",
    size_bytes,
    "how many bytes of records a task keeps before it passes them on",
    "64m",
    directions=STATES,
)
ALLOW_INEXACT: Final = Option(
    "allowInexact",
    boolean,
    "accept a table that is not exact, because the log has lost records of it",
    "false",
    directions=STATES,
)

#: All of the above, in their order.
SOURCE_ROWS: Final[tuple[Option[Any], ...]] = rows_among(globals())

REFUSED_BY_SOURCE: Final = (
    Refusal(
        "kafka.auto.offset.reset", "set 'startingOffsets' instead: Spark keeps the offsets itself"
    ),
    Refusal("kafka.key.deserializer", "keys are bytes; decode them with DataFrame functions"),
    Refusal("kafka.value.deserializer", "values are bytes; decode them with DataFrame functions"),
    Refusal(
        "kafka.enable.auto.commit",
        "offsets are kept in the checkpoint; see 'commitOffsetsToGroup'",
    ),
    Refusal("kafka.interceptor.classes", "an interceptor could change the records"),
)
