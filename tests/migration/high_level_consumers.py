"""High-level consumers as the first ones were: a group that shares partitions out by itself.

`offsets.storage` says where a consumer commits and continues; with `dual.commit.enabled` it
commits to both stores, and continues from the greater offset. A consumer that ends, or loses a
partition, commits first; one that is killed does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from drumlin.client.client import Client
from migration.mirroring import BrokerGroup
from migration.old_consumers import OldStore


@dataclass(frozen=True)
class Settings:
    """The two that matter here."""

    offsets_storage: str  # "zookeeper" or "kafka"
    dual_commit_enabled: bool = False

    @property
    def uses_zookeeper(self) -> bool:
        return self.dual_commit_enabled or self.offsets_storage == "zookeeper"

    @property
    def uses_broker(self) -> bool:
        return self.dual_commit_enabled or self.offsets_storage == "kafka"


@dataclass
class Stores:
    """Where a group of one topic commits, and what it reads."""

    topic: str
    client: Client
    old: OldStore
    broker: BrokerGroup


class Consumer:
    """One consumer; everything happens when it is told to."""

    def __init__(self, name: str, settings: Settings, stores: Stores) -> None:
        self.name = name
        self.settings = settings
        self.positions: dict[int, int] = {}
        self._stores = stores
        self._group = stores.topic

    def committed(self) -> dict[int, int]:
        """Where it would continue."""
        found: dict[int, int] = {}
        if self.settings.uses_zookeeper:
            found = self._stores.old.committed(self._group, self._stores.topic)
        if self.settings.uses_broker:
            for partition, offset in self._stores.broker.committed(self._group).items():
                found[partition] = max(offset, found.get(partition, 0))
        return found

    def poll(self, ends: dict[int, int], records: int) -> list[tuple[int, int]]:
        """Up to so many records of each partition, as (partition, offset)."""
        polled = []
        for partition, position in self.positions.items():
            end = min(ends[partition], position + records)
            if end > position:
                batches = self._stores.client.read_range(
                    self._stores.topic, partition, position, end
                )
                offsets = [each for batch in batches for each in batch["offset"].to_pylist()]
                polled += [(partition, each) for each in offsets]
                self.positions[partition] = end
        return polled

    def commit(self, partitions: set[int] | None = None) -> dict[int, int]:
        """Where it has come to, for some partitions or all; gives what was committed."""
        offsets = {
            partition: position
            for partition, position in self.positions.items()
            if partitions is None or partition in partitions
        }
        if offsets and self.settings.uses_broker:
            self._stores.broker.commit(self._group, self._stores.topic, offsets)
        if self.settings.uses_zookeeper:
            for partition, offset in offsets.items():
                self._stores.old.commit(self._group, self._stores.topic, partition, offset)
        return offsets


class Group:
    """The consumers that run, and a bookkeeper who checks where each begins."""

    def __init__(self, stores: Stores, partitions: int) -> None:
        self.stores = stores
        self.consumers: dict[str, Consumer] = {}
        self.read: list[tuple[int, int]] = []
        self.committed: dict[int, int] = {}  # of the last commit, wherever that was
        self.uncommitted_at_kills = 0
        self._partitions = partitions

    def start(self, name: str, settings: Settings) -> None:
        self.consumers[name] = Consumer(name, settings, self.stores)
        self._rebalance()

    def stop(self, name: str) -> None:
        self.committed |= self.consumers[name].commit()
        del self.consumers[name]
        self._rebalance()

    def kill(self, name: str) -> None:
        lost = self.consumers.pop(name).positions
        self.uncommitted_at_kills += sum(
            position - self.committed.get(partition, 0) for partition, position in lost.items()
        )
        self._rebalance()

    def poll(self, records: int, *, commits: bool = True) -> None:
        """Everybody reads on."""
        ends = self.stores.client.offsets(self.stores.topic, "latest")
        for consumer in self.consumers.values():
            self.read += consumer.poll(ends, records)
            if commits:
                self.committed |= consumer.commit()

    def _rebalance(self) -> None:
        consumers = [self.consumers[name] for name in sorted(self.consumers)]
        shares: dict[str, set[int]] = {each.name: set() for each in consumers}
        for partition in range(self._partitions if consumers else 0):
            shares[consumers[partition % len(consumers)].name].add(partition)
        for each in consumers:
            lost = each.positions.keys() - shares[each.name]
            self.committed |= each.commit(set(lost))
            for partition in lost:
                del each.positions[partition]
        for each in consumers:
            gained = shares[each.name] - each.positions.keys()
            found = each.committed() if gained else {}
            for partition in gained:
                each.positions[partition] = found.get(partition, 0)
                # As a plain restart would have it: neither before nor after.
                assert each.positions[partition] == self.committed.get(partition, 0), (
                    f"{each.name} begins {partition} at {each.positions[partition]}"
                )
