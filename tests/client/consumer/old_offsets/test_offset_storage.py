"""Offsets in ZooKeeper: which of two counts, who may write, and what is done if a store fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drumlin
from drumlin.client.admin.committed_offsets import GroupMetadata, OffsetAndMetadata
from drumlin.client.client import Client
from drumlin.client.consumer.old_offsets.zookeeper_nodes import ZooKeeperNodes
from drumlin.client.consumer.old_offsets.zookeeper_storage import (
    DualStorage,
    ZooKeeperStorage,
    greater_of_both,
)
from drumlin.client.consumer.options import ConsumerOptions
from drumlin.client.errors import CommitFailed, OffsetStoreFailed, OffsetStoreUnreachable
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.zookeeper.consumer_offsets import ABSENT, ZooKeeperOffset
from migration.old_consumers import OldStore
from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.zookeeper import ZooKeeper, running_zookeeper
from rig.waiting import wait_until

Place = tuple[str, int]
WHERE: Place = ("trades", 0)
OTHER: Place = ("trades", 1)
WHO = GroupMetadata("g", 1, "m")


def at(offset: int) -> dict[Place, OffsetAndMetadata]:
    return {WHERE: OffsetAndMetadata(offset)}


def owned() -> None:
    """This member has all of it."""


class Nodes:
    """As ZooKeeperNodes; `is_away`: it does not answer."""

    def __init__(self, **offsets: int) -> None:
        self.found = {("trades", int(n[1:])): ZooKeeperOffset(o, 0, 0) for n, o in offsets.items()}
        self.is_away = False

    async def read(
        self, places: Collection[Place], *, is_exact: bool
    ) -> dict[Place, ZooKeeperOffset]:
        self._answer()
        return {place: self.found[place] for place in places if place in self.found}

    async def write(self, offsets: dict[Place, tuple[int, int]]) -> None:
        self._answer()
        for place, (offset, version) in offsets.items():
            now = self.found[place].version if place in self.found else ABSENT
            if version != now:
                raise OffsetStoreFailed("changed", may_pass=True)
            self.found[place] = ZooKeeperOffset(offset, 0 if now == ABSENT else now + 1, 0)

    async def close(self) -> None: ...

    def _answer(self) -> None:
        if self.is_away:
            raise OffsetStoreUnreachable("ZooKeeper does not answer")

    def offsets(self) -> dict[Place, int]:
        return {place: each.offset for place, each in self.found.items()}


class Brokers:
    """As BrokerStorage; `refuses` a commit with that code; `meanwhile` is done at a commit."""

    def __init__(self, **offsets: int) -> None:
        self.found = {("trades", int(n[1:])): OffsetAndMetadata(o) for n, o in offsets.items()}
        self.refuses: ErrorCode | None = None
        self.meanwhile: Callable[[], None] = owned

    async def fetch(
        self, _who: GroupMetadata, places: Collection[Place]
    ) -> dict[Place, OffsetAndMetadata]:
        return {place: self.found[place] for place in places if place in self.found}

    async def commit(
        self,
        _who: GroupMetadata,
        offsets: dict[Place, OffsetAndMetadata],
        _check: Callable[[], None],
    ) -> None:
        await self.confirm(WHO, offsets)
        self.found |= offsets

    async def confirm(self, _who: GroupMetadata, _places: Collection[Place]) -> None:
        self.meanwhile()
        if self.refuses is not None:
            raise KafkaError(self.refuses, "refused")


def dual(brokers: Brokers, nodes: Nodes) -> DualStorage:
    return DualStorage(brokers, ZooKeeperStorage(nodes, brokers.confirm), nodes)  # type: ignore[arg-type]


# -- the greater of both -----------------------------------------------------------------------

some_offsets = st.dictionaries(
    st.tuples(st.just("t"), st.integers(0, 4)),
    st.builds(OffsetAndMetadata, st.integers(0, 5), st.sampled_from(["", "note"])),
)


@given(some_offsets, some_offsets)
def test_the_greater_of_both_counts(
    brokers: dict[Place, OffsetAndMetadata], nodes: dict[Place, OffsetAndMetadata]
) -> None:
    found = greater_of_both(brokers, nodes)
    assert found.offsets.keys() == brokers.keys() | nodes.keys()
    for place, each in found.offsets.items():
        assert each.offset == max(s[place].offset for s in (brokers, nodes) if place in s)
        equal = place in brokers and place in nodes and brokers[place][0] == nodes[place][0]
        # What only one store has is committed again, so that both have it soon.
        assert (place in found.settled) == equal
        if equal:
            assert each == brokers[place]  # with its metadata


def test_both_begin_at_the_greater() -> None:
    store = dual(Brokers(p0=5), Nodes(p0=7, p1=3))
    start = asyncio.run(store.take_over(WHO, [WHERE, OTHER]))
    assert {place: each.offset for place, each in start.offsets.items()} == {WHERE: 7, OTHER: 3}
    assert start.settled == {}


# -- one store fails ---------------------------------------------------------------------------


def test_without_zookeeper_the_brokers_have_it_and_the_commit_fails() -> None:
    brokers, nodes = Brokers(p0=5), Nodes(p0=5)
    nodes.is_away = True
    with pytest.raises(OffsetStoreUnreachable):
        asyncio.run(dual(brokers, nodes).commit(WHO, at(6), owned))
    assert brokers.found == at(6)
    nodes.is_away = False
    asyncio.run(dual(brokers, nodes).commit(WHO, at(6), owned))
    assert nodes.offsets() == {WHERE: 6}


@pytest.mark.parametrize("is_dual", [True, False])
def test_what_the_coordinator_refuses_is_not_in_zookeeper(is_dual: bool) -> None:
    brokers, nodes = Brokers(p0=5), Nodes(p0=5)
    brokers.refuses = ErrorCode.illegal_generation
    store = dual(brokers, nodes) if is_dual else ZooKeeperStorage(nodes, brokers.confirm)  # type: ignore[arg-type]
    with pytest.raises(KafkaError):
        asyncio.run(store.commit(WHO, at(6), owned))
    assert nodes.offsets() == {WHERE: 5}
    assert brokers.found == at(5)


@pytest.mark.parametrize("is_dual", [True, False])
def test_a_partition_that_went_while_the_coordinator_was_asked(is_dual: bool) -> None:
    brokers, nodes = Brokers(), Nodes(p0=5)
    is_lost = False

    def lose() -> None:
        nonlocal is_lost
        is_lost = True

    def check() -> None:
        if is_lost:
            raise CommitFailed("not ours")

    brokers.meanwhile = lose
    store = dual(brokers, nodes) if is_dual else ZooKeeperStorage(nodes, brokers.confirm)  # type: ignore[arg-type]
    with pytest.raises(CommitFailed):
        asyncio.run(store.commit(WHO, at(6), check))
    assert nodes.offsets() == {WHERE: 5}


# -- who was replaced --------------------------------------------------------------------------


@pytest.mark.parametrize("commits_first", [True, False])
def test_a_replaced_member_does_not_write_over_its_successor(commits_first: bool) -> None:
    """It was confirmed, and slept before it wrote; the successor begins meanwhile."""
    nodes, begun = Nodes(p0=5), {}
    new = ZooKeeperStorage(nodes, Brokers().confirm)  # type: ignore[arg-type]

    async def begin_elsewhere(_who: GroupMetadata, _places: Collection[Place]) -> None:
        begun.update((await new.take_over(WHO, [WHERE])).offsets)
        if commits_first:
            await new.commit(WHO, at(9), owned)

    old = ZooKeeperStorage(nodes, begin_elsewhere)  # type: ignore[arg-type]
    with pytest.raises(OffsetStoreFailed, match="changed"):
        asyncio.run(old.commit(WHO, at(6), owned))
    assert begun == at(5)
    assert nodes.offsets() == {WHERE: 9 if commits_first else 5}


def test_who_is_no_member_neither_asks_nor_claims() -> None:
    nodes = Nodes(p0=5)
    store = ZooKeeperStorage(nodes, None)  # type: ignore[arg-type]
    asyncio.run(store.take_over(WHO, [WHERE]))
    assert nodes.found[WHERE].version == 0
    asyncio.run(store.commit(WHO, at(6), owned))
    assert nodes.offsets() == {WHERE: 6}


# -- with a real ZooKeeper ---------------------------------------------------------------------


@pytest.mark.zookeeper
def test_nodes_are_made_and_compared(zookeeper: ZooKeeper) -> None:
    old = OldStore.create(zookeeper.address, "/nodes-compared")
    old.commit("g", "trades", 0, 5)

    async def use() -> None:
        nodes = ZooKeeperNodes(old.address, {}, "g", 10_000)
        try:
            found = await nodes.read([WHERE, OTHER], is_exact=True)
            assert {place: each.offset for place, each in found.items()} == {WHERE: 5}
            version = found[WHERE].version
            await nodes.write({WHERE: (6, version), OTHER: (1, ABSENT)})
            for stale in ({WHERE: (7, version)}, {OTHER: (7, ABSENT)}):
                with pytest.raises(OffsetStoreFailed, match="/consumers/g/offsets/trades/") as told:
                    await nodes.write(stale)
                assert told.value.may_pass
            old.commit("g", "trades", 0, b"not a number")
            with pytest.raises(OffsetStoreFailed, match="/consumers/g/offsets/trades/0") as told:
                await nodes.read([WHERE], is_exact=True)
            assert not told.value.may_pass
        finally:
            await nodes.close()

    asyncio.run(use())
    old.commit("g", "trades", 0, 8)
    assert old.committed("g", "trades") == {0: 8, 1: 1}
    old.close()


@pytest.mark.deep
@pytest.mark.zookeeper
def test_zookeeper_goes_and_comes_back(
    group_broker: DrumlinServer, group_client: Client, group_topic: str, tmp_path: Path
) -> None:
    """Commits fail meanwhile, though the brokers have them; the next one makes both equal."""
    table = pa.table({"value": [b"x"] * 10})
    group_client.append(table, group_topic, partition=lambda data, _: pa.array([0] * data.num_rows))
    with (
        running_zookeeper(tmp_path) as server,
        drumlin.connect(group_broker.address, request_timeout_ms=2_000) as client,
        client.consumer(
            group_topic,
            group=group_topic,
            dual_commit=True,
            zookeeper=server.address,
            commit_interval_ms=None,
        ) as consumer,
    ):
        place = (group_topic, 0)
        assert wait_until(lambda: consumer.poll(100), "records")
        consumer.commit({place: 4})
        server.kill()
        with pytest.raises(drumlin.OffsetStoreUnreachable, match=f"/consumers/{group_topic}"):
            consumer.commit({place: 5})
        with pytest.raises(ConnectionError, match=server.address):
            consumer.committed()
        assert client.committed_offsets(group_topic)[place].offset == 5
        server.start()

        def commits() -> bool:
            with suppress(drumlin.OffsetStoreUnreachable):
                consumer.commit({place: 6})
                return True
            return False

        wait_until(commits, "ZooKeeper to be back")
        old = OldStore.open(server.address)
        assert old.committed(group_topic, group_topic) == {0: 6}
        old.close()
        with pytest.raises(drumlin.CommitFailed, match="not assigned"):
            consumer.commit({(group_topic, 99): 1})


# -- options -----------------------------------------------------------------------------------


def test_options_that_cannot_be() -> None:
    for wrong in (
        {"offsets_storage": "file"},
        {"offsets_storage": "zookeeper"},
        {"dual_commit": True},
    ):
        with pytest.raises(ValueError, match="zookeeper"):
            ConsumerOptions(**wrong)
    with pytest.raises(TypeError, match="dual_commit"):
        ConsumerOptions(dual_commit="yes")
    assert not ConsumerOptions(offsets_storage="ads").uses_zookeeper
    there = ConsumerOptions(offsets_storage="zookeeper", zookeeper="127.0.0.1:1")
    for group in (None, "a/b"):
        with pytest.raises(ValueError, match="group"):
            there.check_group(group)
    ConsumerOptions(zookeeper="127.0.0.1:1").check_group("a/b")  # it is not used
