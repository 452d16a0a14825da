"""Deleting a topic's nodes. Blocking.

What says that the topic was deleted is written first, or together with all else: whatever may
happen then, the topic does not come back. A deletion that broke off is found by its marker.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from drumlin.metadata.image import Resource, ResourceType
from drumlin.metadata.zookeeper import layout
from drumlin.metadata.zookeeper.operations import (
    Check,
    Create,
    Delete,
    mark_deleted,
    transactions,
)
from drumlin.metadata.zookeeper.reading import tree_below
from drumlin.metadata.zookeeper.session import Conflict

if TYPE_CHECKING:
    from drumlin.metadata.image import TopicState
    from drumlin.metadata.zookeeper.operations import Fence, Operation
    from drumlin.metadata.zookeeper.session import Session

_ATTEMPTS: Final = 5


def delete_topic(session: Session, topic: TopicState, fence: Fence, own_id: int) -> None:
    """Delete a topic, its configuration, and the wish to delete it.

    Raises:
        UnreadableNode: there is no knowing whether it is this topic.
        Conflict: we are not the controller, or others keep changing it.
        ZooKeeperFailure: ZooKeeper is away, or does not let us; it may be deleted later.
    """
    for attempt in range(_ATTEMPTS):
        try:
            _try_to_delete(session, topic, fence, own_id)
        except Conflict as conflict:
            if isinstance(conflict.operation, Check) or attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _try_to_delete(session: Session, topic: TopicState, fence: Fence, own_id: int) -> None:
    path = layout.topic_path(topic.name)
    config = layout.config_path(Resource(ResourceType.TOPIC, topic.name))
    marker = layout.deletion_path(topic.name)
    tombstone = mark_deleted(topic, own_id)
    asked = [path, config, marker, tombstone.path]
    node, *others = session.read(asked)
    has_config, has_marker, is_marked = (each is not None for each in others)
    # It may be another topic's by now.
    is_its_own = node is not None and layout.decode_topic(path, node.data).topic_id in (
        topic.topic_id,
        None,
    )
    below = tree_below(session, path) if is_its_own else []
    has_config = has_config and (is_its_own or node is None)
    first: list[Operation] = [] if is_marked else [tombstone]
    rest: list[Operation] = [Delete(each) for each in reversed(below)]
    rest += [Delete(config)] if has_config else []
    known_marker = [Delete(marker)] if has_marker else []
    parts = list(transactions(chain(first, rest, known_marker), fence.check))
    if len(parts) > 1:
        begun = first if has_marker else [*first, Create(marker)]
        parts = [
            [fence.check, *begun],
            *transactions([*rest, Delete(marker)], fence.check),
        ]
    for part in parts:
        session.commit(part)
