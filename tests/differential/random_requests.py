"""Requests of any API and version with fields drawn by chance from what might matter to them."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from drumlin.wire.schema.declaration import Field
from drumlin.wire.schema.types import Array, Struct, type_name
from rig.data.messages import fields_there, item_of, payload_class

#: What a field may hold, by its name; else by its type.
_BY_NAME: dict[str, tuple[Any, ...]] = {
    "broker_ids": (1, 1, 2, -1),
    "config_operation": (0, 1, 2, 3),
    "committed_metadata": ("", "note"),
    "committed_offset": (0, 1, 2**40, -1),
    "configuration_keys": ("retention.ms", "no.such.key", "segment.bytes"),
    "count": (0, 1, 2, 3, 4, -1),
    "fetch_offset": (0, 1, 2, 3, 4, 5, -1, 2**40),
    "generation_id": (-1, 0, 1),
    "isolation_level": (0, 1),
    "key_type": (0, 0, 2, -1, 5),
    "max_bytes": (0, 1, 100, 1 << 20),
    "max_wait": (0,),
    "member_id": ("", "nobody"),
    "num_partitions": (1, 2, -1, 0, -3),
    "partition_max_bytes": (0, 1, 100, 1 << 20),
    "producer_id": (-1, -1, 5),
    "protocol_type": ("consumer", "", "connect"),
    "replica_id": (-1, -1, -2),
    "replication_factor": (1, 1, -1, 2, 0),
    "resource_type": (2, 2, 2, 4, 32, 0),
    "response_partition_limit": (1, 2, 5, 2000, 0),
    "session_epoch": (-1,),
    "session_id": (0,),
    "timeout": (5000,),
    "timestamp": (*range(-1, -8, -1), 0, 1000, 1_700_000_000_000, 1_700_000_002_500, 2**62),
    "transactional_id": (None,),
    "validate_only": (True,),
    "value": ("1", "-1", "compact", "lz4", "", "x", "2000000"),
}
_PARTITIONS = (0, 0, 0, 1, 2, -1)
_EPOCHS = (-1, -1, -1, 0, 0, 1)
_BY_TYPE: dict[str, tuple[Any, ...]] = {
    "bool": (False, True),
    "bytes": (b"", b"x"),
    "string": ("", "x"),
    "timedelta_i32": (-1, 0, 1000, 60_000),
    "timedelta_i64": (-1, 0, 1000),
}
_CONFIG_KEYS = ("retention.ms", "cleanup.policy", "segment.bytes", "no.such.key", "")
_CONFIG_APIS = ("alter_configs", "describe_configs", "incremental_alter_configs")


@dataclasses.dataclass(frozen=True)
class World:
    """What exists on a broker, under names that are the same on both, and ids that are not."""

    topics: tuple[str, ...]
    topic_ids: tuple[Any, ...]
    group: str


class RandomRequests:
    """The same seed gives the same request for any world: ids are drawn by their place."""

    def __init__(self, seed: int, world: World) -> None:
        self._chance = random.Random(seed)
        self._world = world

    def request(self, api: str, version: int) -> dict[str, Any]:
        """All fields of one request, as plain data."""
        return self._structure(api, payload_class(api, "request"), version)

    def _structure(self, api: str, cls: Any, version: int, depth: int = 0) -> dict[str, Any]:
        return {
            field.name: self._field(api, field, version, depth)
            for field in fields_there(cls, version)
        }

    def _field(self, api: str, field: Field, version: int, depth: int) -> Any:
        chance = self._chance
        if field.is_nullable and chance.random() < 0.2:
            return None
        item = item_of(field.type)
        if not isinstance(field.type, Array):
            if isinstance(item, Struct):
                return self._structure(api, item.of, version, depth + 1)
            return self._scalar(api, field)
        count = chance.choice((0, 1, 1, 1, 2, 2, 3) if depth else (1, 1, 2))
        if isinstance(item, Struct):
            return [self._structure(api, item.of, version, depth + 1) for _ in range(count)]
        return [self._scalar(api, field) for _ in range(count)]

    def _scalar(self, api: str, field: Field) -> Any:
        return self._chance.choice(self._choices(api, field))

    def _choices(self, api: str, field: Field) -> tuple[Any, ...]:
        name, kind = field.name, type_name(item_of(field.type))
        world = self._world
        if kind == "uuid":
            return world.topic_ids
        if name in ("group_id", "groups", "groups_names", "coordinator_keys", "key"):
            return (world.group, world.group, f"{world.group}-unknown", "")
        if name == "name" and api in _CONFIG_APIS:
            return _CONFIG_KEYS
        if name == "resource_name":
            return (*world.topics, "1", "2", "", "unknown")
        if name in ("topic", "name", "topic_name"):
            return (*world.topics * 2, f"{world.topics[0]}-unknown", "", "a b", "ü")
        if name in _BY_NAME:
            return _BY_NAME[name]
        if name in ("partition", "partition_index", "partition_indexes", "partitions", "index"):
            return _PARTITIONS
        if "epoch" in name:
            return _EPOCHS
        return _BY_TYPE.get(kind, (-1, 0, 1, 2))
