"""Reading of live brokers and their broker epochs. Blocking."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from drumlin.metadata.image import BrokerState
from drumlin.metadata.zookeeper.session.session import Node, Session
from drumlin.metadata.zookeeper.znodes import layout, own_layout
from drumlin.zookeeper.connection import ZooKeeperFailure
from drumlin.zookeeper.nodes import UnreadableNode, number_in_name

_ATTEMPTS: Final = 20


class SeenBrokers(NamedTuple):
    """The live brokers of Drumlin with their epochs, and the ids of another program's brokers."""

    alive: dict[int, BrokerState]
    others: list[int]
    problems: list[str]

    @property
    def epochs(self) -> dict[int, int]:
        return {node_id: each.epoch for node_id, each in self.alive.items()}


def read_brokers(session: Session, *, is_watched: bool = False) -> SeenBrokers:
    """The registered brokers; a watch fires once when a broker comes or goes."""
    names = session.children(layout.BROKERS, is_watched=is_watched)
    found = [number for name in names if (number := number_in_name(name)) is not None]
    seen = SeenBrokers({}, [], [])
    for _ in range(_ATTEMPTS):
        found = _read(session, found, seen)
        if not found:
            return seen
    raise ZooKeeperFailure(f"brokers {found} register in ZooKeeper again and again")


class KnownBrokers(NamedTuple):
    """All brokers that have ever registered: known ones and unregistered ones."""

    known: list[int]
    unregistered: list[int]


def known_brokers(session: Session) -> KnownBrokers:
    """All brokers that have ever registered."""
    names = session.children(own_layout.BROKER_EPOCHS)
    node_ids = [number for name in names if (number := number_in_name(name)) is not None]
    paths = [own_layout.broker_epoch_path(each) for each in node_ids]
    found = KnownBrokers([], [])
    for node_id, path, node in zip(node_ids, paths, session.read(paths), strict=True):
        is_unregistered = False
        with contextlib.suppress(UnreadableNode):
            is_unregistered = node is not None and own_layout.is_unregistered(path, node.data)
        (found.unregistered if is_unregistered else found.known).append(node_id)
    return found


def _read(session: Session, node_ids: Sequence[int], seen: SeenBrokers) -> list[int]:
    """Read these brokers; returns those that have registered again meanwhile.

    A broker's epoch does not change while it is registered. So if its node is the same before and
    after reading the epoch, the epoch belongs to this registration, or there is none.
    """
    paths = [layout.broker_path(each) for each in node_ids]
    epoch_paths = [own_layout.broker_epoch_path(each) for each in node_ids]
    nodes = session.read([*paths, *epoch_paths, *paths])
    count, left = len(paths), []
    for at, node_id in enumerate(node_ids):
        before, epoch, node = nodes[at], nodes[count + at], nodes[2 * count + at]
        if node is None:
            continue
        if before is None or before.transaction != node.transaction:
            left.append(node_id)
            continue
        try:
            if epoch is None or not _is_of(node, epoch, epoch_paths[at]):
                seen.others.append(node_id)
            else:
                broker = layout.decode_broker(paths[at], node_id, node.data)
                seen.alive[node_id] = replace(broker, epoch=epoch.version)
        except UnreadableNode as error:
            seen.problems.append(str(error))
    return left


def _is_of(node: Node, epoch: Node, path: str) -> bool:
    """Whether this is a broker of Drumlin: those note their session before they register."""
    return own_layout.decode_broker_epoch(path, epoch.data) == node.owner
