"""A picture of groups' offsets in ZooKeeper that is kept true by watches.

A watch fires once: whatever it was about is read again with a new watch, before the picture is
used next. A connection or session that is lost takes all watches along; then everything is
read again. Callbacks come in kazoo's thread and do no more than note what has changed.
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
class _Picture:
    """What is known of one group."""

    is_listed: bool = False  # `places` is what ZooKeeper has
    places: list[TopicPartition] = field(default_factory=list)
    unread: set[TopicPartition] = field(default_factory=set)
    offsets: dict[TopicPartition, ZooKeeperOffset] = field(default_factory=dict)


class ZooKeeperFollower:
    """Follows any number of groups; `wake` is called, in another thread, when one changes."""

    def __init__(self, store: ZooKeeperStore, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._events: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._pictures: dict[str, _Picture] = {}

    def groups(self) -> list[str]:
        """All groups there are."""
        return self._store.groups()

    def offsets(self, group: str) -> dict[TopicPartition, ZooKeeperOffset]:
        """The group's offsets as they are now.

        Raises:
            StoreUnavailable: ZooKeeper cannot be asked; ask again later.
        """
        self._take_events()
        self._store.check_connected()
        picture = self._pictures.setdefault(group, _Picture())
        if not picture.is_listed:
            places = self._store.partitions(group, self._changed)
            # A group without a node has none to watch: look again next time.
            picture.is_listed = bool(places)
            picture.unread.update(set(places) - picture.offsets.keys())
            picture.places = places
            for gone in picture.offsets.keys() - set(places):
                del picture.offsets[gone]
        unread = picture.unread & set(picture.places)
        if unread:
            found = self._store.read_nodes(group, sorted(unread), self._changed)
            for place in unread - found.keys():
                picture.offsets.pop(place, None)
            picture.offsets |= found
        picture.unread.clear()
        return dict(picture.offsets)

    def write(self, group: str, offsets: Mapping[TopicPartition, tuple[int, int]]) -> Refusals:
        """Write offsets into nodes that have the version given; see `write_nodes`."""
        self._store.check_connected()
        refused = self._store.write_nodes(group, offsets)
        picture = self._pictures[group]
        picture.unread |= offsets.keys()
        picture.is_listed = picture.is_listed and offsets.keys() <= set(picture.places)
        return refused

    def read_all_again(self) -> None:
        """Trust no watch."""
        for picture in self._pictures.values():
            picture.is_listed = False
            picture.unread.update(picture.places)

    def _changed(self, event: Any) -> None:
        """A watch has fired, in kazoo's thread; None for the path: all watches are gone."""
        self._events.put(event.path)
        self._wake()

    def _take_events(self) -> None:
        while not self._events.empty():
            path = self._events.get_nowait()
            if path is None:
                self.read_all_again()
                continue
            for group, picture in self._pictures.items():
                root = f"{group_path(group)}/offsets"
                if path == root or path.startswith(f"{root}/"):
                    self._note(picture, path.removeprefix(root).split("/")[1:])

    @staticmethod
    def _note(picture: _Picture, names: list[str]) -> None:
        partition = number_in_name(names[1]) if len(names) == 2 else None
        if partition is not None:
            picture.unread.add(TopicPartition(names[0], partition))
        else:
            picture.is_listed = False
