"""Deleting a topic's znodes. Blocking.

The note of the deletion is written first, or in the same transaction as everything else: so the
topic does not come back, whatever happens afterwards. By this note, an interrupted deletion is
completed later.

Several brokers may delete the same topic at once. Each transaction replaces the note, and so fails
if another broker has made progress since the decision: a new topic may have the name by then.
"""

from __future__ import annotations

from typing import Final

from drumlin.metadata.image import Resource, ResourceType, TopicState
from drumlin.metadata.zookeeper.brokers.live_brokers import known_brokers
from drumlin.metadata.zookeeper.session.session import Conflict, Node, Session
from drumlin.metadata.zookeeper.states.reading import tree_below
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.metadata.zookeeper.znodes.operations import (
    Create,
    Delete,
    Fence,
    Operation,
    Replace,
    mark_deleted,
    none_at,
    transactions,
)

#: The number of attempts: whenever one fails, another broker has made progress.
_ATTEMPTS: Final = 30


def delete_topic(session: Session, topic: TopicState, fence: Fence, own_id: int) -> None:
    """Delete a topic, its configuration, and the request to delete it.

    Raises:
        UnreadableNode: it is unknown whether the node belongs to this topic.
        Conflict: the broker is fenced, or other brokers keep changing the topic.
        ZooKeeperFailure: the topic may be deleted later.
    """
    tombstone = mark_deleted(topic, {own_id, *known_brokers(session).known})
    for attempt in range(_ATTEMPTS):
        try:
            _try_to_delete(session, topic, fence, tombstone)
        except Conflict as conflict:
            if conflict.operation in fence.checks or attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _try_to_delete(session: Session, topic: TopicState, fence: Fence, tombstone: Create) -> None:
    path = layout.topic_path(topic.name)
    config = layout.config_path(Resource(ResourceType.TOPIC, topic.name))
    marker = layout.deletion_path(topic.name)
    # The note is read first, as the transactions replace this version of it.
    dead, node, *others = session.read([tombstone.path, path, config, marker])
    has_config, has_marker = (each is not None for each in others)
    is_its_own = node is not None and layout.decode_topic(path, node.data).topic_id in (
        topic.topic_id,
        None,
    )
    rest: list[Operation] = []
    ends: list[Operation] = []
    if is_its_own:
        below = tree_below(session, path)
        rest = [Delete(config)] if has_config else []
        rest += [Delete(each) for each in reversed(below) if each != path]
        ends = [Delete(path)]
    elif node is None and (has_config or has_marker):
        ends = [*none_at(path), *([Delete(config)] if has_config else [])]
    if has_marker and ends:
        ends.append(Delete(marker))
    steps = [[*rest, *ends]]
    parts = list(transactions(rest, ()))
    if len(parts) > 1 and not has_marker:
        steps = [[Create(marker)], *parts, [*ends, Delete(marker)]]
    elif len(parts) > 1:
        steps = [*parts, ends]
    for operations in steps:
        marking: Operation = tombstone
        if dead is not None:
            marking = Replace(tombstone.path, dead.data, dead.version)
        if operations or dead is None:
            session.commit([*fence.checks, marking, *operations])
            dead = _replaced(dead, tombstone)


def _replaced(dead: Node | None, tombstone: Create) -> Node:
    """The note of the deletion, as replaced by a transaction."""
    if dead is None:
        return Node(tombstone.data, version=0, owner=0, transaction=0, created_ms=0)
    return dead._replace(version=dead.version + 1)
