"""The rule of survival once more, as one would tell it: for tests, beside the one that is used."""

from __future__ import annotations


def survives(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    last_offset_of_key: int,
    horizon_ms: int | None,
    round_end_offset: int,
    now_ms: int,
) -> bool:
    """Whether a record that was not aborted is kept; `horizon_ms` is None where none is set."""
    if offset >= round_end_offset:
        return True  # not looked at
    if key is None or last_offset_of_key > offset:
        return False
    return value is not None or horizon_ms is None or horizon_ms > now_ms
