"""The names of a lake's files, and the content of a load's `_offsets.json`. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from drumlin.spark.landing.rows.mode import Period
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.rows.times import period_values
from drumlin.spark.landing.targets.columns import missing_columns
from drumlin.spark.landing.targets.target import LandingRefused, Position

if TYPE_CHECKING:
    from pyspark.sql import Row

#: Spark and Arrow ignore names that begin with an underscore.
OFFSETS: Final = "_offsets.json"
ASIDE: Final = "_aside"
COLUMNS: Final = "columns"
#: The columns of lakes whose values are bytes, which `_offsets.json` then does not list.
BYTES: Final = {each.name: str(each.type) for each in Rows.of("append").schema}
#: Names of loads sort after it, and `_aside` before it.
FIRST: Final = "load="
#: The name that stands for null in partitioned folders.
_HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"

Told: TypeAlias = dict[str, Any]


def load_name(number: int) -> str:
    """The name of a load's folder."""
    return f"{FIRST}{number:08}"


def load_number(folder: str) -> int | None:
    """The number of the load with this folder name; None if it is not a load's."""
    number = folder.removeprefix(FIRST)
    is_load = folder.startswith(FIRST) and number.isascii() and number.isdecimal()
    return int(number) if is_load else None


def file_name(written: Row, period: Period | None) -> tuple[str, str]:
    """The folder in a load, which may be "", and the name of a file that a task has written."""
    folder = "/".join(
        f"{name}={_HIVE_NULL if value is None else value}"
        for name, value in period_values(written.period, period).items()
    )
    offsets = f"{written.first_offset:020}-{written.end_offset:020}"
    return folder, f"{written.partition}-{offsets}.parquet"


def merged_name(partition: str, names: list[str]) -> tuple[str, dict[str, str]]:
    """The name of a file with the rows of these files of a partition, and its metadata."""
    ranges = [each.removesuffix(".parquet").split("-")[1:] for each in names]
    first, end = min(each[0] for each in ranges), max(each[1] for each in ranges)
    told = {"first_offset": str(int(first)), "end_offset": str(int(end))}
    return f"{partition}-{first}-{end}.parquet", told


def told_by(position: Position, period: Period | None, more: Told) -> bytes:
    """The `_offsets.json` of a load that brings a lake to this position."""
    told = {"topic": position.topic, "topic_id": position.topic_id, "offsets": position.offsets}
    kept_apart = {} if period is None else {"period": period}
    return json.dumps({**told, **kept_apart, **more}).encode()


def position_told(path: str, data: bytes) -> tuple[Told, Position]:
    """The content of a load's `_offsets.json`, and the position in it.

    Raises:
        LandingRefused: there is no position.
    """
    try:
        found: Told = json.loads(data)
        offsets = {int(number): int(each) for number, each in found["offsets"].items()}
        return found, Position(found["topic"], found["topic_id"], offsets)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise no_offsets(path, error) from None


def no_offsets(path: str, error: Exception) -> LandingRefused:
    return LandingRefused(f"{path} tells no offsets: {error!r}")


def grown(columns: Mapping[str, str], rows: Rows, where: str) -> dict[str, str]:
    """The columns of a lake, extended by those of these rows.

    Args:
        columns: the lake's present columns; empty if it is new.

    Raises:
        LandingRefused: a column of earlier loads has another type.
    """
    wanted = {each.name: str(each.type) for each in rows.schema}
    if columns:
        missing_columns(columns, wanted, rows, where)
    return {**columns, **wanted}
