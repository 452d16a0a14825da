"""The steps of moving a stopped broker's metadata into ZooKeeper, in their order. Blocking.

    1. the chroot notes that an adoption is in progress: no broker starts with it
    2. everything is written; up to here the broker can still be started without ZooKeeper
    3. the log dirs note that ZooKeeper has their metadata: the broker does not start either way
    4. the chroot notes that the adoption is complete
    5. the store's file is renamed: the broker starts with ZooKeeper

The metadata log of an Apache Kafka is moved by the same steps, but not renamed. After an
interruption, completed steps are recognized, and the others carried out. Logs of partitions are not
touched.
"""

from __future__ import annotations

from typing import NamedTuple

from drumlin.metadata.embedded.database import FILE_NAME
from drumlin.metadata.opening import IN_ZOOKEEPER
from drumlin.metadata.to_zookeeper.stopped_broker import (
    AdoptionRefused,
    EmbeddedData,
    EmbeddedStore,
)
from drumlin.metadata.to_zookeeper.writing import Chroot, complete, look_at, write
from drumlin.metadata.zookeeper.session.session import Session
from drumlin.metadata.zookeeper.states.reading import read_adoption, read_cluster_id


class Move(NamedTuple):
    """The remaining steps.

    store, chroot: source and target; None if ZooKeeper has everything.
    """

    cluster_id: str
    store: EmbeddedStore | None = None
    chroot: Chroot | None = None
    is_done: bool = False


def plan(data: EmbeddedData, session: Session) -> Move:
    """Read both sides, and plan the steps. Changes nothing.

    Raises:
        AdoptionRefused: the move must not be made.
        UnreadableNode: whether it may be made is unknown.
        OSError: a log dir cannot be read.
    """
    finished = _finished(data, session)
    if finished is not None:
        return finished
    store = data.read()
    moved_to = data.moved_to
    if moved_to is not None and read_adoption(session) is None:
        raise AdoptionRefused(
            f"the metadata of {data.first} was moved into ZooKeeper on {moved_to}, as its "
            f"{IN_ZOOKEEPER} says, and not on {session.hosts}"
        )
    return Move(store.image.cluster_id, store, look_at(session, store, data.node_id))


def _finished(data: EmbeddedData, session: Session) -> Move | None:
    """The remaining steps if ZooKeeper has everything, or else None."""
    adoption, cluster_id = read_adoption(session), read_cluster_id(session)
    has_all = (
        data.moved_to is not None
        and adoption is not None
        and adoption.is_complete
        and adoption.node_id == data.node_id
        and cluster_id is not None
        and cluster_id == data.cluster_id
    )
    if has_all:
        assert cluster_id is not None
        return Move(cluster_id, is_done=data.is_set_aside)
    if data.has_store:
        return None
    if data.moved_to is not None:
        raise AdoptionRefused(
            f"the metadata of {data.first} is in ZooKeeper already, on {data.moved_to}, as its "
            f"{IN_ZOOKEEPER} says"
        )
    raise AdoptionRefused(
        f"{data.first} has no {FILE_NAME}, nor Kafka's metadata log: give the first of its "
        "broker's log.dirs"
    )


def carry_out(move: Move, data: EmbeddedData, session: Session) -> None:
    """Carry out the remaining steps.

    Raises:
        AdoptionRefused: another program has changed the chroot since the plan was made.
        UnreadableNode: a node is unreadable.
        ZooKeeperFailure: ZooKeeper does not answer; another run completes the move.
        OSError: a log dir cannot be written.
    """
    if move.store is not None:
        write(session, move.store, data.node_id)
        data.note_moved(session.hosts)
        complete(session, move.store, data.node_id)
    if not move.is_done:
        data.set_aside()
