"""Forgetting a broker that will not come back. Blocking.

Its epoch stays, as epochs must go on if it comes back all the same; but no session has it any more.
Folders of deleted topics are not waited for on its log dirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drumlin.metadata.rules.decisions import check_can_unregister
from drumlin.metadata.zookeeper.session.session import Conflict
from drumlin.metadata.zookeeper.znodes import layout, own_layout
from drumlin.metadata.zookeeper.znodes.operations import Replace, none_at
from drumlin.zookeeper.nodes import UnreadableNode

if TYPE_CHECKING:
    from drumlin.metadata.zookeeper.session.session import Session
    from drumlin.metadata.zookeeper.znodes.operations import BrokerFence, Transaction

_ATTEMPTS: Final = 10


def unregister(session: Session, node_id: int, fence: BrokerFence) -> None:
    """
    Raises:
        KafkaError: BROKER_ID_NOT_REGISTERED; INVALID_REQUEST: it is alive.
        UnreadableNode: there is no knowing what is left of it.
        Conflict: we are fenced, or it keeps coming and going.
        ZooKeeperFailure: ZooKeeper is away, or does not let us.
    """
    path, epoch_path = layout.broker_path(node_id), own_layout.broker_epoch_path(node_id)
    for attempt in range(_ATTEMPTS):
        broker, epoch = session.read([path, epoch_path])
        is_known = epoch is not None and not own_layout.is_unregistered(epoch_path, epoch.data)
        check_can_unregister(node_id, is_alive=broker is not None, is_registered=is_known)
        assert epoch is not None
        _forget_folders(session, node_id, fence)
        data = own_layout.encode_broker_epoch(own_layout.NO_SESSION)
        gone = [*none_at(path), Replace(epoch_path, data, epoch.version)]
        try:
            session.commit([*fence.checks, *gone])
        except Conflict as conflict:
            if conflict.operation in fence.checks or attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _forget_folders(session: Session, node_id: int, fence: BrokerFence) -> None:
    """Deleted topics are forgotten once no broker has folders of them: not on this one's account.

    One that others change meanwhile is left: at worst it is remembered for longer.
    """
    paths = [f"{layout.DELETED}/{name}" for name in session.children(layout.DELETED)]
    changes: list[Transaction] = []
    for path, node in zip(paths, session.read(paths), strict=True):
        try:
            known = {} if node is None else layout.decode_folders(path, node.data)
        except UnreadableNode:
            continue
        if node is not None and known.pop(node_id, ()) != ():
            replaced = Replace(path, layout.encode_folders(known), node.version)
            changes.append([*fence.checks, replaced])
    session.commit_all(changes)
