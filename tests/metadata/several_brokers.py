"""Stores of several brokers on one ZooKeeper, open in one loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from drumlin.clock import Clock
from drumlin.metadata.changes import Change, PartitionsChanged
from drumlin.metadata.image import BrokerState, Endpoint, PartitionId, PartitionState
from drumlin.metadata.store import IsrWish
from metadata.stores import stores_at
from rig.waiting import eventually

Scenario = Callable[["Brokers"], Coroutine[Any, Any, None]]
#: Runs a scenario on brokers that it starts.
RunBrokers = Callable[[Scenario], None]

ADDRESS = Endpoint("PLAINTEXT", "::1", 9092)


class Brokers:
    """Stores of brokers, open in one loop."""

    def __init__(self, chroot: str, clock: Clock | None = None) -> None:
        self.chroot = chroot
        self.clock = clock
        self.stores: dict[int, Any] = {}
        self.changes: dict[int, list[Change]] = {}

    async def start(self, node_id: int, *, was_clean: bool = True, **more: str) -> Any:
        store: Any = await stores_at(self.chroot, node_id, clock=self.clock, **more).open()
        self.stores[node_id] = store
        self.changes[node_id] = []
        broker = BrokerState(node_id, f"rack-{node_id}", (ADDRESS,))
        await store.register_broker(broker, lacking=() if was_clean else None)
        store.on_change(self.changes[node_id].append)
        return store

    async def start_all(self, *node_ids: int) -> list[Any]:
        """The first of them is the controller."""
        stores = [await self.start(each) for each in node_ids]
        await eventually(lambda: all(set(each.image.brokers) == set(node_ids) for each in stores))
        return stores

    async def end(self, node_id: int) -> None:
        """Without handing over: what ZooKeeper sees of one that was killed."""
        await self.stores.pop(node_id).close()

    async def close(self) -> None:
        for store in self.stores.values():
            await store.close()

    def told_of(self, node_id: int) -> list[int]:
        """The partitions of which it was told that their states have changed."""
        changes = self.changes[node_id]
        changed = [each for each in changes if isinstance(each, PartitionsChanged)]
        return [state.index for each in changed for state in each.partitions]

    async def all_see(self, topic: str, index: int, **fields: Any) -> None:
        """Wait until all of them have this state of a partition."""

        def is_so(store: Any) -> bool:
            state = partition(store, topic, index)
            return state is not None and all(
                getattr(state, key) == value for key, value in fields.items()
            )

        await eventually(lambda: all(map(is_so, self.stores.values())), 10)


def partition(store: Any, topic: str, index: int = 0) -> PartitionState | None:
    known = store.image.topics.get(topic)
    return None if known is None else known.partition(index)


def id_of(store: Any, topic: str, index: int = 0) -> PartitionId:
    return PartitionId(store.image.topics[topic].topic_id, index)


def wish(state: PartitionState, *isr: tuple[int, int]) -> IsrWish:
    return IsrWish(state.leader_epoch, state.partition_epoch, isr)
