"""Finds the latest record of each key. Pure.

Within a partition, the highest offset wins. Between partitions, the latest timestamp wins, and if
timestamps are equal, the higher partition, as there is no better order. A key is in several
partitions if partitions were added to the topic.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_BY_TIME = (("timestamp", "ascending"), ("partition", "ascending"))


def last_of_partitions(records: pa.Table) -> pa.Table:
    """The last record of each key in each partition."""
    return _last(records.sort_by("offset"), "key", "partition")


def latest(records: pa.Table) -> pa.Table:
    """The latest record of each key. `records`: the result of `last_of_partitions`."""
    return _last(records.sort_by(list(_BY_TIME)), "key")


def _last(in_order: pa.Table, *columns: str) -> pa.Table:
    """The last row for each distinct combination of values in these columns."""
    numbers = pa.array(np.arange(len(in_order)))
    numbered = in_order.select(columns).append_column("row", numbers)
    return in_order.take(numbered.group_by(list(columns)).aggregate([("row", "max")])["row_max"])
