"""Notifications of changed partition states, left below `/drumlin/state_news` by the writers.

A broker that may have missed notifications reads all states again. The controller removes old
notifications, but keeps the newest of the old ones: a broker that has seen it has missed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from drumlin.clock import Clock
from drumlin.metadata.image import PartitionId
from drumlin.metadata.zookeeper.parts import Parts
from drumlin.metadata.zookeeper.session.session import Session
from drumlin.metadata.zookeeper.znodes import own_layout
from drumlin.metadata.zookeeper.znodes.operations import Delete
from drumlin.metadata.zookeeper.znodes.own_layout import ChangedState
from drumlin.zookeeper.nodes import UnreadableNode

_KEPT_MS: Final = 3 * 60 * 1000


class _News(NamedTuple):
    #: The existing notifications, oldest first, with their times by ZooKeeper's clock.
    created_ms: dict[str, int]
    changed: dict[PartitionId, ChangedState]
    problems: list[str]
    #: Whether some notifications were removed before they were read.
    gone: list[str]


class StateChanges:
    """Reads the notifications; called only by the `Follower`."""

    def __init__(self, parts: Parts, clock: Clock) -> None:
        self._parts = parts
        self._clock = clock
        self._seen: dict[str, int] = {}

    async def skip(self) -> None:
        """Skip the existing notifications, as all states will be read."""
        self._seen = (await self._parts.commits.run(_read, {})).created_ms

    async def look(self) -> dict[PartitionId, ChangedState] | None:
        """Apply and return the changed states; None if some notifications were missed."""
        before, news = self._seen, await self._parts.commits.run(_read, self._seen)
        self._seen = news.created_ms
        for problem in news.problems:
            self._parts.report(problem)
        if news.problems or news.gone or _is_gap(before, self._seen):
            return None
        await self._parts.states.take(news.changed)
        return news.changed

    async def remove_old(self) -> None:
        """As the controller, remove notifications that every broker has seen."""
        expired_ms = self._clock.expiry.now_ms() - _KEPT_MS
        # A notification whose successor is recent may be the last one that some broker has seen.
        old = [
            name for name, following in pairwise(self._seen) if self._seen[following] < expired_ms
        ]
        if old:
            await self._parts.commits.run(_remove, old)


def _is_gap(before: dict[str, int], now: dict[str, int]) -> bool:
    """Whether notifications may be missing between those already seen and the existing ones."""
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
                news.changed[partition] = state  # a later notification is newer
        except UnreadableNode as error:
            news.problems.append(str(error))
    return news


def _remove(session: Session, names: list[str]) -> None:
    paths = [f"{own_layout.STATE_NEWS}/{name}" for name in names]
    session.commit_all(
        [[Delete(path)] for path in paths]
    )  # another broker may have removed some already
