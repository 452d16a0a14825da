"""A cache of groups' offsets in ZooKeeper, kept up to date by watches.

A watch fires once: its node is read again, with a new watch, before the next use of the cache. If
the connection or session is lost, so are all watches, and everything is read again. Callbacks run
in kazoo's thread, and only note which node has changed.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drumlin.client.topic_partition import TopicPartition
from drumlin.migration.stores import Refusals
from drumlin.migration.zookeeper import ZooKeeperStore
from drumlin.zookeeper.consumer_offsets import ZooKeeperOffset, group_path
from drumlin.zookeeper.nodes import number_in_name


@dataclass(slots=True)
class _CachedGroup:
    """The cached offsets of one group."""

    is_listed: bool = False  # whether `places` is up to date
    places: list[TopicPartition] = field(default_factory=list)
    unread: set[TopicPartition] = field(default_factory=set)
    offsets: dict[TopicPartition, ZooKeeperOffset] = field(default_factory=dict)


class ZooKeeperFollower:
    """A cache of any number of groups; calls `wake`, in another thread, when a group changes."""

    def __init__(self, store: ZooKeeperStore, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._events: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._groups: dict[str, _CachedGroup] = {}

    def groups(self) -> list[str]:
        """All groups in ZooKeeper."""
        return self._store.groups()

    def offsets(self, group: str) -> dict[TopicPartition, ZooKeeperOffset]:
        """The group's current offsets.

        Raises:
            StoreUnavailable: ZooKeeper cannot be reached; retry later.
        """
        self._take_events()
        self._store.check_connected()
        cached = self._groups.setdefault(group, _CachedGroup())
        if not cached.is_listed:
            places = self._store.partitions(group, self._changed)
            # A group without nodes cannot be watched, so list it again at the next call.
            cached.is_listed = bool(places)
            cached.unread.update(set(places) - cached.offsets.keys())
            cached.places = places
            for gone in cached.offsets.keys() - set(places):
                del cached.offsets[gone]
        unread = cached.unread & set(cached.places)
        if unread:
            found = self._store.read_nodes(group, sorted(unread), self._changed)
            for place in unread - found.keys():
                cached.offsets.pop(place, None)
            cached.offsets |= found
        cached.unread.clear()
        return dict(cached.offsets)

    def write(self, group: str, offsets: Mapping[TopicPartition, tuple[int, int]]) -> Refusals:
        """Write offsets, each with the expected version of its node; see `write_nodes`."""
        self._store.check_connected()
        refused = self._store.write_nodes(group, offsets)
        cached = self._groups[group]
        cached.unread |= offsets.keys()
        cached.is_listed = cached.is_listed and offsets.keys() <= set(cached.places)
        return refused

    def read_all_again(self) -> None:
        """Invalidate the cache, as watches may have been lost."""
        for cached in self._groups.values():
            cached.is_listed = False
            cached.unread.update(cached.places)

    def _changed(self, event: Any) -> None:
        """Note a fired watch, in kazoo's thread; without a path, all watches are lost."""
        self._events.put(event.path)
        self._wake()

    def _take_events(self) -> None:
        while not self._events.empty():
            path = self._events.get_nowait()
            if path is None:
                self.read_all_again()
                continue
            for group, cached in self._groups.items():
                root = f"{group_path(group)}/offsets"
                if path == root or path.startswith(f"{root}/"):
                    self._note(cached, path.removeprefix(root).split("/")[1:])

    @staticmethod
    def _note(cached: _CachedGroup, names: list[str]) -> None:
        partition = number_in_name(names[1]) if len(names) == 2 else None
        if partition is not None:
            cached.unread.add(TopicPartition(names[0], partition))
        else:
            cached.is_listed = False
