"""The rule of survival on columns: which records of a compacted topic are kept. Pure.

For cleaning data that is larger than one machine: numpy arrays, pandas series or Spark's
columns, anything that knows `&`, `|`, `~` and comparisons. The cleaner goes record by record, and
by `records/kernels/survival.py`; tests compare what it keeps with what is told here.

A cleaning looks at records up to the end of its round, and knows of each key where it was seen
last in there. Of those records it keeps one if

- it has a key, and is the last one of its key, and
- it has a value, or is a tombstone whose delete horizon has not been set or not been reached;
  the horizon is set by the first cleaning that sees the tombstone, `delete.retention.ms` ahead.

Records of aborted transactions never survive. Records after the round are not touched.
"""

from __future__ import annotations

from typing import Any, Final

#: Stands for "no delete horizon has been set".
NO_DELETE_HORIZON: Final = -1


def is_kept(
    *,
    offset: Any,
    has_key: Any,
    has_value: Any,
    last_offset_of_key: Any,
    is_aborted: Any,
    delete_horizon_ms: Any,
    round_end_offset: int,
    now_ms: int,
) -> Any:
    """Whether records survive, element by element.

    Args:
        offset: of the record.
        has_key: false for null keys; an empty key is a key.
        has_value: false for tombstones.
        last_offset_of_key: the largest offset below `round_end_offset` at which the key was
            seen; -1 (or any smaller one than `offset`) where it is not known.
        is_aborted: the record belongs to an aborted transaction.
        delete_horizon_ms: of the record's batch, or `NO_DELETE_HORIZON`.
        round_end_offset: first offset that the cleaning has not looked at.
        now_ms: the time of the cleaning.

    Returns:
        Booleans, of the arguments' kind.
    """
    is_behind = offset >= round_end_offset
    is_last = has_key & (last_offset_of_key <= offset)
    is_within_horizon = (delete_horizon_ms == NO_DELETE_HORIZON) | (delete_horizon_ms > now_ms)
    return (is_behind | (is_last & (has_value | is_within_horizon))) & ~is_aborted
