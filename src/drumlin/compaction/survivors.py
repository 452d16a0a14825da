"""The compaction rule on columns: which records of a compacted topic are kept. Pure.

For data that is larger than one machine: numpy arrays, pandas series, Spark columns, anything that
supports `&`, `|`, `~` and comparisons. The rule itself is `fate` in `records/kernels/survival.py`,
which the cleaner applies to each record. This file evaluates the rule for every combination of
facts about a record, and combines the results into one expression on columns.

A cleaning reads records up to the end of its round, and finds the last offset of each key. A record
is kept if

- it has a key, and is the last record with this key, and
- it has a value, or is a tombstone whose delete horizon has not been set or not been reached; the
  first cleaning that reads a tombstone sets its horizon, `delete.retention.ms` from then.

Records of aborted transactions never survive. Records after the round are not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from drumlin.records.kernels.survival import HORIZON_DUE, KEPT, fate

#: The value of `delete_horizon_ms` if no delete horizon has been set.
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
        offset: the offset of the record.
        has_key: false for a null key; an empty key is a key.
        has_value: false for a tombstone.
        last_offset_of_key: the largest offset of the key below `round_end_offset`; -1 (or any
            offset below `offset`) if unknown.
        is_aborted: whether the record belongs to an aborted transaction.
        delete_horizon_ms: the delete horizon of the record's batch, or `NO_DELETE_HORIZON`.
        round_end_offset: the first offset that the cleaning has not read.
        now_ms: the time of the cleaning.

    Returns:
        Booleans, in a column of the same kind as the arguments.
    """
    facts = (  # in the order in which `fate` takes them
        _Fact(offset < round_end_offset, lambda: offset >= round_end_offset),
        _Fact(has_key, lambda: ~has_key),
        _Fact(last_offset_of_key <= offset, lambda: last_offset_of_key > offset),
        _Fact(has_value, lambda: ~has_value),
        _Fact(
            delete_horizon_ms != NO_DELETE_HORIZON, lambda: delete_horizon_ms == NO_DELETE_HORIZON
        ),
        _Fact(delete_horizon_ms <= now_ms, lambda: delete_horizon_ms > now_ms),
    )
    return _kept(facts, ()) & ~is_aborted


class _Fact(NamedTuple):
    """A fact about records, as a column, and the negation of the fact, computed on demand."""

    holds: Any
    fails: Callable[[], Any]


def _kept(facts: Sequence[_Fact], known: tuple[bool, ...]) -> Any:
    """Whether records are kept if their first facts have the values in `known`."""
    unknown = product((False, True), repeat=len(facts) - len(known))
    fates = {fate(*known, *rest) for rest in unknown}
    if fates <= {KEPT, HORIZON_DUE}:
        return True
    if not fates & {KEPT, HORIZON_DUE}:
        return False
    fact = facts[len(known)]
    if_true, if_false = (_kept(facts, (*known, value)) for value in (True, False))
    if if_true is True:
        return fact.holds if if_false is False else fact.holds | if_false
    if if_true is False:
        return fact.fails() if if_false is True else fact.fails() & if_false
    if if_false is False:
        return fact.holds & if_true
    if if_false is True:
        return fact.fails() | if_true
    return (fact.holds & if_true) | (fact.fails() & if_false)
