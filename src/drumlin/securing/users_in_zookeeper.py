"""Users of a cluster on ZooKeeper, created before the first broker starts.

Also restricts the nodes there, so that only the brokers may change them. Blocking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from drumlin.broker.login.users import user
from drumlin.metadata.zookeeper.session.session import Session
from drumlin.metadata.zookeeper.states.reading import every_node
from drumlin.metadata.zookeeper.znodes import config_nodes, layout, own_layout
from drumlin.metadata.zookeeper.znodes.operations import Create, Operation
from drumlin.peer.security.secret import Secret
from drumlin.securing.stored_users import credentials
from drumlin.zookeeper.access import ZooKeeperAccess
from drumlin.zookeeper.connection import connect

_TIMEOUT_MS: Final = 30_000


@contextmanager
def as_brokers(hosts: str, digest: Secret) -> Iterator[Session]:
    """A session of the brokers' user, to whom all nodes are restricted.

    Raises:
        ZooKeeperFailure: ZooKeeper cannot be reached, or belongs to other brokers.
    """
    access = ZooKeeperAccess(digest.reveal(), sets_acl=True)
    client = connect(
        hosts,
        session_timeout_ms=_TIMEOUT_MS,
        connection_timeout_ms=_TIMEOUT_MS,
        access=access,
    )
    session = Session(client, hosts, _TIMEOUT_MS / 1000)
    try:
        session.close_nodes(every_node(session))
        session.create_all([*layout.PERSISTENT, *own_layout.PERSISTENT])
        yield session
    finally:
        session.close()


def put_user(session: Session, name: str, password: Secret) -> None:
    """Set a user's password."""
    session.commit([*_put(session, name, password)])


def put_administrator(session: Session, name: str, password: Callable[[], Secret]) -> None:
    """Make the administrator, unless that was done before."""
    if session.read([own_layout.ADMINISTRATOR_MADE]) == [None]:
        made = Create(own_layout.ADMINISTRATOR_MADE)
        session.commit([*_put(session, name, password()), made])


def _put(session: Session, name: str, password: Secret) -> Iterator[Operation]:
    resource = user(name)
    (node,) = session.read([config_nodes.node_path(resource)])
    known = {} if node is None else config_nodes.decode_node(resource, node.data)
    version = None if node is None else node.version
    yield from config_nodes.change_node(resource, known | credentials(password), version)
