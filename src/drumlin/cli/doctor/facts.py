"""What is known about a machine, a data directory and a cluster, before anything is judged.

None and empty mean that a fact is not known; no check makes a finding of what is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from drumlin.client.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class FileSystem:
    """Where a log dir lies on this machine."""

    path: str
    kind: str  # as in the table of mounts, e.g. "ext4"
    mount_point: str
    options: frozenset[str]
    total_bytes: int
    free_bytes: int
    total_inodes: int
    free_inodes: int
    is_writable: bool = True


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine, as it is for the broker that uses a data directory."""

    broker_pid: int | None = None  # None: no broker runs there
    descriptors_max: int | None = None  # the hard limit, which brokers use
    memory_maps_max: int | None = None
    is_clock_synchronized: bool | None = None
    ephemeral_ports: range = range(0)
    file_systems: tuple[FileSystem, ...] = ()
    partitions: int = 0  # folders of logs in the log dirs


@dataclass(frozen=True, slots=True)
class Address:
    """A listener's address as clients are told it, and what a look from here has found."""

    broker: int | None
    listener: str
    protocol: str | None
    host: str
    port: int
    is_ours: bool  # whether the doctor itself is told this address
    resolved: tuple[str, ...] = ()
    resolve_error: str | None = None
    connect_error: str | None = None
    certificate: Certificate | None = None


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate in a file or at an address."""

    where: str
    name: str
    hosts: tuple[str, ...]
    begins: datetime
    ends: datetime


@dataclass(frozen=True, slots=True)
class Configuration:
    """A broker's configuration, from a file, or as the broker tells it."""

    where: str
    values: Mapping[str, str]
    broker: int | None = None
    without_effect: tuple[str, ...] = ()

    def is_true(self, key: str) -> bool:
        return self.values.get(key, "").strip().lower() == "true"


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a configured listener, where no broker runs yet."""

    address: str
    error: str


@dataclass(frozen=True, slots=True)
class BrokerClock:
    """A broker's wall clock, compared with this machine's."""

    broker: str
    ahead_ms: int
    error_ms: int  # how wrong the comparison may be
    jumped_ahead_ms: int = 0  # what the broker itself does not trust


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition and the configuration of its topic that matters here."""

    topic: str
    index: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    is_internal: bool = False

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"


@dataclass(frozen=True, slots=True)
class LogGrowth:
    """One replica of a log, and the speed at which it grows."""

    size_bytes: int
    bytes_per_s: float
    retention_s: float | None = None  # None: without limit
    retention_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Disk:
    """A log dir as its broker tells it."""

    broker: int
    path: str
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    logs: tuple[LogGrowth, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A group in one partition, at two looks."""

    start_offset: int
    committed: tuple[int, int]
    end: tuple[int, int]

    @property
    def lag(self) -> tuple[int, int]:
        before, after = (max(e - c, 0) for e, c in zip(self.end, self.committed, strict=True))
        return before, after

    @property
    def arrived(self) -> int:
        return self.end[1] - self.end[0]


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group and its positions, some seconds apart."""

    group: str
    state: str | None
    positions: Mapping[TopicPartition, GroupPosition]
    seconds: float


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction as its coordinator tells it."""

    transactional_id: str
    open_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True)
class HangingProducer:
    """A producer whose transaction in a partition no coordinator knows."""

    topic: str
    partition: int
    producer_id: int
    held_up: int  # records behind the last stable offset


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster as any of its clients can see it."""

    cluster_id: str | None = None
    live: frozenset[int] = frozenset()
    controller: int | None = None
    partitions: tuple[Partition, ...] = ()
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    brokers: tuple[Configuration, ...] = ()
    addresses: tuple[Address, ...] = ()
    clocks: tuple[BrokerClock, ...] = ()
    disks: tuple[Disk, ...] = ()
    groups: tuple[GroupFacts, ...] = ()
    open_transactions: tuple[OpenTransaction, ...] = ()
    hanging: tuple[HangingProducer, ...] = ()
    newest: Mapping[TopicPartition, int] = field(default_factory=dict)  # highest timestamps


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was gathered. `unknown`: what could not be looked at, and why."""

    now_ms: int
    machine: Machine | None = None
    cluster: ClusterFacts | None = None
    configuration: Configuration | None = None
    ports: tuple[Port, ...] = ()
    certificates: tuple[Certificate, ...] = ()
    clocks: tuple[BrokerClock, ...] = ()
    cleaner: Mapping[str, Any] | None = None  # the report of /compaction
    invalid_configuration: str | None = None
    unreachable: str | None = None  # why no broker answers
    unknown: tuple[tuple[str, str], ...] = ()
