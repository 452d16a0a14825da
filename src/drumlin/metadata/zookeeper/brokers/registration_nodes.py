"""Znodes of this broker's registration, which begins a new broker epoch each time. Blocking.

The broker's node is ephemeral. A node of another session is never replaced, as its owner may be
alive until that session ends. While the node exists, no other process begins an epoch.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import Final

from drumlin.metadata.image import BrokerState
from drumlin.metadata.store.store import UnusableMetadata
from drumlin.metadata.zookeeper.brokers.live_brokers import read_brokers
from drumlin.metadata.zookeeper.session.session import Conflict, Session
from drumlin.metadata.zookeeper.znodes import layout, own_layout
from drumlin.metadata.zookeeper.znodes.operations import (
    BrokerFence,
    Check,
    Create,
    Delete,
    Operation,
    Replace,
    none_at,
)
from drumlin.zookeeper.connection import ZooKeeperFailure
from drumlin.zookeeper.nodes import UnreadableNode

_log = logging.getLogger(__name__)

#: ZooKeeper may expire a session up to two ticks late.
_LATE_S: Final = 5.0


def check_other_programs(session: Session, node_id: int) -> None:
    """Refuse to join a cluster with brokers of another program.

    Raises:
        UnusableMetadata: there are such brokers.
    """
    others = sorted(set(read_brokers(session).others) - {node_id})
    if others:
        raise UnusableMetadata(
            f"broker {', '.join(map(str, others))} is registered in ZooKeeper on {session.hosts}, "
            "and is not a Drumlin broker: the two cannot be in one cluster, so stop that one, or "
            "choose another chroot"
        )


def last_epoch(session: Session, node_id: int) -> int | None:
    """The broker epoch of this broker's last process; None if there was none.

    Unregistering the broker also raises the epoch, but no process has that epoch.
    """
    path = own_layout.broker_epoch_path(node_id)
    (node,) = session.read([path])
    if node is None:
        return None
    is_unregistered = False
    with contextlib.suppress(UnreadableNode):
        is_unregistered = own_layout.is_unregistered(path, node.data)
    return node.version - is_unregistered


def begin_epoch(session: Session, node_id: int, timeout_s: float) -> BrokerFence:
    """Begin a new broker epoch, which fences the previous process of this broker.

    If that process has crashed, this waits until its session ends.

    Raises:
        UnusableMetadata: another broker has this id.
    """
    path, epoch_path = layout.broker_path(node_id), own_layout.broker_epoch_path(node_id)
    deadline = time.monotonic() + timeout_s + _LATE_S
    is_logged = False
    while True:
        epoch, broker = session.read([epoch_path, path])
        if broker is None:
            data = own_layout.encode_broker_epoch(session.session_id)
            begun: Operation = Create(epoch_path, data)
            if epoch is not None:
                begun = Replace(epoch_path, data, epoch.version)
            try:
                session.commit([*none_at(path), begun])
            except Conflict as conflict:
                _check_is_whole(session, conflict)
            else:
                version = 0 if epoch is None else epoch.version + 1
                return BrokerFence(node_id, version, is_registered=False)
        elif broker.owner == session.session_id:
            _withdraw(session, path)  # what an earlier attempt, perhaps unanswered, has left
        else:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise UnusableMetadata(
                    f"broker {node_id} is registered in ZooKeeper on {session.hosts} already, and "
                    f"its session has not ended within {timeout_s:g} s: another broker with this "
                    "id runs"
                )
            if not is_logged:
                is_logged = True
                _log.info("%s is another session's: waiting until that ends", path)
            session.await_change(path, left_s)


def register(session: Session, broker: BrokerState, fence: BrokerFence, timestamp_ms: int) -> bool:
    """Register the broker in the epoch that has begun; returns False if another process was
    faster.
    """
    path = layout.broker_path(broker.node_id)
    own = Create(path, layout.encode_broker(broker, timestamp_ms), is_ephemeral=True)
    try:
        session.commit([*fence.checks, own])
    except Conflict as conflict:
        if not isinstance(conflict.operation, Check):
            _check_is_whole(session, conflict)
        return False
    return True


def is_held(session: Session, fence: BrokerFence) -> bool:
    """Whether this broker is registered in this epoch. Begins to watch the registration."""
    path = layout.broker_path(fence.node_id)
    epoch_path = own_layout.broker_epoch_path(fence.node_id)
    broker, epoch = session.read([path, epoch_path], is_watched=True)
    if broker is None or epoch is None or epoch.version != fence.epoch:
        return False
    try:
        named = own_layout.decode_broker_epoch(epoch_path, epoch.data)
    except UnreadableNode:
        return False
    return broker.owner == named == session.session_id


def raise_epoch(session: Session, fence: BrokerFence) -> BrokerFence:
    """Begin another epoch for the existing registration.

    Raises:
        Conflict: the registration was lost.
    """
    path = own_layout.broker_epoch_path(fence.node_id)
    data = own_layout.encode_broker_epoch(session.session_id)
    session.commit([*fence.checks, Replace(path, data, fence.epoch)])
    return fence._replace(epoch=fence.epoch + 1)


def _withdraw(session: Session, path: str) -> None:
    with contextlib.suppress(Conflict):  # the node is already gone
        session.commit([Delete(path)])


def _check_is_whole(session: Session, conflict: Conflict) -> None:
    if conflict.is_missing and isinstance(conflict.operation, Create):
        path = conflict.operation.path
        message = f"ZooKeeper on {session.hosts} has lost the parent of {path}, or its chroot"
        raise ZooKeeperFailure(message)
