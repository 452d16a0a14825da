"""Mistakes with logs that are fetched anew, which the simulation must find."""

from __future__ import annotations

from typing import Any

from drumlin.replication.followed_partition import FollowedPartition
from replication.simulation.planted.mistakes import Replacement

_take_beside = FollowedPartition._take_beside


async def _complete_at_once(self: FollowedPartition, copy: Any, answer: Any, now_ms: int) -> Any:
    """Give the log up for whatever has come by now."""
    copy.goal = 0
    return await _take_beside(self, copy, answer._replace(high_watermark=0), now_ms)


COPY_MISTAKES: dict[str, tuple[Replacement, ...]] = {
    "a log gives way to a part of another": (
        (FollowedPartition, "_take_beside", _complete_at_once),
    ),
}
