"""Known deletions of topics, and the log dirs of this broker that have folders of these topics.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from drumlin.metadata.zookeeper.znodes.layout import Folders

#: The number of deletions to remember: coordinators have no state left of topics deleted earlier.
_KNOWN_MAX: Final = 100_000


class Deletions:
    """See `store.MetadataStore.deleted_topics` and `was_deleted`."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        #: The deletions, oldest first.
        self.ids: dict[UUID, None] = {}
        #: The log dirs in which this broker may have folders of the deleted topics.
        self.left: dict[UUID, tuple[str, ...] | None] = {}

    def add(self, topic_id: UUID, folders: Folders) -> None:
        """Add a deletion, unless already known."""
        if topic_id not in self.ids:
            self.ids[topic_id] = None
            if len(self.ids) > _KNOWN_MAX:
                del self.ids[next(iter(self.ids))]
            self.note(topic_id, folders.get(self._node_id, ()))

    def note(self, topic_id: UUID, log_dirs: Sequence[str] | None) -> None:
        """Note that folders of the topic may be in these log dirs only; None means in any."""
        if log_dirs is None:
            self.left[topic_id] = None
        elif log_dirs:
            self.left[topic_id] = tuple(log_dirs)
        else:
            self.left.pop(topic_id, None)
