"""The rows of the sink's options: names and meanings of Spark's Kafka sink and Kafka's producer."""

from __future__ import annotations

import json
from typing import Any, Final, Literal, TypeAlias

from drumlin.spark.options.option import WRITES, Option, Refusal, rows_among
from drumlin.spark.options.option_values import (
    boolean,
    choice,
    count,
    not_blank,
    positive,
    sink_name,
    size_bytes,
    stripped_topic_name,
    whole_number,
)

Acks: TypeAlias = Literal["all", "1", "0"]
Delivery: TypeAlias = Literal["exactly-once", "at-least-once"]


def _acks(text: str) -> Acks:
    word = choice("all", "-1", "1", "0")(text)
    return "1" if word == "1" else "0" if word == "0" else "all"


TOPIC: Final = Option(
    "topic", stripped_topic_name, "the topic of all rows; overrides the column", directions=WRITES
)
DELIVERY: Final[Option[Delivery]] = Option(
    "delivery",
    choice("exactly-once", "at-least-once"),
    "`exactly-once` or `at-least-once`",
    "exactly-once",
    directions=WRITES,
)
WRITE_TIMESTAMPS: Final = Option(
    "writeTimestamps",
    boolean,
    "records get the timestamps of the column `timestamp`, [which retention goes "
    "by](#old-timestamps); else the time of writing",
    "false",
    directions=WRITES,
)
SINK_ID: Final = Option(
    "sinkId",
    sink_name,
    "the sink's name, up to 100 letters, digits, dots, dashes and underscores",
    shown="query id, `.`, topic",
    directions=WRITES,
    exactly_once=True,
)
WRITE_ID: Final = Option(
    "writeId",
    sink_name,
    "the name of a batch write; under one name it takes effect once",
    directions=WRITES,
    exactly_once=True,
)
SINK_IS_NEW: Final = Option(
    "sinkIsNew",
    boolean,
    "the query has not written there before, although its batch is not the first",
    "false",
    directions=WRITES,
    exactly_once=True,
)
ROWS_MAY_DIFFER: Final = Option(
    "rowsMayDiffer",
    boolean,
    "the query may produce other rows from the same input (`rand()`, `uuid()`, tables that "
    "change): a batch that is repeated stays as it was decided, [whatever its rows](#limits)",
    "false",
    directions=WRITES,
    exactly_once=True,
)
DECISION_TOPIC: Final = Option(
    "decisionTopic",
    stripped_topic_name,
    "the topic of decisions",
    "drumlin-sinks",
    directions=WRITES,
    exactly_once=True,
)
_TIMEOUT: Final = "the longest that brokers allow"
TRANSACTION_TIMEOUT: Final = Option(
    "kafka.transaction.timeout.ms",
    positive,
    "an open transaction is aborted after this time",
    shown=_TIMEOUT,
    directions=WRITES,
    exactly_once=True,
)
OWN_TRANSACTION_TIMEOUT: Final = Option(
    "transactionTimeoutMs",
    positive,
    "another name of `kafka.transaction.timeout.ms`",
    shown=_TIMEOUT,
    directions=WRITES,
    exactly_once=True,
)
SPECULATION: Final = Option(
    "speculation",
    boolean,
    "look with each batch for what speculative twins have left",
    "false",
    shown="as `spark.speculation`",
    directions=WRITES,
    exactly_once=True,
)
TRANSACTIONAL_GROUP: Final = Option(
    "transactionalGroup",
    not_blank,
    "in `drumlin.spark.sink`: a group that gets the source's offsets "
    "[in the same decision](#update-mode-and-several-topics)",
    directions=WRITES,
    exactly_once=True,
)
#: Set by `drumlin.spark.sink`: the end offsets of a micro-batch for that group, and its plan.
TRANSACTIONAL_OFFSETS: Final[Option[Any]] = Option(
    "transactionalOffsets", json.loads, "", directions=WRITES, exactly_once=True
)
BATCH_PLAN: Final[Option[Any]] = Option(
    "batchPlan", json.loads, "", directions=WRITES, exactly_once=True
)
#: Set by `drumlin.spark.capture_query`, which counts its writes as the batches of one sink.
NUMBERED_BATCH: Final[Option[Any]] = Option(
    "numberedBatch", json.loads, "", directions=WRITES, exactly_once=True
)
ACKS: Final = Option(
    "kafka.acks",
    _acks,
    "`all`, or with at-least-once delivery `1` or `0`",
    "all",
    directions=WRITES,
)
IDEMPOTENCE: Final = Option(
    "kafka.enable.idempotence",
    boolean,
    "`false` with at-least-once delivery only",
    "true",
    directions=WRITES,
)
RETRIES: Final = Option(
    "kafka.retries",
    count,
    "how often a record batch is retried; 0 with at-least-once delivery only",
    shown="until the delivery timeout",
    directions=WRITES,
)
COMPRESSION: Final = Option(
    "kafka.compression.type",
    choice("none", "gzip", "snappy", "lz4", "zstd"),
    "`none`, `gzip`, `snappy`, `lz4` or `zstd`",
    "none",
    directions=WRITES,
)


def _level(codec: str) -> Option[int]:
    return Option(
        f"kafka.compression.{codec}.level",
        whole_number,
        f"the level of `{codec}`",
        shown="the codec's own",
        directions=WRITES,
    )


GZIP_LEVEL: Final = _level("gzip")
LZ4_LEVEL: Final = _level("lz4")
ZSTD_LEVEL: Final = _level("zstd")
COMPRESSION_LEVELS: Final = {"gzip": GZIP_LEVEL, "lz4": LZ4_LEVEL, "zstd": ZSTD_LEVEL}
BATCH_SIZE: Final = Option(
    "kafka.batch.size",
    count,
    "how many bytes a record batch has at most. A single row may have more, as far as the topic's "
    "`max.message.bytes` allows",
    "1000000",  # just within a broker's max.message.bytes
    directions=WRITES,
)
MAX_REQUEST_SIZE: Final = Option(
    "kafka.max.request.size",
    positive,
    "the same; the smaller of the two applies",
    directions=WRITES,
)
BUFFER_BYTES: Final = Option(
    "kafka.buffer.memory",
    size_bytes,
    "how much may be in flight without an answer: bytes, or `512k`, `3m`",
    "3m",
    directions=WRITES,
)
DELIVERY_TIMEOUT: Final = Option(
    "kafka.delivery.timeout.ms",
    positive,
    "how long a record batch may take to be acknowledged",
    "120000",
    directions=WRITES,
)
#: Only checked: batches are sent by size, not by time.
LINGER: Final = Option(
    "kafka.linger.ms",
    whole_number,
    "without effect: rows are collected until there are enough of them",
    directions=WRITES,
)

#: All of the above, in their order.
SINK_ROWS: Final[tuple[Option[Any], ...]] = rows_among(globals())

REFUSED_BY_SINK: Final = (
    Refusal(
        "kafka.key.serializer", "keys are strings or bytes; encode them with DataFrame functions"
    ),
    Refusal(
        "kafka.value.serializer",
        "values are strings or bytes; encode them with DataFrame functions",
    ),
    Refusal("kafka.partitioner.class", "no Java runs here; give the rows a column 'partition'"),
    Refusal(
        "kafka.interceptor.classes", "no Java runs here; change the rows with DataFrame functions"
    ),
    Refusal("kafka.transactional.id", "the sink names its transactions itself; see 'sinkId'"),
)
