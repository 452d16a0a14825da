"""The rule of survival says of Spark's columns what it says of numpy's."""

from __future__ import annotations

import itertools

import numpy as np
from pyspark.sql import SparkSession, functions

from drumlin.compaction.survivors import NO_DELETE_HORIZON, is_kept

_ROUND_END, _NOW_MS = 10, 1000
_NAMES = (
    "offset",
    "has_key",
    "has_value",
    "last_offset_of_key",
    "is_aborted",
    "delete_horizon_ms",
)


def test_on_spark_columns(spark: SparkSession) -> None:
    rows = list(
        itertools.product(
            (9, 10),
            (False, True),
            (False, True),
            (-1, 8, 9, 10),
            (False, True),
            (NO_DELETE_HORIZON, 999, 1000, 1001),
        )
    )
    rule = {"round_end_offset": _ROUND_END, "now_ms": _NOW_MS}
    columns = dict(zip(_NAMES, map(np.array, zip(*rows, strict=True)), strict=True))
    expected = is_kept(**columns, **rule)
    assert 0 < expected.sum() < len(rows)
    frame = spark.createDataFrame(rows, list(_NAMES))
    kept = frame.filter(is_kept(**{name: functions.col(name) for name in _NAMES}, **rule)).collect()
    wanted = [row for row, is_wanted in zip(rows, expected, strict=True) if is_wanted]
    assert sorted(map(tuple, kept)) == sorted(wanted)
