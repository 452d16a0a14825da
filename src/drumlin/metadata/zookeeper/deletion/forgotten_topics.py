"""Forgetting deleted topics: once every broker knows of them, and has no folder left. Blocking.

A broker that is away keeps them from being forgotten until it is back, or unregistered: it may have
folders, or an image in which they are. But nobody lists as many nodes as that may come to be.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from drumlin.metadata.zookeeper.brokers.live_brokers import known_brokers
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.metadata.zookeeper.znodes.operations import Delete
from drumlin.zookeeper.nodes import UnreadableNode

if TYPE_CHECKING:
    from drumlin.metadata.zookeeper.session.session import Node, Session
    from drumlin.metadata.zookeeper.znodes.operations import Fence, Transaction

#: Coordinators have so long to forget what they know of the topic, wherever they move meanwhile;
#: and a broker that has read its metadata, to register.
_KEPT_MS: Final = 60 * 1000
#: A listing of more than some 40,000 is larger than ZooKeeper gives.
_REMEMBERED_MAX: Final = 10_000


def forget_deletions(session: Session, fence: Fence, now_ms: int) -> str | None:
    """Forget what need not be remembered; what the operator should know.

    Raises:
        ZooKeeperFailure: ZooKeeper is away, or does not let us.
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
    session.commit_all(changes)  # one that others change meanwhile stays until the next time
    if not excess:
        return None
    return (
        f"more than {_REMEMBERED_MAX} deleted topics are remembered, as brokers "
        f"{', '.join(map(str, sorted(awaited)))} have not said that they have no folders of them: "
        "the oldest are forgotten, and what those brokers have of them stays. Unregister the "
        "brokers that do not come back"
    )


def _awaited(path: str, node: Node, unregistered: Collection[int]) -> list[int] | None:
    """The brokers that may have folders, or have not heard of it; None if nobody can tell."""
    try:
        folders = layout.decode_folders(path, node.data)
    except UnreadableNode:
        return None
    return [
        node_id for node_id, left in folders.items() if left != () and node_id not in unregistered
    ]
