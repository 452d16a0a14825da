"""Where PySpark looks for `format("drumlin")`: it imports every package named `pyspark_*`.

PySpark does so in every session, even in those that never use Drumlin. So this module must import
nothing until PySpark asks for `DefaultSource`. If the source cannot be loaded (no PySpark 4, no
pyarrow), the attribute is simply missing, and other data sources work as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drumlin.spark.source import DrumlinDataSource as DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> Any:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from drumlin.spark.source import DrumlinDataSource
    except ImportError as error:
        raise AttributeError(f"Drumlin's Spark source cannot be loaded here: {error}") from error
    return DrumlinDataSource
