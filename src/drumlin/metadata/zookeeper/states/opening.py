"""Opening of a session in a cluster's chroot, whose missing nodes are created. Blocking."""

from __future__ import annotations

import contextlib
import logging
from typing import Final

from drumlin.config.broker import BrokerConfig
from drumlin.metadata.store.store import UnusableMetadata
from drumlin.metadata.zookeeper.session.session import Conflict, Session
from drumlin.metadata.zookeeper.states.reading import read_adoption, read_cluster_id, tree_below
from drumlin.metadata.zookeeper.znodes import acl_nodes, layout, own_layout, token_nodes
from drumlin.metadata.zookeeper.znodes.operations import Create
from drumlin.storage.directory.meta_properties import new_cluster_id
from drumlin.zookeeper.access import access_of
from drumlin.zookeeper.connection import connect

_log = logging.getLogger(__name__)

#: The maximum number of nodes named in one log line.
_NAMED_MAX: Final = 3


def open_session(config: BrokerConfig, cluster_id: str | None) -> tuple[Session, str]:
    """A session, and the id of the chroot's cluster, which is created if it does not exist."""
    hosts = config.zookeeper_connect
    assert hosts
    session_timeout_ms = config.zookeeper_session_timeout_ms
    access = access_of(config)
    client = connect(
        hosts,
        session_timeout_ms=session_timeout_ms,
        connection_timeout_ms=config.zookeeper_connection_timeout_ms or session_timeout_ms,
        makes_chroot=True,
        access=access,
    )
    session = Session(client, hosts, session_timeout_ms / 1000)
    try:
        found = _cluster_of(session, cluster_id)
        if config.value("authorizer.class.name"):
            session.create_all(acl_nodes.PERSISTENT)
        if config.value("delegation.token.secret.key"):
            session.create_all(token_nodes.PERSISTENT)
        if access.sets_acl:
            _close_secrets(session)
        return session, found
    except BaseException:
        session.close()
        raise


def _close_secrets(session: Session) -> None:
    """Restrict access to nodes with secrets older than the setting `zookeeper.set.acl`."""
    paths = [path for root in layout.SECRET for path in tree_below(session, root)]
    closed = session.close_nodes(paths)
    if closed:
        _log.warning(
            "everybody could read %d nodes for secrets in ZooKeeper, and cannot any more: %s",
            len(closed),
            ", ".join([*closed[:_NAMED_MAX], *(["…"] if len(closed) > _NAMED_MAX else [])]),
        )


def _cluster_of(session: Session, cluster_id: str | None) -> str:
    stored = read_cluster_id(session)
    if cluster_id not in (None, stored):
        found = f"cluster {stored}" if stored else "no cluster yet"
        raise UnusableMetadata(
            f"the log dirs belong to cluster {cluster_id}, and in ZooKeeper on {session.hosts} "
            f"there is {found}: their topics are not known there"
        )
    adoption = read_adoption(session)
    if adoption is not None and not adoption.is_complete:
        raise UnusableMetadata(
            f"a cluster is being moved into ZooKeeper on {session.hosts}, and not all of it is "
            f"there: run 'drumlin cluster adopt' again with the data of broker {adoption.node_id}"
        )
    session.create_all([*layout.PERSISTENT, *own_layout.PERSISTENT])
    while stored is None:
        session.create_all([layout.CLUSTER_ID.rpartition("/")[0]])
        data = layout.encode_cluster_id(new_cluster_id())
        with contextlib.suppress(Conflict):  # another broker has created it
            session.commit([Create(layout.CLUSTER_ID, data)])
        stored = read_cluster_id(session)
    return stored
