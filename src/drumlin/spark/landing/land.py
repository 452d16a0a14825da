"""`drumlin.spark.land`: copies topics into tables and files, every record exactly once.

The loop has no state of its own: each batch starts at the position stored in the target.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from drumlin.metrics_server import metrics_served
from drumlin.spark.landing.metrics import LandingMetrics
from drumlin.spark.landing.patience import patiently
from drumlin.spark.landing.rows.mode import Mode, Period
from drumlin.spark.landing.run import GROUP, Landing, Run
from drumlin.spark.landing.wanted import BATCH_OFFSETS, PATIENCE_S, checked
from drumlin.spark.options.keyword_options import read_options
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.values.bad_records import BadRecords

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from drumlin.client.values.decoder import Format
    from drumlin.client.values.registry import SchemaRegistry

_ISOLATION: Final = "kafka.isolation.level"
#: The options that a user may set, besides those of the connection.
_ALLOWED: Final = {"failondataloss", "minpartitions", "maxrecordsperpartition"}


def land(
    spark: SparkSession,
    topics: str | Sequence[str],
    to: str,
    *,
    bootstrap: str,
    mode: Mode | None = None,
    batch_offsets: int = BATCH_OFFSETS,
    partition_by: Period | None = None,
    format: Format | None = None,  # noqa: A002
    schema: StructType | str | None = None,
    registry: SchemaRegistry | str | None = None,
    subject: str | None = None,
    message: str | None = None,
    bad_records: BadRecords = "fail",
    rebuild: bool = False,
    compact_small_files: bool = False,
    group: str | None = None,
    every_s: float | None = None,
    patience_s: float = PATIENCE_S,
    stop: threading.Event | None = None,
    on_progress: Callable[[Landing], None] | None = None,
    on_retry: Callable[[Exception], None] | None = None,
    metrics_listener: str | None = None,
    s3: Mapping[str, str] | None = None,
    **options: object,
) -> list[Landing]:
    """Copy the new records of topics to tables or files, every record exactly once.

    Each commit of the target makes records and the new position visible together. There is no
    checkpoint: after a kill at any moment, the next run continues from the target's position. Only
    committed records land.

    Args:
        topics: a name, or several.
        to: the target: `parquet:FOLDER`, `hdfs://HOST:PORT/FOLDER`, `s3://BUCKET/FOLDER` (Parquet
            files), `delta:TABLE`, `iceberg:CATALOG/NAMESPACE.TABLE[?buckets=N]`,
            `postgresql://USER@HOST/DATABASE[?table=NAME]` (the name is the topic's by default).
            `{topic}` stands for the topic's name, and is needed for several topics.
        bootstrap: some of the brokers, as `host:port,…`.
        mode: `append`: a row for every record. `upsert`: a row for every key, with its last value;
            records without a key are skipped. None: `upsert` for compacted topics, else `append`.
        batch_offsets: the approximate number of offsets in a batch, which is one commit.
        partition_by: partition the rows by `day` or `hour` (of their timestamps, in UTC). In mode
            `append` only; the partitioning of a target cannot be changed later.
        format: `json`, `avro` or `protobuf`: the fields of values become columns, instead of the
            bytes. None: bytes.
        schema, registry, subject, message: as for `decode_values`. In a registry, the subject is
            `{topic}-value` by default, and its latest schema is looked up before each round:
            columns that it adds are added to the target.
        bad_records: records whose values cannot be decoded: `fail` stops, and names the record;
            `drop` leaves them out; `column` adds columns `error` and `raw`, see `decode_values`.
        rebuild: read the whole log first, and make the target equal to its state, in one step. In
            mode `upsert` only: the remedy if deletions may have been lost.
        compact_small_files: merge small files after each round that has landed something.
        group: a consumer group whose offsets show the progress; they are never read.
        every_s: land repeatedly, with a pause of this many seconds between rounds, until `stop` is
            set. None: return when all records that are in the log now have landed.
        patience_s: how long to retry if brokers, a registry or a database cannot be reached,
            counted from the last batch that has landed.
        stop: set it to end the loop after the current batch.
        on_progress: called after each batch.
        on_retry: called with the error before each retry.
        metrics_listener: an address, as `127.0.0.1:9405`, at which Prometheus finds the progress.
        s3: for `s3://…` and `delta:s3://…`, settings that override AWS's environment and files:
            `endpoint`, `region`, `access_key_id`, `secret_access_key`, `session_token`. They are
            sent to the tasks.
        options: `kafka.…` as for `format("drumlin")`, `minPartitions`, `maxRecordsPerPartition`
            and `failOnDataLoss`: with false, continue at the log's start if records were lost.

    Returns:
        The progress of each topic, in the order of `topics`.

    Raises:
        OtherTopic: a target belongs to another topic, or the topic was deleted and recreated.
        OtherRun: another run lands into the same target.
        RecordsLost: the records after the target's position are no longer in the log; or the last
            run was so long ago that tombstones may have been removed.
        LandingRefused: there is something in the target's place that no landing has created, or it
            has other columns; or S3 refuses the login, or has no such bucket.
        SchemaError, RegistryError, DecoderUnavailable: as from `decode_values`.
        OptionError, ValueError: an argument or option is invalid.
        UnknownTopic: there is no such topic.
    """
    names = [topics] if isinstance(topics, str) else list(topics)
    wanted = checked(
        names,
        to,
        mode=mode,
        batch_offsets=batch_offsets,
        partition_by=partition_by,
        format=format,
        schema=schema,
        registry=registry,
        subject=subject,
        message=message,
        bad_records=bad_records,
        rebuild=rebuild,
        compact_small_files=compact_small_files,
        every_s=every_s,
        patience_s=patience_s,
        metrics_listener=metrics_listener,
        s3=s3,
    )
    stop, metrics = stop or threading.Event(), LandingMetrics()

    def progress(now: Landing) -> None:
        metrics.tell(now)
        if on_progress is not None:
            on_progress(now)

    def retry(error: Exception) -> None:
        metrics.tell_retry()
        if on_retry is not None:
            on_retry(error)

    with ExitStack() as stack:
        stack.enter_context(metrics_served(metrics_listener, metrics))
        runs = []
        for name in names:
            given = _options(name, bootstrap, group, options)
            runs.append(stack.enter_context(Run(spark, name, wanted, given)))
        while True:
            for run in runs:
                patiently(run, patience_s, stop, metrics.tell, progress, retry)
            if every_s is None or stop.wait(every_s):
                return [run.tell() for run in runs]


def landed(
    topics: str | Sequence[str],
    to: str,
    *,
    bootstrap: str,
    mode: Mode | None = None,
    partition_by: Period | None = None,
    s3: Mapping[str, str] | None = None,
    **options: object,
) -> list[Landing]:
    """The progress of topics, and how far their targets lag behind. Read-only, without Spark.

    Arguments and errors are those of `land`.
    """
    names = [topics] if isinstance(topics, str) else list(topics)
    wanted = checked(names, to, mode=mode, partition_by=partition_by, s3=s3)
    found = []
    for name in names:
        with Run(None, name, wanted, _options(name, bootstrap, None, options)) as run:
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
    return given if group is None else {**given, GROUP: group}
