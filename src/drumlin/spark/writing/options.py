"""The sink's options: the names and meanings of Spark's Kafka sink and of Kafka's producer.

Options arrive as text with names in lower case. All are checked before a row is written.
Contradictory options are refused, and so are options that promise what the sink does not do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from drumlin.spark.options.option_names import refuse_unknown
from drumlin.spark.options.option_values import (
    OptionError,
    boolean,
    choice,
    converted,
    parsed,
    positive,
    size_bytes,
    text,
    topic_name,
    whole_number,
)
from drumlin.spark.options.portable import Portable
from drumlin.spark.options.security import security_of
from drumlin.spark.writing.protocol.content import NO_PLAN, Plan
from drumlin.spark.writing.protocol.messages import SinkSettings, SourceOffsets
from drumlin.spark.writing.protocol.names import DECISION_TOPIC

if TYPE_CHECKING:  # pulls in pyarrow
    from pyspark.sql.types import StructType

    from drumlin.peer.security.security import Security

ClientOption: TypeAlias = "str | int | Security"
Delivery: TypeAlias = Literal["exactly-once", "at-least-once"]

#: Options of Kafka's producer that contradict how the sink works, and why.
_REFUSED: Final = {
    "kafka.key.serializer": "keys are strings or bytes; encode them with DataFrame functions",
    "kafka.value.serializer": "values are strings or bytes; encode them with DataFrame functions",
    "kafka.partitioner.class": "no Java runs here; give the rows a column 'partition'",
    "kafka.interceptor.classes": "no Java runs here; change the rows with DataFrame functions",
    "kafka.transactional.id": "the sink names its transactions itself; see 'sinkId'",
}

#: Options that have an effect only with exactly-once delivery.
_OF_EXACTLY_ONCE: Final = (
    "sinkId",
    "writeId",
    "sinkIsNew",
    "decisionTopic",
    "speculation",
    "transactionTimeoutMs",
    "kafka.transaction.timeout.ms",
    "transactionalGroup",
    "transactionalOffsets",
    "batchPlan",
    "rowsMayDiffer",
)

#: Options of Kafka's client that have an effect here, and the name of each in our client.
_CLIENT_OPTIONS: Final = {
    "kafka.request.timeout.ms": "request_timeout_ms",
    "kafka.max.block.ms": "call_timeout_ms",
    "kafka.socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "kafka.retry.backoff.ms": "retry_backoff_ms",
    "kafka.retry.backoff.max.ms": "retry_backoff_max_ms",
}

#: How long a call other than a delivery keeps trying by default.
_PATIENCE_MS: Final = 60_000
_DELIVERY_TIMEOUT_MS: Final = 120_000
_BATCH_BYTES: Final = 1_000_000  # just within a broker's max.message.bytes
_BUFFER_BYTES: Final = 3 << 20
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class SinkOptions(Portable):
    """All options of one query's sink, checked; picklable, as tasks get them too."""

    bootstrap_servers: str
    topic: str | None  # for all rows; None: each row names its topic
    with_timestamps: bool  # those of the rows; else the time of writing
    delivery: Delivery
    sink_id: str | None
    write_id: str | None
    settings: SinkSettings
    source: SourceOffsets | None  # committed with the decision
    acks: Literal["all", "1", "0"]
    retries: int | None
    is_idempotent: bool
    delivery_timeout_ms: int
    buffer_bytes: int
    batch_bytes: int
    compression: str
    compression_level: int | None
    client_options: tuple[tuple[str, ClientOption], ...]  # for `drumlin.connect`

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Check and convert the options, whose names are in lower case.

        Raises:
            OptionError: an option is invalid, or contradicts another.
        """
        for name, reason in _REFUSED.items():
            if name in options:
                raise OptionError(f"option '{name}' is not supported: {reason}")
        if not options.get("kafka.bootstrap.servers", "").strip():
            raise OptionError("option 'kafka.bootstrap.servers' must be specified")
        if boolean(options, "strictOptions", default=False):
            refuse_unknown(options)
        is_exact = choice(options, "delivery", ("exactly-once", "at-least-once")) == "exactly-once"
        if "kafka.linger.ms" in options:  # checked only: windows of rows are not sent by time
            converted(options, "kafka.linger.ms", whole_number, "0")
        boolean(options, "includeHeaders", default=True)  # checked only: headers are always written
        acks, retries = _acks(options), _count(options, "kafka.retries")
        is_idempotent = _is_idempotent(options, acks, retries)
        if is_exact:
            _check_exact(options, acks, is_idempotent=is_idempotent)
        else:
            _check_not_exact(options)
        compression = choice(options, "kafka.compression.type", _CODECS)
        level_name = f"kafka.compression.{compression}.level"
        return cls(
            bootstrap_servers=options["kafka.bootstrap.servers"],
            topic=_topic(options, "topic"),
            with_timestamps=writes_timestamps(options),
            delivery="exactly-once" if is_exact else "at-least-once",
            sink_id=_name(options, "sinkId"),
            write_id=_name(options, "writeId"),
            settings=_settings(options),
            source=_source(options),
            acks=acks,
            retries=retries,
            is_idempotent=is_idempotent,
            delivery_timeout_ms=positive(options, "kafka.delivery.timeout.ms")
            or _DELIVERY_TIMEOUT_MS,
            buffer_bytes=size_bytes(options, "kafka.buffer.memory", _BUFFER_BYTES),
            batch_bytes=_batch_bytes(options),
            compression=compression,
            compression_level=_level(options, level_name),
            client_options=_client_options(options),
        )

    def columns(self, schema: StructType) -> tuple[str, ...]:
        """The columns of rows that are written.

        Raises:
            OptionError: rows of this schema cannot be records.
        """
        from drumlin.spark.writing.columns import written_columns

        return written_columns(schema, self.topic, with_timestamps=self.with_timestamps)


def writes_timestamps(options: Mapping[str, str]) -> bool:
    """Whether a row's `timestamp` is the record's; by default it has the time of writing.

    Raises:
        OptionError: the option is neither true nor false.
    """
    return boolean(options, "writeTimestamps", default=False)


def _acks(options: Mapping[str, str]) -> Literal["all", "1", "0"]:
    acks = choice(options, "kafka.acks", ("all", "-1", "1", "0"))
    return "1" if acks == "1" else "0" if acks == "0" else "all"


def _is_idempotent(options: Mapping[str, str], acks: str, retries: int | None) -> bool:
    wanted = boolean(options, "kafka.enable.idempotence", default=True)
    is_possible = acks == "all" and retries != 0
    if "kafka.enable.idempotence" in options and wanted and not is_possible:
        other = f"'kafka.acks' is {acks!r}" if acks != "all" else "'kafka.retries' is 0"
        raise OptionError(
            f"'kafka.enable.idempotence' is true and {other}: leave out one of the two, as only "
            "what all replicas acknowledge, and what is sent again, can be told from a duplicate"
        )
    return wanted and is_possible


def _check_exact(options: Mapping[str, str], acks: str, *, is_idempotent: bool) -> None:
    """
    Raises:
        OptionError: the other options rule out exactly-once delivery.
    """
    if is_idempotent:
        return
    if acks != "all":
        other = f"'kafka.acks' is {acks!r}"
    elif options.get("kafka.retries") is not None:
        other = "'kafka.retries' is 0"
    else:
        other = "'kafka.enable.idempotence' is false"
    raise OptionError(
        f"{other}, and each batch is to be written exactly once: leave that option out, or set "
        "'delivery' to at-least-once"
    )


def _check_not_exact(options: Mapping[str, str]) -> None:
    """
    Raises:
        OptionError: an option has a meaning with exactly-once delivery only.
    """
    for name in _OF_EXACTLY_ONCE:
        if name.lower() in options:
            raise OptionError(
                f"'delivery' is at-least-once, where option '{name}' has no meaning: leave out "
                "one of the two"
            )


def _name(options: Mapping[str, str], option: str) -> str | None:
    name = text(options, option)
    if name is not None and not _NAME.fullmatch(name):
        raise OptionError(
            f"option '{option}' must be up to 100 letters, digits, dots, dashes and underscores, "
            f"not {name!r}"
        )
    return name


def _topic(options: Mapping[str, str], option: str) -> str | None:
    topic = text(options, option)
    return None if topic is None else topic_name(option, topic)


def _settings(options: Mapping[str, str]) -> SinkSettings:
    named = [
        (name, positive(options, name))
        for name in ("transactionTimeoutMs", "kafka.transaction.timeout.ms")
        if name.lower() in options
    ]
    if len({value for _, value in named}) > 1:
        raise OptionError(
            "'transactionTimeoutMs' and 'kafka.transaction.timeout.ms' are one option and differ: "
            "leave out one of them"
        )
    return SinkSettings(
        decision_topic=_topic(options, "decisionTopic") or DECISION_TOPIC,
        transaction_timeout_ms=named[0][1] if named else None,
        may_begin_late=boolean(options, "sinkIsNew", default=False),
        speculation=boolean(options, "speculation", default=False),
        rows_may_differ=boolean(options, "rowsMayDiffer", default=False),
    )


def _source(options: Mapping[str, str]) -> SourceOffsets | None:
    group, offsets = text(options, "transactionalGroup"), options.get("transactionaloffsets")
    told = options.get("batchplan")
    plan = NO_PLAN if told is None else Plan(*json.loads(told))
    if group is None:
        return None if told is None else SourceOffsets(plan=plan)
    if offsets is None:  # Spark does not tell a sink the offsets of its sources
        raise OptionError(
            "the option 'transactionalGroup' is for `drumlin.spark.sink` in foreachBatch; any "
            "stream that reads topics has 'commitOffsetsToGroup', which commits afterwards"
        )
    ends = json.loads(offsets)
    places = {(topic, int(key)): end for topic in ends for key, end in ends[topic].items()}
    return SourceOffsets(group, places, plan)


def _count(options: Mapping[str, str], name: str) -> int | None:
    """A number from 0 to 2**31 - 1; None where the option is not given."""
    given = options.get(name)
    if given is None:
        return None
    value = parsed(name, given, whole_number)
    if not 0 <= value < 2**31:
        raise OptionError(f"option '{name}' must be from 0 to 2147483647, not {value}")
    return value


def _batch_bytes(options: Mapping[str, str]) -> int:
    size = _count(options, "kafka.batch.size")
    largest = positive(options, "kafka.max.request.size")
    wanted = _BATCH_BYTES if size is None else max(1, size)
    return wanted if largest is None else min(wanted, largest)


def _level(options: Mapping[str, str], name: str) -> int | None:
    return parsed(name, options[name], whole_number) if name in options else None


def _client_options(options: Mapping[str, str]) -> tuple[tuple[str, ClientOption], ...]:
    values: dict[str, ClientOption] = {"client_id": options.get("kafka.client.id", "drumlin-spark")}
    security = security_of(options)
    if security is not None:
        values["security"] = security
    for name, keyword in _CLIENT_OPTIONS.items():
        number = positive(options, name)
        if number is not None:
            values[keyword] = number
    # As in the source: a rolling restart of the brokers must not fail a task.
    if "request_timeout_ms" not in values:
        values.setdefault("call_timeout_ms", _PATIENCE_MS)
    return tuple(values.items())
