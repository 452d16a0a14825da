"""What a group coordinator says is committed, when all that was written is confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drumlin.coordination.groups.coordinator import FetchedOffsets, GroupCoordinator


async def fetch_offsets(
    coordinator: GroupCoordinator,
    group_id: str,
    topics: Sequence[tuple[str, Sequence[int]]] | None,
    **options: Any,
) -> FetchedOffsets:
    """As an OffsetFetch; raises what the group refuses with."""
    await coordinator.all_confirmed()
    return list(coordinator.committed_offsets(group_id, topics, **options))
