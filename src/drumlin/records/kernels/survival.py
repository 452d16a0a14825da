"""The survival rule: whether a cleaning keeps a record. This is its only implementation.

The rule is compiled into the kernel of the second pass (`code/filter_records.py`), and the tests'
plain version of that kernel calls it as Python. So the code is limited to what numba can compile,
but does not import numba. `compaction/survivors.py` turns the rule into an expression on columns.
"""

from __future__ import annotations

from typing import Final

KEPT: Final = 0
#: A tombstone that is kept; its batch has no delete horizon yet and needs one.
HORIZON_DUE: Final = 1
#: This and the following kinds are removed. A later record has the same key.
SUPERSEDED: Final = 2
#: A tombstone whose delete horizon has passed.
EXPIRED: Final = 3
#: A record without a key, written before the topic was compacted.
KEYLESS: Final = 4


def fate(
    is_looked_at: bool,
    has_key: bool,
    is_last: bool,
    has_value: bool,
    has_horizon: bool,
    is_horizon_reached: bool,
) -> int:
    """Whether a record is kept, and why.

    Args:
        is_looked_at: the record is before the end of the round; later records are all kept.
        is_last: no later record before the end of the round has the same key.
        has_value: false for tombstones.
        has_horizon: its batch has a delete horizon: `delete.retention.ms` after the first
            cleaning that found a tombstone in the batch.
    """
    if not is_looked_at:
        return KEPT
    if not has_key:
        return KEYLESS
    if not is_last:
        return SUPERSEDED
    if has_value:
        return KEPT
    if not has_horizon:
        return HORIZON_DUE
    return EXPIRED if is_horizon_reached else KEPT
