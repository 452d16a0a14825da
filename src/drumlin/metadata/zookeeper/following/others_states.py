"""News of changed states of partitions, as their writers leave it below `/drumlin/state_news`.

What has been removed before it was seen is made up for by reading all states again. The controller
removes news after some time, but not the last that is old: whoever has seen it has missed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.metadata.image import PartitionId
from drumlin.metadata.zookeeper.znodes import own_layout
from drumlin.metadata.zookeeper.znodes.operations import Delete
from drumlin.metadata.zookeeper.znodes.own_layout import ChangedState
from drumlin.zookeeper.nodes import UnreadableNode

if TYPE_CHECKING:
    from drumlin.clock import Clock
    from drumlin.metadata.zookeeper.parts import Parts
    from drumlin.metadata.zookeeper.session.session import Session

_KEPT_MS: Final = 3 * 60 * 1000


class _News(NamedTuple):
    #: What there is now, oldest first, and when it was written by the clock of ZooKeeper.
    created_ms: dict[str, int]
    changed: dict[PartitionId, ChangedState]
    problems: list[str]
    #: Some of it was removed before it was read.
    gone: list[str]


class StateNews:
    """Looks at such news, in the turn of whoever follows ZooKeeper."""

    def __init__(self, parts: Parts, clock: Clock) -> None:
        self._parts = parts
        self._clock = clock
        self._seen: dict[str, int] = {}

    async def skip(self) -> None:
        """Count as seen what there is now: all states are about to be read.

        Raises:
            ZooKeeperFailure: ZooKeeper is away, or does not let us.
        """
        self._seen = (await self._parts.commits.run(_read, {})).created_ms

    async def look(self) -> dict[PartitionId, ChangedState] | None:
        """Take over states that have changed, and say which; None if some news was missed.

        Raises:
            ZooKeeperFailure: ZooKeeper is away, or does not let us.
        """
        before, news = self._seen, await self._parts.commits.run(_read, self._seen)
        self._seen = news.created_ms
        for problem in news.problems:
            self._parts.say(problem)
        if news.problems or news.gone or _is_gap(before, self._seen):
            return None
        await self._parts.states.take(news.changed)
        return news.changed

    async def remove_old(self) -> None:
        """As the controller: remove what everybody must have seen.

        Raises:
            ZooKeeperFailure: ZooKeeper is away, or does not let us.
        """
        expired_ms = self._clock.expiry.now_ms() - _KEPT_MS
        # One that the next has followed lately may be the last that somebody has seen.
        old = [
            name for name, following in pairwise(self._seen) if self._seen[following] < expired_ms
        ]
        if old:
            await self._parts.commits.run(_remove, old)


def _is_gap(before: dict[str, int], now: dict[str, int]) -> bool:
    """Whether there may have been news between those seen before and those that are there now."""
    if not before:
        return bool(now) and not next(iter(now)).endswith("_0000000000")
    return next(reversed(before)) not in now


def _read(session: Session, seen: Mapping[str, int]) -> _News:
    names = sorted(session.children(own_layout.STATE_NEWS, is_watched=True))
    paths = {name: f"{own_layout.STATE_NEWS}/{name}" for name in names if name not in seen}
    read = dict(zip(paths, session.read(list(paths.values())), strict=True))
    news = _News({}, {}, [], [])
    for name in names:
        if name in seen:
            news.created_ms[name] = seen[name]
            continue
        node = read[name]
        if node is None:
            news.gone.append(name)
            continue
        news.created_ms[name] = node.created_ms
        try:
            for partition, state in own_layout.decode_state_news(paths[name], node.data).items():
                news.changed[partition] = state  # of the same one, the last is the newest
        except UnreadableNode as error:
            news.problems.append(str(error))
    return news


def _remove(session: Session, names: list[str]) -> None:
    paths = [f"{own_layout.STATE_NEWS}/{name}" for name in names]
    session.commit_all([[Delete(path)] for path in paths])  # another may have removed them
