"""Drops groups whose coordinator has moved, over several turns, as there may be very many.

Loading the partition again must wait until the groups are dropped: otherwise deadlines of the old
groups would apply to the new ones.

Freeing a whole shard at once would block the event loop. So the contents are kept alive here until
the shard itself is freed, and are then freed piece by piece. A task that still reads the shard
finds it unchanged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from drumlin.coordination.groups.every_kind.any_group import AnyGroup
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.turns import forget, give_way

_log = logging.getLogger(__name__)


#: Answers the waiting requests of a group in a shard, as its coordinator has moved.
Tell = Callable[[GroupShard, AnyGroup], None]


async def unloading(shard: GroupShard, tell: Tell) -> None:
    """Unload all groups of a shard that another broker leads now, and free the shard piece by
    piece.
    """
    containers, parts = await _told(shard, tell)
    del shard
    await forget(containers, parts)


async def _told(shard: GroupShard, tell: Tell) -> tuple[list[Any], list[Any]]:
    """Unload every group. Returns the objects to free: the shard's contents, then the groups'."""
    containers: list[Any] = []
    parts: list[Any] = []
    for group in list(shard.groups.values()):
        try:
            tell(shard, group)
        except Exception:  # noqa: BLE001  requests may be waiting in the other groups, too
            _log.exception("group %r cannot be unloaded", group.group_id)
        await give_way()
        containers.append(group)
        parts += await group.dissolve()
    for topics in list(shard.offsets.groups().values()):
        containers.append(topics)
        parts += topics.values()
        await give_way()
    return containers, parts
