"""Stores of several brokers, open in one loop: on one ZooKeeper, or sharing an embedded one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from drumlin.clock import Clock
from drumlin.metadata.image import BrokerState, Endpoint, LogEnd, PartitionId, PartitionState
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.rules.leadership import Returned
from drumlin.metadata.store.changes import Change, PartitionsChanged
from drumlin.wire.error_codes import ErrorCode, KafkaError
from metadata.stores import SharedOwner, stores_at
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

    async def start(
        self,
        node_id: int,
        *,
        was_clean: bool = True,
        found: Returned = Returned(LogEnd(0, 0)),  # noqa: B008
        **more: str,
    ) -> Any:
        store: Any = await stores_at(self.chroot, node_id, clock=self.clock, **more).open()
        self.stores[node_id] = store
        self.changes[node_id] = []
        broker = BrokerState(node_id, f"rack-{node_id}", (ADDRESS,))
        await store.register_broker(
            broker, lacking={} if was_clean else all_of(store, node_id, found)
        )
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

    async def cut_power(self) -> None:
        """All end at once, and nobody is left to notice."""
        for store in self.stores.values():
            await store._follower.stop()
        for node_id in list(self.stores):
            await self.end(node_id)

    async def close(self) -> None:
        for store in self.stores.values():
            await store.close()

    def told(self, node_id: int) -> list[PartitionState]:
        """The states of which it was told that they have changed.

        The image shows a state before that.
        """
        changes = self.changes[node_id]
        changed = [each for each in changes if isinstance(each, PartitionsChanged)]
        return [state for each in changed for state in each.partitions]

    def told_of(self, node_id: int) -> list[int]:
        """The partitions of these states."""
        return [state.index for state in self.told(node_id)]

    async def all_see(self, topic: str, index: int, **fields: Any) -> None:
        """Wait until all of them have this state of a partition."""

        def is_so(store: Any) -> bool:
            state = partition(store, topic, index)
            return state is not None and all(
                getattr(state, key) == value for key, value in fields.items()
            )

        await eventually(lambda: all(map(is_so, self.stores.values())))


class BrokersOfOneMachine(Brokers):
    """Those that share an embedded store."""

    def __init__(self, directory: Path) -> None:
        super().__init__("")
        self._directory = directory
        self._owner: SharedOwner

    async def start_all(self, *node_ids: int) -> list[Any]:
        """None of them is served before all are there."""
        self._owner = SharedOwner(self._directory, node_ids)
        return list(await asyncio.gather(*map(self.start, node_ids)))

    async def start(
        self,
        node_id: int,
        *,
        was_clean: bool = True,
        found: Returned = Returned(LogEnd(0, 0)),  # noqa: B008
        **_: str,
    ) -> Any:
        store = self.stores[node_id] = await self._owner.open(node_id)
        self.changes[node_id] = []
        broker = BrokerState(node_id, f"rack-{node_id}", (ADDRESS,))
        await store.register_broker(
            broker, lacking={} if was_clean else all_of(store, node_id, found)
        )
        if store.adoption is not None:
            await store.adoption.note_adopted()
        store.on_change(self.changes[node_id].append)
        return store

    async def cut_power(self) -> None:
        authority = self._owner.authority
        authority.stop()
        for node_id in list(self.stores):
            await self.end(node_id)
        await eventually(lambda: not authority.image.brokers)
        authority.controller._is_stopping = False

    async def close(self) -> None:
        self._owner.authority.stop()
        await super().close()
        await self._owner.authority.store.close()


def all_of(store: Any, node_id: int, found: Returned) -> dict[PartitionId, Returned]:
    """The same was found of all that a broker has."""
    return {
        PartitionId(topic.topic_id, state.index): found
        for topic in store.image.topics.values()
        for state in topic.partitions
        if node_id in state.replicas
    }


def partition(store: Any, topic: str, index: int = 0) -> PartitionState | None:
    known = store.image.topics.get(topic)
    return None if known is None else known.partition(index)


def id_of(store: Any, topic: str, index: int = 0) -> PartitionId:
    return PartitionId(store.image.topics[topic].topic_id, index)


def wish(state: PartitionState, *isr: tuple[int, int]) -> IsrRequest:
    return IsrRequest(state.leader_epoch, state.partition_epoch, isr)


async def reassign(
    store: Any, topic: str, *targets: Sequence[int] | None, **how: bool
) -> list[PartitionState | ErrorCode]:
    ids = [id_of(store, topic, index) for index in range(len(targets))]
    found = await store.reassign(dict(zip(ids, targets, strict=True)), **how)
    return [each.code if isinstance(each, KafkaError) else each for each in map(found.get, ids)]


async def grow(store: Any, topic: str, *isr: tuple[int, int], index: int = 0) -> None:
    """Have its leader ask for this ISR, of brokers and their epochs."""
    key, state = id_of(store, topic, index), partition(store, topic, index)
    assert state is not None
    (answer,) = (await store.alter_isrs({key: wish(state, *isr)})).values()
    assert isinstance(answer, PartitionState), answer
