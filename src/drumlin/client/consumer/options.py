"""The options of a consumer, and their checks.

The meanings are in `Client.consumer`, whose signature shows the same defaults. Where Kafka's
consumer has the same option, its default is used, with five exceptions: `start` and `out_of_range`
("latest" in Kafka), `max_records` (500), `max_bytes_per_batch` (1 MiB) and `metadata_refresh_ms`
(five minutes).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from drumlin.client import arguments
from drumlin.client.arguments import Decode
from drumlin.client.consumer.assignors import ASSIGNORS, OwnAssignor
from drumlin.client.places import Time, is_time, timestamp_of
from drumlin.client.read.reader import FETCH_BYTES, ReadOptions, schema_of
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.options import Isolation
from drumlin.zookeeper.consumer_offsets import can_have_group

#: The group protocol: the classic one, or KIP-848's.
GroupProtocol = Literal["classic", "consumer"]
#: The store of a group's offsets, named as in Kafka's old high-level consumer.
#: "ads" is the name in Arenadata Streaming's old consumers for "kafka".
OffsetsStorage = Literal["kafka", "zookeeper", "ads"]
ConsumerDelivery = Literal["at_least_once", "at_most_once"]
#: The start of a partition without a committed offset. "committed": `poll` raises.
Start = Literal["earliest", "latest", "committed"] | Time
#: The next position once the log no longer has the current one. "raise": `poll` raises.
OutOfRange = Literal["raise", "earliest", "latest"]
OnPartitions = Callable[[frozenset[TopicPartition]], object]
#: Called with the partition, its old position and its new one.
OnReset = Callable[[TopicPartition, int, int], object]

_STARTS: Final = ("earliest", "latest", "committed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """All options of a consumer except its group.

    Raises:
        TypeError, ValueError: a value is not allowed, or conflicts with another option.
    """

    protocol: GroupProtocol = "classic"
    assignors: Sequence[str | OwnAssignor] = ("range", "cooperative-sticky")
    server_assignor: str | None = None
    group_instance_id: str | None = None
    rack: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    delivery: ConsumerDelivery = "at_least_once"
    commit_interval_ms: int | None = 5_000
    offsets_storage: OffsetsStorage = "kafka"
    dual_commit: bool = False
    zookeeper: str | None = None
    zookeeper_config: Mapping[str, str] | None = None
    start: Start = "earliest"
    out_of_range: OutOfRange = "raise"
    isolation: Isolation = "read_uncommitted"
    columns: Sequence[str] | None = None
    headers: bool = False
    decode: Decode | None = None
    max_records: int | None = None
    max_bytes_per_batch: int = FETCH_BYTES
    buffer_bytes: int = 64 << 20
    max_wait_ms: int = 500
    idle_timeout_ms: int | None = None
    metadata_refresh_ms: int = 30_000
    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None
    on_reset: OnReset | None = None

    def __post_init__(self) -> None:
        if self.protocol not in ("classic", "consumer"):
            raise ValueError(f"protocol {self.protocol!r}: expected 'classic' or 'consumer'")
        named = [each for each in self.assignors if not isinstance(each, OwnAssignor)]
        unknown = [each for each in named if each not in ASSIGNORS]
        if unknown or not self.assignors:
            raise ValueError(f"assignors {unknown}: expected some of {sorted(ASSIGNORS)}")
        if self.delivery not in ("at_least_once", "at_most_once"):
            raise ValueError(f"delivery {self.delivery!r}: at_least_once or at_most_once")
        arguments.isolation_level(self.isolation)
        if self.out_of_range not in ("raise", "earliest", "latest"):
            raise ValueError(f"out_of_range {self.out_of_range!r}: raise, earliest or latest")
        if is_time(self.start):
            timestamp_of(self.start, "start")
        else:
            arguments.one_of("start", self.start, _STARTS, "a datetime or Milliseconds")
        if self.protocol == "classic" and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError("heartbeat_interval_ms must be shorter than session_timeout_ms")
        for name in ("max_records", "max_bytes_per_batch", "buffer_bytes", "max_poll_interval_ms"):
            value = getattr(self, name)
            arguments.numbers_at_least({name: value}, 1)
        for name in ("on_assigned", "on_revoked", "on_lost", "on_reset"):
            arguments.callable_or_none(name, getattr(self, name))
        arguments.decoding(self.decode)
        schema_of(self.read_options)
        self._check_storage()

    def _check_storage(self) -> None:
        if self.offsets_storage not in ("kafka", "zookeeper", "ads"):
            raise ValueError(f"offsets_storage {self.offsets_storage!r}: kafka or zookeeper")
        if not isinstance(self.dual_commit, bool):
            raise TypeError(f"dual_commit {self.dual_commit!r}: expected True or False")
        if self.uses_zookeeper and not self.zookeeper:
            raise ValueError("offsets in ZooKeeper need its address: zookeeper='host:port/chroot'")

    @property
    def uses_zookeeper(self) -> bool:
        """Whether offsets are stored in ZooKeeper, alone or as well."""
        return self.dual_commit or self.offsets_storage == "zookeeper"

    def check_group(self, group: str | None) -> None:
        """
        Raises:
            ValueError: ZooKeeper stores the offsets, and `group` is not a valid node name there.
        """
        if not self.uses_zookeeper:
            return
        if group is None or not can_have_group(group):
            raise ValueError(f"offsets in ZooKeeper: {group!r} is no valid group there")

    @property
    def read_options(self) -> ReadOptions:
        """The options that decoding needs."""
        return ReadOptions(columns=self.columns, headers=self.headers)


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscribed topics: by name, or all whose full name matches the pattern."""

    names: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, topics: str | Sequence[str] | re.Pattern[str]) -> Subscription:
        """The subscription to one or more topic names, or to a pattern.

        Raises:
            ValueError: no topic was given.
        """
        if isinstance(topics, re.Pattern):
            return cls(pattern=topics)
        names = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics))
        if not names:
            raise ValueError("no topics to read")
        return cls(names)
