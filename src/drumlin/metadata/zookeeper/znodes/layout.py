"""Znodes of Apache Kafka 3.9's ZooKeeper mode: their paths, and their contents as JSON. Pure.

JSON keys have the order in which Kafka writes them. Nodes that Kafka does not know are below
`/drumlin`; most of those are in `own_layout.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote
from uuid import UUID

from drumlin.metadata.image import (
    NO_LEADER,
    BrokerState,
    Endpoint,
    ReplicaAssignment,
    Resource,
    ResourceType,
)
from drumlin.metadata.names import NAME_LENGTH_MAX
from drumlin.metadata.store.store import PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock
from drumlin.metadata.zookeeper.znodes.eligible_json import (
    NOBODY,
    Eligible,
    decode_eligible,
    encode_eligible,
)
from drumlin.metadata.zookeeper.znodes.owner_nodes import FOLDERS, OWNERS, entity_path, owners_at
from drumlin.metadata.zookeeper.znodes.token_nodes import TOKENS
from drumlin.storage.directory.partition_metadata import decode_uuid, encode_uuid
from drumlin.zookeeper.nodes import (
    DIGITS_MAX,
    INT32_MAX,
    UnreadableNode,
    as_ids,
    as_number,
    as_object,
    as_text,
    decode,
    encode,
    number_in_name,
    versioned,
)

CLUSTER_ID: Final = "/cluster/id"
BROKERS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/config_change_"
TO_DELETE: Final = "/admin/delete_topics"
PRODUCER_IDS: Final = "/latest_producer_id_block"
#: Drumlin's own: a node for each deleted topic that may still have folders, or whose deletion some
#: broker does not know.
DELETED: Final = "/drumlin/deleted_topics"

#: The nodes that Kafka creates in an empty chroot, and Drumlin's own.
PERSISTENT: Final = (
    "/consumers",
    BROKERS,
    TOPICS,
    CONFIG_CHANGES,
    TO_DELETE,
    "/brokers/seqid",
    "/isr_change_notification",
    PRODUCER_IDS,
    "/log_dir_event_notification",
    *(f"/config/{kind}" for kind in ("topics", "clients", "users", "brokers", "ips")),
    "/config/groups",
    "/config/client-metrics",
    DELETED,
)

_KINDS: Final = {
    ResourceType.TOPIC: "topics",
    ResourceType.BROKER: "brokers",
    ResourceType.GROUP: "groups",
    ResourceType.CLIENT_METRICS: "client-metrics",
}
_TYPES: Final = {kind: each for each, kind in _KINDS.items()}
#: Their names may have any characters.
_FREELY_NAMED: Final = (ResourceType.GROUP, ResourceType.CLIENT_METRICS)
_DEFAULT: Final = "<default>"
#: The parents of nodes with secrets: only clients that may change such a node may read it
#: (`zookeeper.set.acl`).
SECRET: Final = ("/config/users", "/config/brokers", TOKENS)
#: The largest last id of a block for which another whole block fits below 2**63.
_PRODUCER_ID_MAX: Final = 2**63 - 1 - PRODUCER_ID_BLOCK_SIZE
#: Topic ids that Kafka reserves: the absent id, and the id of KRaft's metadata log.
_RESERVED_IDS: Final = (UUID(int=0), UUID(int=1))
_ENDPOINT: Final = re.compile(r"(?P<listener>[^:/]+)://(?P<host>[^/]*):(?P<port>[0-9]{1,5})")
_PORT_MAX: Final = 65_535
_LEGAL_NAME: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{NAME_LENGTH_MAX}}}")


_NONE: Final[Mapping[int, tuple[int, ...]]] = MappingProxyType({})


class TopicNode(NamedTuple):
    """A topic's id (None if an old tool has omitted it), and the replicas of its partitions.

    `adding` and `removing` have entries for partitions that are being reassigned.
    """

    topic_id: UUID | None
    replicas: tuple[tuple[int, ...], ...]
    adding: Mapping[int, tuple[int, ...]] = _NONE
    removing: Mapping[int, tuple[int, ...]] = _NONE

    def assignment(self, index: int) -> ReplicaAssignment:
        return ReplicaAssignment(
            self.replicas[index], self.adding.get(index, ()), self.removing.get(index, ())
        )

    def assignments(self) -> list[ReplicaAssignment]:
        return [self.assignment(index) for index in range(len(self.replicas))]


class StateNode(NamedTuple):
    """A partition's leader and ISR, as written by a controller or by the leader.

    `eligible` is Drumlin's own; an empty one is left out of the JSON, and Kafka ignores it.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int = 0
    eligible: Eligible = NOBODY


# -- paths -----------------------------------------------------------------------------------


def broker_path(node_id: int) -> str:
    return f"{BROKERS}/{node_id}"


def topic_path(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions_path(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition_path(name: str, partition: int) -> str:
    return f"{TOPICS}/{name}/partitions/{partition}"


def state_path(name: str, partition: int) -> str:
    return f"{TOPICS}/{name}/partitions/{partition}/state"


def topic_below(path: str) -> tuple[str, bool]:
    """The topic of a node below `TOPICS`, and whether the node is the topic's own."""
    name, _, below = path.removeprefix(f"{TOPICS}/").partition("/")
    return name, not below


def deletion_path(name: str) -> str:
    return f"{TO_DELETE}/{name}"


def deleted_path(topic_id: UUID) -> str:
    return f"{DELETED}/{encode_uuid(topic_id)}"


def config_entity(resource: Resource) -> str:
    """The resource's name in a notification.

    Names that may have any characters are escaped, like user names in Kafka.
    """
    name = resource.name
    if resource.type is ResourceType.BROKER:
        name = name or _DEFAULT
    elif resource.type in _FREELY_NAMED:
        name = quote(name, safe="").replace(".", "%2E")
    elif resource.type in OWNERS:
        return entity_path(resource)
    return f"{_KINDS[resource.type]}/{name}"


def config_path(resource: Resource) -> str:
    return f"/config/{config_entity(resource)}"


def is_secret(path: str) -> bool:
    """Whether the node has secrets, or is the parent of such nodes."""
    return path.startswith(SECRET)


def config_kinds() -> Mapping[str, ResourceType]:
    """The parent nodes of configurations, and the types of their resources."""
    return {f"/config/{kind}": each for kind, each in _TYPES.items()}


def resource_named(kind: ResourceType, name: str) -> Resource:
    """The resource whose configuration is in the node of this name."""
    if kind is ResourceType.BROKER:
        return Resource(kind, "" if name == _DEFAULT else name)
    return Resource(kind, unquote(name) if kind in _FREELY_NAMED else name)


def is_topic_name(name: str) -> bool:
    return _LEGAL_NAME.fullmatch(name) is not None and name not in (".", "..")


# -- contents of nodes -----------------------------------------------------------------------


def encode_cluster_id(cluster_id: str) -> bytes:
    return encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    fields = decode(CLUSTER_ID, data)
    return as_text(CLUSTER_ID, fields.get("id"), "id")


def encode_broker(broker: BrokerState, timestamp_ms: int) -> bytes:
    first = broker.endpoints[0] if broker.endpoints else None
    fields: dict[str, Any] = {
        "features": {},
        "listener_security_protocol_map": {
            each.listener: each.protocol for each in broker.endpoints
        },
        "endpoints": [
            f"{each.listener}://{_bracketed(each.host)}:{each.port}" for each in broker.endpoints
        ],
    }
    if broker.rack is not None:
        fields["rack"] = broker.rack
    fields["jmx_port"] = -1
    fields["port"] = first.port if first else -1
    fields["host"] = first.host if first else None
    return encode({**fields, "version": 5, "timestamp": str(timestamp_ms)})


def decode_broker(path: str, node_id: int, data: bytes) -> BrokerState:
    fields = versioned(path, data, (4, 5))
    rack, listed = fields.get("rack"), fields.get("endpoints")
    if not isinstance(listed, list):
        raise UnreadableNode(path, "its endpoints are not a list")
    listed_protocols = fields.get("listener_security_protocol_map", {})
    protocols = as_object(path, listed_protocols, "its protocols")
    endpoints = tuple(
        _endpoint(path, as_text(path, each, "an endpoint"), protocols) for each in listed
    )
    return BrokerState(node_id, None if rack is None else as_text(path, rack, "rack"), endpoints)


def _endpoint(path: str, text: str, protocols: Mapping[str, Any]) -> Endpoint:
    found = _ENDPOINT.fullmatch(text)
    if found is None or int(found["port"]) > _PORT_MAX:
        raise UnreadableNode(path, f"{text!r} is no endpoint")
    protocol = as_text(path, protocols.get(found["listener"], "PLAINTEXT"), "a protocol")
    return Endpoint(found["listener"], found["host"].strip("[]"), int(found["port"]), protocol)


def encode_topic(
    topic_id: UUID,
    replicas: Iterable[Sequence[int]],
    adding: Mapping[int, Sequence[int]] = _NONE,
    removing: Mapping[int, Sequence[int]] = _NONE,
) -> bytes:
    return encode(
        {
            "partitions": {str(index): list(each) for index, each in enumerate(replicas)},
            "topic_id": encode_uuid(topic_id),
            "adding_replicas": {str(index): list(each) for index, each in adding.items()},
            "removing_replicas": {str(index): list(each) for index, each in removing.items()},
            "version": 3,
        }
    )


def encode_assignments(topic_id: UUID, assignments: Iterable[ReplicaAssignment]) -> bytes:
    """The content of a topic's node; some partitions may be in a reassignment."""
    found = list(enumerate(assignments))
    return encode_topic(
        topic_id,
        (each.replicas for _, each in found),
        {index: each.adding for index, each in found if each.adding},
        {index: each.removing for index, each in found if each.removing},
    )


def decode_topic(path: str, data: bytes) -> TopicNode:
    fields = versioned(path, data, (1, 2, 3))
    text = fields.get("topic_id")
    try:
        topic_id = None if text is None else decode_uuid(as_text(path, text, "topic_id"))
    except ValueError:
        raise UnreadableNode(path, f"{text!r} is no topic id") from None
    if topic_id in _RESERVED_IDS:
        raise UnreadableNode(path, f"{text!r} is no topic's id")
    found = _replicas(path, fields, "partitions")
    if set(found) != set(range(len(found))):
        raise UnreadableNode(path, "its partitions are not numbered from 0 without a gap")
    replicas = tuple(found[index] for index in range(len(found)))
    moved = (
        {
            index: each
            for index, each in _replicas(path, {name: fields.get(name) or {}}, name).items()
            if each and set(each) <= set(found.get(index, ()))
        }
        for name in ("adding_replicas", "removing_replicas")
    )
    return TopicNode(topic_id, replicas, *moved)


def _replicas(path: str, fields: Mapping[str, Any], name: str) -> dict[int, tuple[int, ...]]:
    found = {}
    for partition, replicas in as_object(path, fields.get(name), name).items():
        index = number_in_name(partition)
        if index is None:
            raise UnreadableNode(path, f"{partition!r} is no partition")
        found[index] = as_ids(path, replicas)
    return found


def encode_state(state: StateNode) -> bytes:
    fields = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
    }
    if state.eligible != NOBODY:
        fields["drumlin_eligible"] = encode_eligible(state.eligible)
    return encode(fields)


def decode_state(path: str, data: bytes) -> StateNode:
    fields = versioned(path, data, (1,))
    leader = as_number(path, fields.get("leader"), "leader", NO_LEADER)
    leader_epoch = as_number(path, fields.get("leader_epoch"), "leader_epoch", 0)
    if leader_epoch == INT32_MAX:
        raise UnreadableNode(path, f"there is no leader epoch after {leader_epoch}")
    controller_epoch = as_number(path, fields.get("controller_epoch", 0), "controller_epoch", 0)
    isr, eligible = as_ids(path, fields.get("isr")), fields.get("drumlin_eligible")
    known = NOBODY if eligible is None else decode_eligible(path, eligible)
    return StateNode(leader, leader_epoch, isr, controller_epoch, known)


def encode_controller(node_id: int, timestamp_ms: int) -> bytes:
    fields = {"version": 2, "brokerid": node_id, "timestamp": str(timestamp_ms)}
    return encode({**fields, "kraftControllerEpoch": -1})


def decode_controller(data: bytes) -> int:
    """The controller's broker id."""
    fields = versioned(CONTROLLER, data, (1, 2))
    return as_number(CONTROLLER, fields.get("brokerid"), "brokerid", 0)


def encode_controller_epoch(epoch: int) -> bytes:
    return b"%d" % epoch


def decode_controller_epoch(data: bytes) -> int:
    if not data.isdigit() or len(data) > DIGITS_MAX:
        raise UnreadableNode(CONTROLLER_EPOCH, f"{data[:40]!r} is no number")
    if int(data) >= INT32_MAX:
        raise UnreadableNode(CONTROLLER_EPOCH, f"there is no epoch after {int(data)}")
    return int(data)


def encode_configs(configs: Mapping[str, str]) -> bytes:
    return encode({"version": 1, "config": dict(configs)})


def decode_configs(path: str, data: bytes) -> dict[str, str]:
    fields = versioned(path, data, (1,))
    configs = as_object(path, fields.get("config"), "config")
    return {key: as_text(path, value, key) for key, value in configs.items()}


def encode_config_change(resource: Resource) -> bytes:
    return encode({"version": 2, "entity_path": config_entity(resource)})


def decode_config_change(path: str, data: bytes) -> list[Resource]:
    """The resources whose configuration may have changed; none if it is not used here."""
    fields = versioned(path, data, (1, 2))
    if fields["version"] == 1:
        kind, name = fields.get("entity_type"), fields.get("entity_name")
    else:
        entity = as_text(path, fields.get("entity_path"), "entity_path")
        kind, _, name = entity.partition("/")
    kind, name = as_text(path, kind, "its kind"), as_text(path, name, "its name")
    if kind in FOLDERS:
        return owners_at(f"{kind}/{name}")
    known = _TYPES.get(kind)
    return [] if known is None else [resource_named(known, name)]


def encode_producer_ids(node_id: int, block: ProducerIdBlock) -> bytes:
    last = block.first + block.size - 1
    fields = {"version": 1, "broker": node_id, "block_start": str(block.first)}
    return encode({**fields, "block_end": str(last)})


def decode_producer_ids(data: bytes) -> int:
    """The last producer id of the last block; -1 if there was none."""
    if not data:
        return -1
    text = versioned(PRODUCER_IDS, data, (1,)).get("block_end")
    if (
        not isinstance(text, str)
        or not (text.isascii() and text.isdigit())
        or len(text) > DIGITS_MAX
    ):
        raise UnreadableNode(PRODUCER_IDS, f"{text!r} is no producer id")
    if int(text) > _PRODUCER_ID_MAX:
        raise UnreadableNode(PRODUCER_IDS, f"there is no block of producer ids after {text}")
    return int(text)


#: The log dirs in which each broker may have folders of a topic; None means any log dir.
Folders = Mapping[int, tuple[str, ...] | None]


def encode_folders(folders: Folders) -> bytes:
    known = {str(each): None if left is None else list(left) for each, left in folders.items()}
    return encode({"version": 1, "folders": known})


def decode_folders(path: str, data: bytes) -> dict[int, tuple[str, ...] | None]:
    fields = versioned(path, data, (1,))
    found: dict[int, tuple[str, ...] | None] = {}
    for name, left in as_object(path, fields.get("folders"), "folders").items():
        node_id = number_in_name(name)
        if node_id is None or not (left is None or isinstance(left, list)):
            raise UnreadableNode(path, f"{name!r}: {left!r} tells of no folders")
        found[node_id] = None if left is None else tuple(as_text(path, each, name) for each in left)
    return found


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
