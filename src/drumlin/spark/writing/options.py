"""The sink's options: the names and meanings of Spark's Kafka sink and of Kafka's producer.

Options arrive as text with names in lower case. All are checked before a row is written.
Contradictory options are refused, and so are options that promise what the sink does not do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drumlin.spark.options import sink_rows as rows
from drumlin.spark.options.client_options import ClientOptions, checked_bootstrap, client_options
from drumlin.spark.options.client_rows import INCLUDE_HEADERS
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.portable import Portable
from drumlin.spark.options.sink_rows import Acks, Delivery
from drumlin.spark.writing.identity import NumberedBatch
from drumlin.spark.writing.protocol.content import NO_PLAN, Plan
from drumlin.spark.writing.protocol.messages import SinkSettings, SourceOffsets

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class SinkOptions(Portable):
    """All options of one query's sink, checked; picklable, as tasks get them too."""

    bootstrap_servers: str
    topic: str | None  # for all rows; None: each row names its topic
    with_timestamps: bool  # the rows' timestamps; else the time of writing
    delivery: Delivery
    sink_id: str | None
    write_id: str | None
    numbered: NumberedBatch | None  # for a write that is a batch, but not of a stream
    settings: SinkSettings
    source: SourceOffsets | None  # committed with the decision
    acks: Acks
    retries: int | None
    is_idempotent: bool
    delivery_timeout_ms: int
    buffer_bytes: int
    batch_bytes: int
    compression: str
    compression_level: int | None
    client_options: ClientOptions  # for `drumlin.connect`

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Check and convert the options, whose names are in lower case.

        Raises:
            OptionError: an option is invalid, or contradicts another.
        """
        bootstrap_servers = checked_bootstrap(options, "sink", rows.REFUSED_BY_SINK)
        delivery = rows.DELIVERY.value(options)
        acks, retries = rows.ACKS.value(options), rows.RETRIES.find(options)
        is_idempotent = _is_idempotent(options, acks, retries)
        if delivery == "exactly-once":
            _check_exact(options, acks, is_idempotent=is_idempotent)
        else:
            _check_not_exact(options)
        for checked_only in (rows.LINGER, INCLUDE_HEADERS):
            checked_only.find(options)
        compression = rows.COMPRESSION.value(options)
        level = rows.COMPRESSION_LEVELS.get(compression)
        return cls(
            bootstrap_servers=bootstrap_servers,
            topic=rows.TOPIC.find(options),
            with_timestamps=writes_timestamps(options),
            delivery=delivery,
            sink_id=rows.SINK_ID.find(options),
            write_id=rows.WRITE_ID.find(options),
            numbered=_numbered(options),
            settings=_settings(options),
            source=_source(options),
            acks=acks,
            retries=retries,
            is_idempotent=is_idempotent,
            delivery_timeout_ms=rows.DELIVERY_TIMEOUT.value(options),
            buffer_bytes=rows.BUFFER_BYTES.value(options),
            batch_bytes=_batch_bytes(options),
            compression=compression,
            compression_level=None if level is None else level.find(options),
            client_options=client_options(options, "sink"),
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
    return rows.WRITE_TIMESTAMPS.value(options)


def _is_idempotent(options: Mapping[str, str], acks: str, retries: int | None) -> bool:
    requested = rows.IDEMPOTENCE.value(options)
    is_possible = acks == "all" and retries != 0
    if rows.IDEMPOTENCE.is_in(options) and requested and not is_possible:
        other = f"'kafka.acks' is {acks!r}" if acks != "all" else "'kafka.retries' is 0"
        raise OptionError(
            f"'kafka.enable.idempotence' is true and {other}: leave out one of the two, as "
            "duplicates are only detected with acks=all and retries"
        )
    return requested and is_possible


def _check_exact(options: Mapping[str, str], acks: str, *, is_idempotent: bool) -> None:
    """
    Raises:
        OptionError: the other options rule out exactly-once delivery.
    """
    if is_idempotent:
        return
    if acks != "all":
        other = f"'kafka.acks' is {acks!r}"
    elif rows.RETRIES.find(options) == 0:
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
    for row in rows.SINK_ROWS:
        if row.exactly_once and row.is_in(options):
            raise OptionError(
                f"'delivery' is at-least-once, where option '{row.name}' has no meaning: leave "
                "out one of the two"
            )


def _settings(options: Mapping[str, str]) -> SinkSettings:
    named = [
        row.value(options)
        for row in (rows.OWN_TRANSACTION_TIMEOUT, rows.TRANSACTION_TIMEOUT)
        if row.is_in(options)
    ]
    if len(set(named)) > 1:
        raise OptionError(
            "'transactionTimeoutMs' and 'kafka.transaction.timeout.ms' are one option and differ: "
            "leave out one of them"
        )
    return SinkSettings(
        decision_topic=rows.DECISION_TOPIC.value(options),
        transaction_timeout_ms=named[0] if named else None,
        may_begin_late=rows.SINK_IS_NEW.value(options),
        speculation=rows.SPECULATION.value(options),
        rows_may_differ=rows.ROWS_MAY_DIFFER.value(options),
    )


def _numbered(options: Mapping[str, str]) -> NumberedBatch | None:
    found = rows.NUMBERED_BATCH.find(options)
    return None if found is None else NumberedBatch(*found)


def _source(options: Mapping[str, str]) -> SourceOffsets | None:
    group, ends = rows.TRANSACTIONAL_GROUP.find(options), rows.TRANSACTIONAL_OFFSETS.find(options)
    found = rows.BATCH_PLAN.find(options)
    plan = NO_PLAN if found is None else Plan(*found)
    if group is None:
        return None if found is None else SourceOffsets(plan=plan)
    if ends is None:  # Spark does not give a sink the offsets of its sources
        raise OptionError(
            "the option 'transactionalGroup' is for `drumlin.spark.sink` in foreachBatch; any "
            "stream that reads topics has 'commitOffsetsToGroup', which commits afterwards"
        )
    places = {(topic, int(key)): end for topic in ends for key, end in ends[topic].items()}
    return SourceOffsets(group, places, plan)


def _batch_bytes(options: Mapping[str, str]) -> int:
    requested = max(1, rows.BATCH_SIZE.value(options))
    largest = rows.MAX_REQUEST_SIZE.find(options)
    return requested if largest is None else min(requested, largest)
