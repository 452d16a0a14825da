"""Finds the latest record of each key. Pure.

Within a partition, the highest offset wins. Between partitions, the latest timestamp wins, and if
timestamps are equal, the higher partition, as there is no better order. A key is in several
partitions if partitions were added to the topic.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_BY_TIME = (("timestamp", "ascending"), ("partition", "ascending"))


def last_of_partitions(records: pa.Table) -> pa.Table:
    """The last record of each key in each partition."""
    return _last(records, [("offset", "ascending")], "key", "partition")


def latest(records: pa.Table) -> pa.Table:
    """The latest record of each key. `records`: the result of `last_of_partitions`."""
    return _last(records, list(_BY_TIME), "key")


def _last(records: pa.Table, order: list[tuple[str, str]], *columns: str) -> pa.Table:
    """The last row, in this order, for each distinct combination of values in these columns."""
    # Only the columns of the order are sorted: values may be large.
    in_order = pc.sort_indices(records.select([name for name, _ in order]), sort_keys=order)
    numbered = records.select(columns).take(in_order)
    numbered = numbered.append_column("row", pa.array(np.arange(len(records))))
    rows = numbered.group_by(list(columns)).aggregate([("row", "max")])["row_max"]
    return records.take(in_order.take(rows))
