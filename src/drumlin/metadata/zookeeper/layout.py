"""Znodes of Apache Kafka 3.9's ZooKeeper mode: their paths, and the JSON in them. Pure.

Keys of JSON stand in the order in which Kafka writes them. What a node holds was perhaps written by
another program: whoever reads it gets an `UnreadableNode`, which names the node, and nothing worse.

Below `/drumlin` is what Kafka has no place for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote
from uuid import UUID

from drumlin.metadata.image import NO_LEADER, BrokerState, Resource, ResourceType
from drumlin.metadata.names import NAME_LENGTH_MAX
from drumlin.metadata.store import PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock
from drumlin.storage.partition_metadata import decode_uuid, encode_uuid

CLUSTER_ID: Final = "/cluster/id"
BROKERS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/config_change_"
TO_DELETE: Final = "/admin/delete_topics"
PRODUCER_IDS: Final = "/latest_producer_id_block"
#: Ours: a node for each deleted topic of which folders may be left, or were until this start.
DELETED: Final = "/drumlin/deleted_topics"

#: What Kafka makes in an empty chroot, and what is ours.
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
    DELETED,
)

_KINDS: Final = {
    ResourceType.TOPIC: "topics",
    ResourceType.BROKER: "brokers",
    ResourceType.GROUP: "groups",
}
_TYPES: Final = {kind: each for each, kind in _KINDS.items()}
_DEFAULT: Final = "<default>"
_INT32_MAX: Final = 2**31 - 1
#: Of which a whole block follows below 2**63.
_PRODUCER_ID_MAX: Final = 2**63 - 1 - PRODUCER_ID_BLOCK_SIZE
#: "None", and the log of metadata that Kafka has in KRaft mode.
_RESERVED_IDS: Final = (UUID(int=0), UUID(int=1))
#: A half of a character, which no text of the protocol can hold, is written so in JSON.
_SURROGATE: Final = re.compile(rb"\\ud[89a-f]", re.IGNORECASE)
_DIGITS_MAX: Final = 19
_LEGAL_NAME: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{NAME_LENGTH_MAX}}}")


class UnreadableNode(Exception):
    """A node does not hold what belongs there; the message names it."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"ZooKeeper's {path} cannot be used: {why}")


class TopicNode(NamedTuple):
    """A topic's id, None where an old tool left it out, and the replicas of its partitions."""

    topic_id: UUID | None
    replicas: tuple[tuple[int, ...], ...]


class StateNode(NamedTuple):
    """Who leads a partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


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


def deletion_path(name: str) -> str:
    return f"{TO_DELETE}/{name}"


def deleted_path(topic_id: UUID) -> str:
    return f"{DELETED}/{encode_uuid(topic_id)}"


def config_entity(resource: Resource) -> str:
    """What a notification calls the resource. Names of groups are escaped, as Kafka's of users."""
    name = resource.name
    if resource.type is ResourceType.BROKER:
        name = name or _DEFAULT
    elif resource.type is ResourceType.GROUP:
        name = quote(name, safe="").replace(".", "%2E")
    return f"{_KINDS[resource.type]}/{name}"


def config_path(resource: Resource) -> str:
    return f"/config/{config_entity(resource)}"


def config_kinds() -> Mapping[str, ResourceType]:
    """Path of a folder of configurations -> whose they are."""
    return {f"/config/{kind}": each for kind, each in _TYPES.items()}


def resource_named(kind: ResourceType, name: str) -> Resource:
    """The resource whose configuration has a node of this name."""
    if kind is ResourceType.BROKER:
        return Resource(kind, "" if name == _DEFAULT else name)
    return Resource(kind, unquote(name) if kind is ResourceType.GROUP else name)


def is_topic_name(name: str) -> bool:
    return _LEGAL_NAME.fullmatch(name) is not None and name not in (".", "..")


# -- what nodes hold -------------------------------------------------------------------------


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    fields = _decode(CLUSTER_ID, data)
    return _text(CLUSTER_ID, fields.get("id"), "id")


def encode_broker(broker: BrokerState, timestamp_ms: int) -> bytes:
    first = broker.endpoints[0] if broker.endpoints else None
    fields: dict[str, Any] = {
        "features": {},
        "listener_security_protocol_map": {each.listener: "PLAINTEXT" for each in broker.endpoints},
        "endpoints": [
            f"{each.listener}://{_bracketed(each.host)}:{each.port}" for each in broker.endpoints
        ],
    }
    if broker.rack is not None:
        fields["rack"] = broker.rack
    fields["jmx_port"] = -1
    fields["port"] = first.port if first else -1
    fields["host"] = first.host if first else None
    return _encode({**fields, "version": 5, "timestamp": str(timestamp_ms)})


def encode_topic(topic_id: UUID, replicas: Iterable[Sequence[int]]) -> bytes:
    partitions = {str(index): list(each) for index, each in enumerate(replicas)}
    return _encode(
        {
            "partitions": partitions,
            "topic_id": encode_uuid(topic_id),
            "adding_replicas": {},
            "removing_replicas": {},
            "version": 3,
        }
    )


def decode_topic(path: str, data: bytes) -> TopicNode:
    fields = _versioned(path, data, (1, 2, 3))
    text = fields.get("topic_id")
    try:
        topic_id = None if text is None else decode_uuid(_text(path, text, "topic_id"))
    except ValueError:
        raise UnreadableNode(path, f"{text!r} is no topic id") from None
    if topic_id in _RESERVED_IDS:
        raise UnreadableNode(path, f"{text!r} is no topic's id")
    found: dict[int, tuple[int, ...]] = {}
    for name, replicas in _object(path, fields.get("partitions"), "partitions").items():
        index = parse_partition(name)
        if index is None:
            raise UnreadableNode(path, f"{name!r} is no partition")
        found[index] = _ids(path, replicas)
    if set(found) != set(range(len(found))):
        raise UnreadableNode(path, "its partitions are not numbered from 0 without a gap")
    return TopicNode(topic_id, tuple(found[index] for index in range(len(found))))


def encode_state(state: StateNode, controller_epoch: int) -> bytes:
    return _encode(
        {
            "controller_epoch": controller_epoch,
            "leader": state.leader,
            "version": 1,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
        }
    )


def decode_state(path: str, data: bytes) -> StateNode:
    fields = _versioned(path, data, (1,))
    leader = _number(path, fields.get("leader"), "leader", NO_LEADER)
    leader_epoch = _number(path, fields.get("leader_epoch"), "leader_epoch", 0)
    if leader_epoch == _INT32_MAX:
        raise UnreadableNode(path, f"there is no leader epoch after {leader_epoch}")
    return StateNode(leader, leader_epoch, _ids(path, fields.get("isr")))


def encode_controller(node_id: int, timestamp_ms: int) -> bytes:
    fields = {"version": 2, "brokerid": node_id, "timestamp": str(timestamp_ms)}
    return _encode({**fields, "kraftControllerEpoch": -1})


def encode_controller_epoch(epoch: int) -> bytes:
    return b"%d" % epoch


def decode_controller_epoch(data: bytes) -> int:
    if not data.isdigit() or len(data) > _DIGITS_MAX:
        raise UnreadableNode(CONTROLLER_EPOCH, f"{data[:40]!r} is no number")
    if int(data) >= _INT32_MAX:
        raise UnreadableNode(CONTROLLER_EPOCH, f"there is no epoch after {int(data)}")
    return int(data)


def encode_configs(configs: Mapping[str, str]) -> bytes:
    return _encode({"version": 1, "config": dict(configs)})


def decode_configs(path: str, data: bytes) -> dict[str, str]:
    fields = _versioned(path, data, (1,))
    configs = _object(path, fields.get("config"), "config")
    return {key: _text(path, value, key) for key, value in configs.items()}


def encode_config_change(resource: Resource) -> bytes:
    return _encode({"version": 2, "entity_path": config_entity(resource)})


def decode_config_change(path: str, data: bytes) -> Resource | None:
    """Whose configuration has changed; None if that is of no concern here: users, clients."""
    fields = _versioned(path, data, (1, 2))
    if fields["version"] == 1:
        kind, name = fields.get("entity_type"), fields.get("entity_name")
    else:
        entity = _text(path, fields.get("entity_path"), "entity_path")
        kind, _, name = entity.partition("/")
    known = _TYPES.get(_text(path, kind, "its kind"))
    return None if known is None else resource_named(known, _text(path, name, "its name"))


def encode_producer_ids(node_id: int, block: ProducerIdBlock) -> bytes:
    last = block.first + block.size - 1
    fields = {"version": 1, "broker": node_id, "block_start": str(block.first)}
    return _encode({**fields, "block_end": str(last)})


def decode_producer_ids(data: bytes) -> int:
    """The last producer id that was given out; -1: none was."""
    if not data:
        return -1
    text = _versioned(PRODUCER_IDS, data, (1,)).get("block_end")
    if not isinstance(text, str) or not text.isdigit() or len(text) > _DIGITS_MAX:
        raise UnreadableNode(PRODUCER_IDS, f"{text!r} is no producer id")
    if int(text) > _PRODUCER_ID_MAX:
        raise UnreadableNode(PRODUCER_IDS, f"there is no block of producer ids after {text}")
    return int(text)


#: Broker -> the log dirs in which it may have folders of a topic; None: in any.
Folders = Mapping[int, tuple[str, ...] | None]


def encode_folders(folders: Folders) -> bytes:
    known = {str(each): None if left is None else list(left) for each, left in folders.items()}
    return _encode({"version": 1, "folders": known})


def decode_folders(path: str, data: bytes) -> dict[int, tuple[str, ...] | None]:
    fields = _versioned(path, data, (1,))
    found: dict[int, tuple[str, ...] | None] = {}
    for name, left in _object(path, fields.get("folders"), "folders").items():
        node_id = parse_partition(name)
        if node_id is None or not (left is None or isinstance(left, list)):
            raise UnreadableNode(path, f"{name!r}: {left!r} tells of no folders")
        found[node_id] = None if left is None else tuple(_text(path, each, name) for each in left)
    return found


def parse_partition(name: str) -> int | None:
    """The number that a node is called by; None where it is called something else."""
    if not (name.isascii() and name.isdigit()) or len(name) > _DIGITS_MAX:
        return None
    number = int(name)
    return number if number <= _INT32_MAX and str(number) == name else None


# -- JSON ------------------------------------------------------------------------------------


def _encode(fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _decode(path: str, data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
        if _SURROGATE.search(data):
            _encode(fields)  # fails unless each half has its other one
        return _object(path, fields, "it")
    except (ValueError, RecursionError):
        raise UnreadableNode(path, f"{data[:40]!r} is not JSON") from None


def _versioned(path: str, data: bytes, versions: tuple[int, ...]) -> dict[str, Any]:
    fields = _decode(path, data)
    if fields.get("version") not in versions:
        raise UnreadableNode(path, f"its version is {fields.get('version')!r}, which is not known")
    return fields


def _object(path: str, value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnreadableNode(path, f"{what} is not an object")
    return value


def _text(path: str, value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise UnreadableNode(path, f"{what} is not text")
    return value


def _number(path: str, value: Any, what: str, least: int) -> int:
    """A number that the protocol has room for."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise UnreadableNode(path, f"{what} is not a number")
    if not least <= value <= _INT32_MAX:
        raise UnreadableNode(path, f"{what} is not in {least}..{_INT32_MAX}")
    return value


def _ids(path: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise UnreadableNode(path, "replicas are not a list")
    ids = tuple(_number(path, each, "a replica", 0) for each in value)
    if len(set(ids)) < len(ids):
        raise UnreadableNode(path, "a broker is a replica twice")
    return ids


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
