"""The arguments of a landing, checked as far as possible without Spark and servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.client.values.errors import SchemaError
from drumlin.metrics_server import listener_at
from drumlin.spark.landing.rows.mode import MODES, PERIODS, Mode, Period
from drumlin.spark.landing.rows.typed import TypedValues, typed_values
from drumlin.spark.landing.s3_account import S3Account
from drumlin.spark.landing.targets.urls import check_places
from drumlin.spark.values.bad_records import BadRecords

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql.types import StructType

    from drumlin.client.values.decoder import Format
    from drumlin.client.values.registry import SchemaRegistry

BATCH_OFFSETS: Final = 1_000_000
#: Longer than the restart of a server takes.
PATIENCE_S: Final = 120.0


class Wanted(NamedTuple):
    """The checked arguments of `land`, without the topics."""

    to: str
    mode: Mode | None
    batch_offsets: int
    partition_by: Period | None
    values: TypedValues | None
    #: Read the whole log first; its rows replace those of the target.
    rebuild: bool
    #: Merge small files after the batches of a round.
    compact: bool
    #: The account for targets in S3.
    s3: S3Account


def checked(
    topics: list[str],
    to: str,
    *,
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
    every_s: float | None = None,
    patience_s: float = PATIENCE_S,
    metrics_listener: str | None = None,
    s3: Mapping[str, str] | None = None,
) -> Wanted:
    """Check these arguments of `land`.

    Raises:
        SchemaError, ValueError: an argument is invalid, or arguments contradict each other.
        DecoderUnavailable: a package is not installed.
    """
    check_places(to, topics)
    if mode not in (None, *MODES):
        raise ValueError(f"mode={mode!r}: expected one of {', '.join(MODES)}")
    if partition_by not in (None, *PERIODS):
        raise ValueError(f"partition_by={partition_by!r}: expected one of {', '.join(PERIODS)}")
    if batch_offsets < 1:
        raise ValueError(f"batch_offsets={batch_offsets}: expected a positive number")
    if every_s is not None and every_s <= 0:
        raise ValueError(f"every_s={every_s}: expected a positive number")
    if patience_s < 0:
        raise ValueError(f"patience_s={patience_s}: expected a number that is not negative")
    if metrics_listener is not None:
        listener_at(metrics_listener)
    values = typed_values(
        format=format,
        schema=schema,
        registry=registry,
        subject=subject,
        message=message,
        bad_records=bad_records,
    )
    if values is not None and schema is not None:
        from drumlin.spark.landing.rows.rows import Rows

        try:
            for each in topics:
                Rows.of(mode or "append", values, each)
        except SchemaError as error:
            raise SchemaError(f"schema: {error}") from None
    account = S3Account.of(s3 or {})
    return Wanted(
        to, mode, batch_offsets, partition_by, values, rebuild, compact_small_files, account
    )
