"""Settings of a Spark session that make source and sink cheaper, each proven by measurement; and
the registration of the data source, if Spark cannot find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Turn off checks of Arrow's Java library for every value that Spark reads: a fifth of its work.
_JVM_FLAGS: Final = (
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)
_UNIX_SOCKETS: Final = "spark.python.unix.domain.socket.enabled"
#: A writing task holds two of Spark's batches at a time; with rows of 500 KB, each has 64 MiB.
_BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_BATCH_BYTES_MAX: Final = 8 << 20


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Make `format("drumlin")` cheaper by settings on a builder; returns the builder.

    Earlier settings of the builder stay, except for those named in docs/spark.md. JVM options are
    added to the existing ones. This affects only sessions that start later.
    """
    builder = builder.config(_UNIX_SOCKETS, "true")
    if _BATCH_BYTES not in _given(builder):
        builder = builder.config(_BATCH_BYTES, str(_BATCH_BYTES_MAX))
    for side in ("driver", "executor"):
        name = f"spark.{side}.extraJavaOptions"
        builder = builder.config(name, _with_flags(_given(builder).get(name, "")))
    return builder


def register(spark: SparkSession) -> None:
    """Register `format("drumlin")` in a session whose Python does not have `drumlin` installed.

    If it is installed, Spark finds it by itself. With `--py-files` only programs and tasks have it,
    but not the processes that look for data sources and that plan streams: these need it in the
    driver's `PYTHONPATH`.
    """
    from drumlin.spark.source import DrumlinDataSource

    spark.dataSource.register(DrumlinDataSource)


def _given(builder: SparkSession.Builder) -> dict[str, str]:
    """The builder's settings so far; PySpark has no public way to read them."""
    return dict(getattr(builder, "_options", {}))


def _with_flags(options: str) -> str:
    present = options.split()
    names = {each.partition("=")[0] for each in present}
    return " ".join(
        [*present, *(each for each in _JVM_FLAGS if each.partition("=")[0] not in names)]
    )
