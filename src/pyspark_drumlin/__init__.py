"""Where PySpark looks for `format("drumlin")`: it imports every package named `pyspark_*`.

That happens in every PySpark session, also in those that never use Drumlin. So nothing is
imported until PySpark asks for `DefaultSource`, and an installation in which it cannot be
loaded (no PySpark 4, no pyarrow) simply has no such attribute: other data sources go on.
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
