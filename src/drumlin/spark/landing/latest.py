"""Which record of a key is the latest. Pure.

The records of one partition come in order: of these the last offset counts. Of two partitions the
later timestamp counts, and of equal ones the higher partition, as nothing else says what came
first: a key is in several partitions if the topic was given more of them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_BY_TIME = (("timestamp", "ascending"), ("partition", "ascending"))


def last_of_partitions(records: pa.Table) -> pa.Table:
    """Of each key the last record in each partition that has it."""
    return _last(records.sort_by("offset"), "key", "partition")


def latest(records: pa.Table) -> pa.Table:
    """Of each key the latest record, of those that are the last ones in their partitions."""
    return _last(records.sort_by(list(_BY_TIME)), "key")


def _last(in_order: pa.Table, *columns: str) -> pa.Table:
    """The last row of each value of these columns."""
    numbers = pa.array(np.arange(len(in_order)))
    numbered = in_order.select(columns).append_column("row", numbers)
    return in_order.take(numbered.group_by(list(columns)).aggregate([("row", "max")])["row_max"])
