"""Lets go of groups that are coordinated elsewhere from now on, in turns: there may be very many.

Nobody finds them any more, so nobody minds how long it takes: but for who waits in them, and for
whoever loads them here again. That has to wait, as the deadlines of those that were would be taken
for those of the ones that are loaded.

To free all that is in a shard would take a turn and more, too. So what is in it is held here until
the shard has gone, and then let go of piece by piece. Who still reads the shard finds it as it was.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from drumlin.coordination.groups.kind import AnyGroup
from drumlin.coordination.groups.shard import GroupShard
from drumlin.turns import Work

_log = logging.getLogger(__name__)


#: To do, for a group of a shard: whoever waits in it hears that it is not here any more.
Tell = Callable[[GroupShard, AnyGroup], None]


class Unloading:
    """What was coordinated here, and is not forgotten yet."""

    def __init__(self) -> None:
        self._left: deque[Work[None]] = deque()

    def begin(self, shard: GroupShard, tell: Tell) -> None:
        """The shard is to go. Nothing is done yet."""
        self._left.append(_unload(shard, tell))

    def go_on(self) -> Work[None]:
        """Until nothing is left. Several may do so: each goes on where another has given way."""
        while self._left:
            first = self._left[0]
            for _ in first:
                yield
            if self._left and self._left[0] is first:
                self._left.popleft()


def _unload(shard: GroupShard, tell: Tell) -> Work[None]:
    containers, parts = yield from _told(shard, tell)
    del shard
    for each in (containers, parts):
        while each:
            each.pop()
            yield


def _told(shard: GroupShard, tell: Tell) -> Work[tuple[list[Any], list[Any]]]:
    """All hear of it. What is to be let go of: first what is in the shard, then what is in that."""
    containers: list[Any] = []
    parts: list[Any] = []
    for group in list(shard.groups.values()):
        try:
            tell(shard, group)
        except Exception:  # noqa: BLE001  in the other groups somebody may be waiting, too
            _log.exception("group %r cannot be unloaded", group.group_id)
        yield
        containers.append(group)
        parts += yield from group.dissolve()
    for topics in list(shard.offsets.groups().values()):
        containers.append(topics)
        parts += topics.values()
        yield
    return containers, parts
