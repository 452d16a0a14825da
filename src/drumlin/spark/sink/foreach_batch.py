"""A function for `foreachBatch` that writes each micro-batch to topics, in one decision.

For what `writeStream.format("drumlin")` cannot take: PySpark offers no sink in Python the output
mode update, and a stream has one sink. It only puts together the rows and options of one batch
write; that makes sure itself that a batch is written once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from drumlin.spark.option_values import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Makes of a micro-batch the rows of one topic.
RowsOf: TypeAlias = "Callable[[DataFrame], DataFrame]"

#: Types differ between the rows of several topics, and a union has one of each.
_AS_BINARY: Final[tuple[str, ...]] = ("key", "value")


def sink(
    topic: str | Mapping[str, RowsOf] | None = None,
    *,
    bootstrap_servers: str,
    **options: object,
) -> Callable[[DataFrame, int], None]:
    """A function for `DataStreamWriter.foreachBatch`, which writes every micro-batch once.

    Args:
        topic: where the rows go; or a function for each topic, which makes the topic's rows of the
            micro-batch; or None if the rows have a column `topic`. However many topics there are,
            a batch becomes visible in all of them or in none.
        options: those of `format("drumlin")` as a sink; those with dots as `**{"kafka.acks": …}`.

    Raises:
        OptionError: there is no topic at all.
    """
    given = {name.lower(): _text(value) for name, value in options.items()}
    given["kafka.bootstrap.servers"] = bootstrap_servers
    if isinstance(topic, str):
        given["topic"] = topic
    rows_of = topic if isinstance(topic, Mapping) else None
    if rows_of is not None and not rows_of:
        raise OptionError("a sink with a function for each topic has at least one")
    return functools.partial(_write, given, rows_of)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _write(
    options: Mapping[str, str],
    rows_of: Mapping[str, RowsOf] | None,
    batch: DataFrame,
    batch_id: int,
) -> None:
    if rows_of is None or len(rows_of) == 1:
        _save(_rows(batch, rows_of), options)
        return
    batch.persist()  # else it would be computed once for each topic
    try:
        _save(_rows(batch, rows_of), options)
    finally:
        batch.unpersist()


def _save(rows: DataFrame, options: Mapping[str, str]) -> None:
    rows.write.format("drumlin").mode("append").options(**options).save()


def _rows(batch: DataFrame, rows_of: Mapping[str, RowsOf] | None) -> DataFrame:
    """The rows of all topics, each with the name of its own."""
    from pyspark.sql.functions import col, lit

    if rows_of is None:
        return batch
    parts = []
    for topic, make in rows_of.items():
        rows = make(batch)
        columns = {name: col(name).cast("binary") for name in _AS_BINARY if name in rows.columns}
        columns["topic"] = lit(topic)
        parts.append(rows.withColumns(columns))
    return functools.reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
