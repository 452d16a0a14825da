"""Forgetting of deletions that every broker knows, once no broker has folders of the topic.
Blocking.

A broker that is down prevents this until it is back or unregistered, as it may have folders of the
topics. Meanwhile there may be more nodes than ZooKeeper can list.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from drumlin.metadata.zookeeper.brokers.live_brokers import known_brokers
from drumlin.metadata.zookeeper.session.session import Node, Session
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.metadata.zookeeper.znodes.operations import Delete, Fence, Transaction
from drumlin.zookeeper.nodes import UnreadableNode

#: The time for coordinators to remove their state of the topic, even if they move, and for a
#: starting broker to register after reading its metadata.
_KEPT_MS: Final = 60 * 1000
#: A listing of more than about 40,000 children exceeds ZooKeeper's limit.
_REMEMBERED_MAX: Final = 10_000


def forget_deletions(session: Session, fence: Fence, now_ms: int) -> str | None:
    """Forget deletions that need not be remembered; returns a problem to report to the operator, if
    any.
    """
    unregistered = known_brokers(session).unregistered
    paths = [f"{layout.DELETED}/{name}" for name in session.children(layout.DELETED)]
    gone: list[tuple[str, Node]] = []
    left: list[tuple[str, Node]] = []
    awaited: set[int] = set()
    for path, node in zip(paths, session.read(paths), strict=True):
        if node is None:
            continue
        waits_for = _awaited(path, node, unregistered)
        is_over = waits_for is not None and not waits_for and node.created_ms < now_ms - _KEPT_MS
        (gone if is_over else left).append((path, node))
        awaited.update(waits_for or ())
    left.sort(key=lambda each: each[1].transaction)
    excess = left[: max(0, len(left) - _REMEMBERED_MAX)]
    changes: list[Transaction] = [
        [*fence.checks, Delete(path, node.version)] for path, node in [*gone, *excess]
    ]
    session.commit_all(changes)  # a note that has changed meanwhile stays until next time
    if not excess:
        return None
    return (
        f"more than {_REMEMBERED_MAX} deletions of topics are remembered, as brokers "
        f"{', '.join(map(str, sorted(awaited)))} may have folders of these topics: the oldest "
        "deletions are forgotten, and those brokers keep the folders. Unregister brokers that do "
        "not come back"
    )


def _awaited(path: str, node: Node, unregistered: Collection[int]) -> list[int] | None:
    """The brokers that may have folders, or may not know of the deletion; None if unreadable."""
    try:
        folders = layout.decode_folders(path, node.data)
    except UnreadableNode:
        return None
    return [
        node_id for node_id, left in folders.items() if left != () and node_id not in unregistered
    ]
