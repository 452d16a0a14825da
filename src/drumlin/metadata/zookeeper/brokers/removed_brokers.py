"""Unregistering a broker that will not come back. Blocking.

The node of the broker's epoch stays, without a session: epochs must still increase if the broker
comes back after all. Deletions of topics no longer wait for its log dirs.
"""

from __future__ import annotations

from typing import Final

from drumlin.metadata.rules.decisions import check_can_unregister
from drumlin.metadata.zookeeper.session.session import Conflict, Session
from drumlin.metadata.zookeeper.znodes import layout, own_layout
from drumlin.metadata.zookeeper.znodes.operations import BrokerFence, Replace, Transaction, none_at
from drumlin.zookeeper.nodes import UnreadableNode

_ATTEMPTS: Final = 10


def unregister(session: Session, node_id: int, fence: BrokerFence) -> None:
    """Unregister a broker.

    Raises:
        KafkaError: BROKER_ID_NOT_REGISTERED; INVALID_REQUEST: the broker is alive.
        UnreadableNode: a node of the broker is unreadable.
        Conflict: this broker is fenced, or the other one registers again and again.
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
    """Note that the broker has no folders of deleted topics, so that these can be forgotten.

    A node that another broker changes meanwhile is not changed: its topic is remembered longer.
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
