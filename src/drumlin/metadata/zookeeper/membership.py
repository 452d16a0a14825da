"""This broker's place in the cluster: its id, and the controller's office. Blocking.

Both are nodes that live as long as our session. Never takes what another session holds: whoever
holds it is alive, or was until its session ends. For now a cluster has one live broker.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from drumlin.metadata.store import UnusableMetadata
from drumlin.metadata.zookeeper import layout
from drumlin.metadata.zookeeper.connection import ZooKeeperFailure
from drumlin.metadata.zookeeper.operations import Create, Delete, Fence, Replace
from drumlin.metadata.zookeeper.session import Conflict

if TYPE_CHECKING:
    from drumlin.clock import Clock
    from drumlin.metadata.image import BrokerState
    from drumlin.metadata.zookeeper.session import Session

_log = logging.getLogger(__name__)

#: ZooKeeper ends a session up to two of its ticks late.
_LATE_S: Final = 5.0
_FIRST_EPOCH: Final = 0


def join(session: Session, broker: BrokerState, timeout_s: float, clock: Clock) -> Fence:
    """Register the broker, and make it the controller, for as long as the session lasts.

    A predecessor that has crashed is waited for until its session ends.

    Raises:
        UnusableMetadata: another broker has this id, or is registered in this cluster.
        ZooKeeperFailure: ZooKeeper is away, or does not let us.
    """
    _check_alone(session, broker)
    path = layout.broker_path(broker.node_id)
    data = layout.encode_broker(broker, clock.wall_ms())
    own = Create(path, data, is_ephemeral=True)
    if not _take(session, path, [own], timeout_s):
        message = (
            f"broker {broker.node_id} is registered in ZooKeeper on {session.hosts} already, and "
            f"its session has not ended within {timeout_s:g} s: another broker with this id runs"
        )
        raise UnusableMetadata(message)
    try:
        _check_alone(session, broker)  # two may have begun at once
        return _elect(session, broker.node_id, timeout_s, clock)
    except UnusableMetadata:
        session.commit([Delete(path)])
        raise


def _check_alone(session: Session, broker: BrokerState) -> None:
    others = sorted(set(session.children(layout.BROKERS)) - {str(broker.node_id)})
    if others:
        raise UnusableMetadata(
            f"broker {', '.join(others)} is registered in ZooKeeper on {session.hosts}: in this "
            "version a cluster has one broker, so stop that one, or choose another chroot"
        )


def _elect(session: Session, node_id: int, timeout_s: float, clock: Clock) -> Fence:
    """Become the controller, in an epoch that is above all before."""
    deadline = time.monotonic() + timeout_s + _LATE_S
    while True:
        (known,) = session.read([layout.CONTROLLER_EPOCH])
        if known is None:
            _create_first_epoch(session)
            continue
        epoch = layout.decode_controller_epoch(known.data) + 1
        office = Create(
            layout.CONTROLLER, layout.encode_controller(node_id, clock.wall_ms()), is_ephemeral=True
        )
        raised = Replace(
            layout.CONTROLLER_EPOCH, layout.encode_controller_epoch(epoch), known.version
        )
        try:
            if _take(session, layout.CONTROLLER, [office, raised], timeout_s):
                return Fence(epoch, known.version + 1)
        except Conflict:  # somebody else has raised the epoch
            if time.monotonic() < deadline:
                continue
        raise UnusableMetadata(
            f"another broker is the controller in ZooKeeper on {session.hosts}, and does not give "
            "way: in this version a cluster has one broker"
        )


def _create_first_epoch(session: Session) -> None:
    try:
        session.commit(
            [Create(layout.CONTROLLER_EPOCH, layout.encode_controller_epoch(_FIRST_EPOCH))]
        )
    except Conflict as conflict:
        if conflict.is_missing:
            raise _lost(session, layout.CONTROLLER_EPOCH) from conflict


def _lost(session: Session, path: str) -> ZooKeeperFailure:
    message = f"ZooKeeper on {session.hosts} has lost what was above {path}, or its chroot"
    return ZooKeeperFailure(message)


def _take(
    session: Session, path: str, transaction: list[Create | Replace], timeout_s: float
) -> bool:
    """Commit what creates a node of ours, once no other session holds it; whether that was so.

    Raises:
        Conflict: of another node.
    """
    deadline = time.monotonic() + timeout_s + _LATE_S
    is_told = False
    while True:
        (node,) = session.read([path])
        if node is None:
            try:
                session.commit(transaction)
            except Conflict as conflict:
                if conflict.is_missing:
                    raise _lost(session, path) from conflict
                if conflict.operation.path != path:
                    raise
            else:
                return True
        elif node.owner == session.session_id and len(transaction) == 1:
            return True  # an answer was lost
        elif node.owner == session.session_id:
            session.commit([Delete(path)])  # the office, of which we do not know the epoch
        else:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            if not is_told:
                is_told = True
                _log.info("%s is another session's: waiting until that ends", path)
            session.await_change(path, left_s)
