"""The rule of survival: what a cleaning does with one record. It stands here, and only here.

The kernel of the second pass (`code/filter_records.py`) compiles it, and the twin in the tests runs
it as it is. So it is written in what numba understands, and needs no numba.
`compaction/survivors.py` makes an expression on columns of it.
"""

from __future__ import annotations

from typing import Final

KEPT: Final = 0
#: A tombstone that is kept, whose batch has no delete horizon: one is due.
HORIZON_DUE: Final = 1
#: From here on they go. A later record has the key.
SUPERSEDED: Final = 2
#: A tombstone whose delete horizon is reached.
EXPIRED: Final = 3
#: Without a key, which only a log can have that was not compacted before.
KEYLESS: Final = 4


def fate(
    is_looked_at: bool,
    has_key: bool,
    is_last: bool,
    has_value: bool,
    has_horizon: bool,
    is_horizon_reached: bool,
) -> int:
    """What becomes of a record.

    Args:
        is_looked_at: it lies before the end of the round; records after it are kept as they are.
        is_last: no later record before the end of the round has its key.
        has_value: false for tombstones.
        has_horizon: its batch has a delete horizon, which the first cleaning that saw a
            tombstone there has set, `delete.retention.ms` ahead.
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
