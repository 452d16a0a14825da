"""The controller's znodes: one broker is the controller as long as its session lasts. Blocking.

Each controller has a higher controller epoch than earlier ones, which are fenced by it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from drumlin.metadata.zookeeper.session.session import Conflict, Session
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.metadata.zookeeper.znodes.operations import (
    BrokerFence,
    ControllerFence,
    Create,
    Delete,
    Replace,
    Transaction,
)
from drumlin.zookeeper.connection import ZooKeeperFailure

_FIRST_EPOCH: Final = 0
_ATTEMPTS: Final = 50
NO_CONTROLLER: Final = -1


class Elected(NamedTuple):
    """The controller and its epoch; if this broker is the controller, `fence` is for its writes."""

    controller_id: int
    epoch: int
    fence: ControllerFence | None


def elect(
    session: Session, broker: BrokerFence | None, held: ControllerFence | None, timestamp_ms: int
) -> Elected:
    """Become the controller if there is none and this broker is registered. Watches the nodes.

    Raises:
        UnreadableNode: the controller or its epoch is unreadable.
    """
    for _ in range(_ATTEMPTS):
        asked = [layout.CONTROLLER, layout.CONTROLLER_EPOCH]
        node, known = session.read(asked, is_watched=True)
        if known is None:
            _create_first_epoch(session)
            continue
        epoch = layout.decode_controller_epoch(known.data)
        if node is not None and node.owner == session.session_id:
            controller_id = layout.decode_controller(node.data)
            if held is not None and held.version == known.version:
                return Elected(controller_id, epoch, held)
            # This session is the controller, in an unknown epoch: an answer was lost, or a tool has
            # raised the epoch.
            _try(session, [Delete(layout.CONTROLLER)])
        elif node is not None:
            return Elected(layout.decode_controller(node.data), epoch, None)
        elif broker is None:
            return Elected(NO_CONTROLLER, epoch, None)
        else:
            raised = layout.encode_controller_epoch(epoch + 1)
            data = layout.encode_controller(broker.node_id, timestamp_ms)
            refusal = _try(
                session,
                [
                    *broker.checks,
                    Create(layout.CONTROLLER, data, is_ephemeral=True),
                    Replace(layout.CONTROLLER_EPOCH, raised, known.version),
                ],
            )
            if refusal is None:
                held = ControllerFence(epoch + 1, known.version + 1)
            elif refusal.operation in broker.checks:
                return Elected(NO_CONTROLLER, epoch, None)
    raise ZooKeeperFailure("other brokers become and cease to be controller again and again")


def _create_first_epoch(session: Session) -> None:
    data = layout.encode_controller_epoch(_FIRST_EPOCH)
    refusal = _try(session, [Create(layout.CONTROLLER_EPOCH, data)])
    if refusal is not None and refusal.is_missing:
        raise ZooKeeperFailure(f"ZooKeeper on {session.hosts} has lost its chroot")


def _try(session: Session, transaction: Transaction) -> Conflict | None:
    try:
        session.commit(transaction)
    except Conflict as conflict:
        return conflict
    return None
