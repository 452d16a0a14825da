"""Writing the contents of an embedded store into a chroot. Blocking.

The node `/drumlin/adoption` exists from the first step on, and prevents brokers from starting until
everything is written. An interrupted adoption continues by writing the missing parts. Other topics
in the chroot are never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from drumlin.metadata.image import PartitionState, Resource, ResourceType, TopicState
from drumlin.metadata.store.store import ProducerIdBlock
from drumlin.metadata.to_zookeeper.stopped_broker import AdoptionRefused, EmbeddedStore
from drumlin.metadata.zookeeper.session.session import Conflict, Node, Session
from drumlin.metadata.zookeeper.states.reading import read_adoption, read_cluster_id, tree_below
from drumlin.metadata.zookeeper.znodes import layout, operations, own_layout
from drumlin.metadata.zookeeper.znodes.operations import (
    Check,
    Create,
    Delete,
    NodeTooLarge,
    Operation,
    Replace,
    Transaction,
    transactions,
)
from drumlin.metadata.zookeeper.znodes.own_layout import ADOPTION, AdoptionNode

_CONFIGS = tuple(layout.config_kinds())


@dataclass(frozen=True, slots=True)
class Chroot:
    """The contents of the chroot that concern the store.

    is_stale: whether the adoption was begun with an earlier state of the store, and starts over.
    present: the topics of the store that exist there, perhaps with some partitions missing.
    """

    cluster_id: str | None
    adoption: AdoptionNode | None
    is_stale: bool
    is_empty: bool
    present: frozenset[str]


# -- checks ----------------------------------------------------------------------------------


def look_at(session: Session, store: EmbeddedStore, node_id: int) -> Chroot:
    """Check that the store of this broker may be written into the chroot.

    Raises:
        AdoptionRefused: the store must not be written.
        UnreadableNode: whether it may be written is unknown.
    """
    check_is_deserted(session)
    cluster_id, adoption = read_cluster_id(session), read_adoption(session)
    _check_cluster(session, cluster_id, store)
    is_stale = adoption is not None and adoption.fingerprint != store.fingerprint
    if adoption is not None:
        _check_adoption(session, adoption, node_id, is_stale=is_stale)
    names = session.children(layout.TOPICS)
    is_empty = cluster_id is None and not names and not any(session.children_of(_CONFIGS))
    if cluster_id is None and names:
        raise AdoptionRefused(
            f"there are topics in ZooKeeper on {session.hosts}, but not of which cluster: choose "
            "another chroot"
        )
    present = [] if is_stale else [name for name in names if name in store.image.topics]
    _check_topics(session, store, present)
    _check_deletions(session, store)
    for topic in store.image.topics.values():
        try:
            list(transactions(_new_topic(topic, 0, has_configs=False, configs={}), ()))
        except NodeTooLarge as error:
            raise AdoptionRefused(
                f"topic {topic.name} is too large for ZooKeeper: {error}"
            ) from None
    return Chroot(cluster_id, adoption, is_stale, is_empty, frozenset(present))


def check_is_deserted(session: Session) -> None:
    """Check that no broker uses the chroot.

    Raises:
        AdoptionRefused: brokers are registered.
    """
    names = session.children(layout.BROKERS)
    if names:
        raise AdoptionRefused(
            f"broker {', '.join(sorted(names))} is registered in ZooKeeper on {session.hosts}: no "
            "broker may run there meanwhile, and one of Apache Kafka not later either; one that "
            "was killed is registered until its session ends"
        )


def _check_cluster(session: Session, cluster_id: str | None, store: EmbeddedStore) -> None:
    if cluster_id not in (None, store.image.cluster_id):
        raise AdoptionRefused(
            f"ZooKeeper on {session.hosts} has cluster {cluster_id}, and the data is of cluster "
            f"{store.image.cluster_id}: choose another chroot"
        )


def _check_adoption(
    session: Session, adoption: AdoptionNode, node_id: int, *, is_stale: bool
) -> None:
    if adoption.node_id != node_id:
        raise AdoptionRefused(
            f"the data of broker {adoption.node_id} is being moved into ZooKeeper on "
            f"{session.hosts}, and this is broker {node_id}"
        )
    if adoption.is_complete:
        raise AdoptionRefused(
            f"broker {node_id} was moved into ZooKeeper on {session.hosts} before, and the cluster "
            "may have gone on since: what is in the data now can only go to another chroot"
        )
    if is_stale and not adoption.began_empty:
        raise AdoptionRefused(
            f"the broker has run since its data began to be moved into ZooKeeper on "
            f"{session.hosts}, where there was something before: choose another chroot"
        )


def _check_topics(session: Session, store: EmbeddedStore, names: list[str]) -> None:
    paths = [layout.topic_path(name) for name in names]
    for name, node in zip(names, session.read(paths), strict=True):
        if node is not None:
            _check_topic(session, store.image.topics[name], node)


def _check_topic(session: Session, topic: TopicState, node: Node) -> None:
    name = topic.name
    there = layout.decode_topic(layout.topic_path(name), node.data)
    if there.topic_id != topic.topic_id:
        raise AdoptionRefused(
            f"there is another topic {name} in ZooKeeper on {session.hosts}, with another id"
        )
    if there.replicas != tuple(each.replicas for each in topic.partitions):
        raise AdoptionRefused(
            f"topic {name} has other partitions or replicas in ZooKeeper on {session.hosts}"
        )


def _check_deletions(session: Session, store: EmbeddedStore) -> None:
    doomed = set(session.children(layout.TO_DELETE)) & set(store.image.topics)
    if doomed:
        raise AdoptionRefused(
            f"topic {min(doomed)} is to be deleted as ZooKeeper's {layout.TO_DELETE} says: remove "
            "that first"
        )


# -- writing ---------------------------------------------------------------------------------


def write(session: Session, store: EmbeddedStore, node_id: int) -> None:
    """Write everything that is missing.

    Raises:
        AdoptionRefused: the store must not be written, or another program has changed the chroot
            meanwhile.
        UnreadableNode: a node is unreadable.
        ZooKeeperFailure: ZooKeeper does not answer; parts may have been written.
    """
    _begin(session, store, node_id, look_at(session, store, node_id))
    check_is_deserted(session)
    (node,) = session.read([ADOPTION])
    if node is None:
        raise AdoptionRefused(f"ZooKeeper's {ADOPTION} is gone")
    first = [Check(ADOPTION, node.version)]
    epoch = _controller_epoch(session)
    for wanted in (
        _producer_ids(session, store, node_id),
        _deleted_topics(session, store, node_id),
        _other_configs(session, store),
    ):
        _commit(session, _grouped(wanted, first))
    _commit(session, _topics(session, store, epoch, first))


def complete(session: Session, store: EmbeddedStore, node_id: int) -> None:
    """Allow brokers to start.

    Raises:
        AdoptionRefused: another program has changed the chroot meanwhile.
        ZooKeeperFailure: ZooKeeper does not answer; the outcome is unknown.
    """
    check_is_deserted(session)
    done = AdoptionNode(node_id, store.fingerprint, began_empty=False, is_complete=True)
    _commit(session, [[Replace(ADOPTION, own_layout.encode_adoption(done))]])


def _begin(session: Session, store: EmbeddedStore, node_id: int, chroot: Chroot) -> None:
    began_empty = chroot.is_empty if chroot.adoption is None else chroot.adoption.began_empty
    begun = AdoptionNode(node_id, store.fingerprint, began_empty)
    data = own_layout.encode_adoption(begun)
    session.create_all(["/", *layout.PERSISTENT, *own_layout.PERSISTENT])
    if chroot.is_stale:
        _clear(session)
        _commit(session, [[Replace(ADOPTION, data)]])
    elif chroot.adoption is None:
        session.create_all([layout.CLUSTER_ID.rpartition("/")[0]])
        own: list[Operation] = [Create(ADOPTION, data)]
        if chroot.cluster_id is None:
            cluster_id = layout.encode_cluster_id(store.image.cluster_id)
            own.append(Create(layout.CLUSTER_ID, cluster_id))
        _commit(session, [own])


def _clear(session: Session) -> None:
    """Remove everything that an adoption has written into a chroot that was empty before."""
    for folder in (layout.TOPICS, *_CONFIGS, layout.DELETED):
        paths = tree_below(session, folder)[1:]
        _commit(session, [[Delete(path)] for path in reversed(paths)])
    _commit(session, [[Replace(layout.PRODUCER_IDS, b"")]])


def _controller_epoch(session: Session) -> int:
    (node,) = session.read([layout.CONTROLLER_EPOCH])
    return 0 if node is None else layout.decode_controller_epoch(node.data)


def _producer_ids(session: Session, store: EmbeddedStore, node_id: int) -> Iterator[Operation]:
    """Reserve the producer ids that the store has allocated."""
    (node,) = session.read([layout.PRODUCER_IDS])
    last = layout.decode_producer_ids(b"" if node is None else node.data)
    given = store.next_producer_id
    if given - 1 > last:
        block = ProducerIdBlock(last + 1, given - 1 - last)
        yield Replace(layout.PRODUCER_IDS, layout.encode_producer_ids(node_id, block))


def _deleted_topics(session: Session, store: EmbeddedStore, node_id: int) -> Iterator[Operation]:
    paths = [layout.deleted_path(topic_id) for topic_id in store.deleted]
    nodes = session.read(paths)
    for path, node, left in zip(paths, nodes, store.deleted.values(), strict=True):
        if node is None:
            yield Create(path, layout.encode_folders({node_id: left}))
            continue
        known = layout.decode_folders(path, node.data)
        if known.get(node_id, ()) != left:
            folders = layout.encode_folders({**known, node_id: left})
            yield Replace(path, folders, node.version)


def _other_configs(session: Session, store: EmbeddedStore) -> Iterator[Operation]:
    """All configurations but topics'; those of the store override those in the chroot."""
    image = store.image
    resources = [each for each in image.all_configured() if each.type is not ResourceType.TOPIC]
    paths = [layout.config_path(each) for each in resources]
    for resource, path, node in zip(resources, paths, session.read(paths), strict=True):
        ours = image.configs(resource)
        if node is None:
            yield Create(path, layout.encode_configs(ours))
            continue
        there = layout.decode_configs(path, node.data)
        merged = {**there, **ours}
        if merged != there:
            yield Replace(path, layout.encode_configs(merged), node.version)


def _topics(
    session: Session, store: EmbeddedStore, epoch: int, first: list[Check]
) -> Iterator[Transaction]:
    """Missing topics, and missing parts of existing topics."""
    topics = list(store.image.topics.values())
    paths = [layout.topic_path(each.name) for each in topics]
    config_paths = [layout.config_path(_owner(each)) for each in topics]
    nodes, configs = session.read(paths), session.read(config_paths)
    for topic, node, config in zip(topics, nodes, configs, strict=True):
        if node is None:
            ours = store.image.topic_configs(topic.name)
            made = _new_topic(topic, epoch, has_configs=config is not None, configs=ours)
        else:
            _check_topic(session, topic, node)
            made = _rest_of(session, topic, epoch)
        yield from _grouped(made, first)


def _grouped(wanted: Iterable[Operation], first: list[Check]) -> Iterator[Transaction]:
    """The operations in transactions that each begin with `first`; no transactions without
    operations.
    """
    return (each for each in transactions(wanted, first) if len(each) > len(first))


def _new_topic(
    topic: TopicState, epoch: int, *, has_configs: bool, configs: Mapping[str, str]
) -> Iterator[Operation]:
    begun = replace(topic, partitions=tuple(map(_adopted, topic.partitions)))
    return operations.create_topic(begun, configs, epoch, has_configs=has_configs)


def _rest_of(session: Session, topic: TopicState, epoch: int) -> Iterator[Operation]:
    """Missing nodes below a topic's node, and replacements for states older than the store's."""
    folder = layout.partitions_path(topic.name)
    places = [layout.partition_path(topic.name, each.index) for each in topic.partitions]
    paths = [layout.state_path(topic.name, each.index) for each in topic.partitions]
    known_folder, *nodes = session.read([folder, *places, *paths])
    if known_folder is None:
        yield Create(folder)
    count = len(places)
    for at, partition in enumerate(topic.partitions):
        adopted = _adopted(partition)
        data = operations.state_data(adopted, epoch)
        state = nodes[count + at]
        if nodes[at] is None:
            yield Create(places[at])
        if state is None:
            yield Create(paths[at], data)
        elif layout.decode_state(paths[at], state.data).leader_epoch < adopted.leader_epoch:
            yield Replace(paths[at], data, state.version)


def _adopted(state: PartitionState) -> PartitionState:
    """The partition in the next leader epoch, as another store has begun the current one."""
    return replace(state, leader_epoch=state.leader_epoch + 1)


def _owner(topic: TopicState) -> Resource:
    return Resource(ResourceType.TOPIC, topic.name)


def _commit(session: Session, wanted: Iterable[Transaction]) -> None:
    for outcome in session.commit_all([each for each in wanted if each]):
        if isinstance(outcome, Conflict):
            raise AdoptionRefused(
                f"others are changing ZooKeeper's {outcome.operation.path}: run this again once "
                "they do not"
            ) from outcome
        if outcome is not None:
            raise outcome
