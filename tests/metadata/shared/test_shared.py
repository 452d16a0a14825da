"""Several brokers on one embedded store: what one does the others see; who leads when one goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.metadata.image import (
    NO_LEADER,
    BrokerState,
    Endpoint,
    LogEnd,
    PartitionId,
    PartitionState,
    Resource,
    ResourceType,
)
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.rules.leadership import Returned
from drumlin.metadata.shared.folders import folders_of, with_folders
from drumlin.metadata.shared.metadata import SharedMetadata
from drumlin.metadata.store.changes import BrokersChanged, Change, PartitionsChanged, TopicCreated
from drumlin.metadata.store.store import MetadataStore
from drumlin.wire.error_codes import ErrorCode, KafkaError
from metadata.several_brokers import all_of
from metadata.stores import SharedOwner
from rig.waiting import eventually

BROKER_DEFAULTS = Resource(ResourceType.BROKER, "")
Scenario = Callable[[SharedOwner, dict[int, SharedMetadata]], Awaitable[None]]


def broker(node_id: int) -> BrokerState:
    return BrokerState(node_id, "rack", (Endpoint("PLAINTEXT", "localhost", 9091 + node_id),))


async def begin(store: SharedMetadata, node_id: int) -> None:
    """Be a broker that finds no old logs."""
    await store.register_broker(broker(node_id))
    if store.adoption is not None:
        await store.adoption.note_adopted()


def run(
    directory: Path, scenario: Scenario, brokers: int = 3, unclean: Collection[str] = ()
) -> None:
    """Run a scenario with so many registered brokers, and stop all of them together."""

    async def with_brokers() -> None:
        node_ids = range(1, brokers + 1)
        owner = SharedOwner(directory, node_ids, unclean)
        stores = {each: await owner.open(each) for each in node_ids}
        # None of them is served before all are there.
        await asyncio.gather(*(begin(stores[each], each) for each in node_ids))
        try:
            await scenario(owner, stores)
        finally:
            owner.authority.stop()
            for store in stores.values():
                await store.close()
            await owner.authority.store.close()

    asyncio.run(with_brokers())


def state(store: MetadataStore, name: str, index: int = 0) -> PartitionState:
    return store.image.topics[name].partitions[index]


async def all_see(stores: dict[int, SharedMetadata], expected: Callable[[Any], bool]) -> None:
    await eventually(lambda: all(map(expected, stores.values())))


def test_everyone_sees_what_one_does(tmp_path: Path) -> None:
    async def scenario(_: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        seen: dict[int, list[Change]] = {node_id: [] for node_id in stores}
        for node_id, store in stores.items():
            store.on_change(seen[node_id].append)
        topic = await stores[1].create_topic("t", [[2], [3, 1]], {"retention.ms": "5"})
        await stores[2].add_partitions("t", 2, [[1]])
        await stores[3].alter_configs(
            BROKER_DEFAULTS, lambda _: {"log.retention.ms": "7", "no": None}
        )
        await all_see(stores, lambda each: each.image.configs(BROKER_DEFAULTS))
        for node_id, store in stores.items():
            assert store.image.topics_by_id[topic.topic_id].partitions == (
                PartitionState(0, 2, 0, (2,), (2,)),
                PartitionState(1, 3, 0, (3, 1), (3, 1)),
                PartitionState(2, 1, 0, (1,), (1,)),
            )
            assert store.image.topic_configs("t") == {"retention.ms": "5"}
            assert store.image.configs(BROKER_DEFAULTS) == {"log.retention.ms": "7"}
            assert sorted(store.image.brokers) == [1, 2, 3]
            assert store.image.brokers[2].endpoints == broker(2).endpoints
            assert store.image.controller_id == 1
            assert [type(each) for each in seen[node_id]] == [type(each) for each in seen[1]]
        await stores[2].delete_topic(topic.topic_id)
        await all_see(stores, lambda each: "t" not in each.image.topics)
        assert all(each.was_deleted(topic.topic_id) for each in stores.values())

    run(tmp_path, scenario)


def test_alterations_of_different_brokers_see_each_other(tmp_path: Path) -> None:
    def append(entry: str) -> Callable[[Any], dict[str, str | None]]:
        return lambda now: {"list": ",".join(filter(None, [now.get("list"), entry]))}

    async def scenario(_: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        await asyncio.gather(
            *(
                store.alter_configs(BROKER_DEFAULTS, append(f"{node_id}{each}"))
                for node_id, store in stores.items()
                for each in "abc"
            )
        )
        await all_see(
            stores,
            lambda each: len(each.image.configs(BROKER_DEFAULTS).get("list", "").split(",")) == 9,
        )
        entries = stores[1].image.configs(BROKER_DEFAULTS)["list"].split(",")
        assert sorted(entries) == sorted(
            f"{node_id}{each}" for node_id in (1, 2, 3) for each in "abc"
        )

    run(tmp_path, scenario)


def test_producer_ids_are_given_once(tmp_path: Path) -> None:
    async def scenario(_: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        asked = [store.next_producer_id_block() for store in stores.values() for _ in range(3)]
        blocks = await asyncio.gather(*asked)
        assert sorted(each.first for each in blocks) == list(range(0, 9000, 1000))

    run(tmp_path, scenario)


def test_a_broker_that_goes_is_replaced_where_another_is_in_sync(tmp_path: Path) -> None:
    async def scenario(owner: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        await stores[1].create_topic("t", [[1], [1, 2], [2, 1, 3]], {})
        changes: list[Change] = []
        stores[2].on_change(changes.append)
        gone, left = stores[1], {each: stores[each] for each in (2, 3)}
        before = gone.image.brokers[1]
        await gone.close()
        await all_see(left, lambda each: state(each, "t").leader == NO_LEADER)
        for store in left.values():
            assert sorted(store.image.brokers) == [2, 3]
            assert store.image.controller_id == 2
            assert store.image.topics["t"].partitions == (
                PartitionState(0, NO_LEADER, 1, (1,), (1,), 1, last_leader=1),
                PartitionState(1, 2, 1, (1, 2), (2,), 1),
                PartitionState(2, 2, 0, (2, 1, 3), (2, 3), 1),
            )
        await eventually(lambda: len(changes) > 1)
        assert isinstance(changes[0], BrokersChanged)
        assert isinstance(changes[1], PartitionsChanged)
        # It comes back as another process: in a new epoch, and leads what nobody else has.
        stores[1] = await owner.open(1)
        await stores[1].register_broker(broker(1))
        await all_see(stores, lambda each: state(each, "t").leader == 1)
        assert state(stores[3], "t") == PartitionState(0, 1, 2, (1,), (1,), 2)
        assert state(stores[3], "t", 1).isr == (2,)
        assert stores[3].image.brokers[1].epoch > before.epoch

    run(tmp_path, scenario)


def test_an_isr_grows_by_brokers_in_their_present_epoch(tmp_path: Path) -> None:
    async def scenario(owner: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        topic = await stores[1].create_topic("t", [[1, 2]], {})
        partition = PartitionId(topic.topic_id, 0)
        stale = stores[1].image.brokers[2].epoch
        await stores[2].close()
        await eventually(lambda: state(stores[1], "t").isr == (1,))
        stores[2] = await owner.open(2)
        await stores[2].register_broker(broker(2))
        await eventually(lambda: 2 in stores[1].image.brokers)
        known = state(stores[1], "t")

        async def wish(epoch: int, **more: int) -> PartitionState | KafkaError:
            wanted = IsrRequest(known.leader_epoch, known.partition_epoch, ((1, -1), (2, epoch)))
            return (await stores[1].alter_isrs({partition: wanted._replace(**more)}))[partition]

        for refused, code in (
            (await wish(stale), ErrorCode.ineligible_replica),
            (await wish(-1), ErrorCode.ineligible_replica),
            (await wish(stale, leader_epoch=7), ErrorCode.fenced_leader_epoch),
            (await wish(stale, partition_epoch=9), ErrorCode.invalid_update_version),
        ):
            assert isinstance(refused, KafkaError)
            assert refused.code is code
        granted = await wish(stores[1].image.brokers[2].epoch)
        assert granted == replace(known, isr=(1, 2), partition_epoch=known.partition_epoch + 1)
        assert state(stores[1], "t") == granted
        await eventually(lambda: state(stores[2], "t") == granted)

    run(tmp_path, scenario)


def test_what_cannot_be_stored_nobody_sees(tmp_path: Path) -> None:
    """A leader or an ISR that the next start does not know of must not be acted on."""

    async def scenario(owner: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        topic = await stores[1].create_topic("t", [[1, 2]], {})
        where = PartitionId(topic.topic_id, 0)
        await all_see(stores, lambda each: "t" in each.image.topics)
        before = state(stores[1], "t")
        wish = IsrRequest(before.leader_epoch, before.partition_epoch, ((1, -1),))
        connection = owner.authority.store._database._connection
        connection.execute("PRAGMA query_only = ON")
        refused = (await stores[1].alter_isrs({where: wish}))[where]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.kafka_storage_error
        assert state(owner.authority.store, "t") == before
        connection.execute("PRAGMA query_only = OFF")
        made = (await stores[1].alter_isrs({where: wish}))[where]
        assert isinstance(made, PartitionState)
        assert made.partition_epoch == before.partition_epoch + 1
        await all_see(stores, lambda each: state(each, "t") == made)

    run(tmp_path, scenario)


def test_a_broker_that_lacks_records_leaves_isrs_before_it_is_back(tmp_path: Path) -> None:
    async def scenario(owner: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        await stores[1].create_topic("t", [[1, 2], [1]], {})
        # All have gone at once; the one that was last in sync is the last of the ISR.
        for node_id in (2, 1, 3):
            await stores[node_id].close()
        await eventually(lambda: not owner.authority.image.brokers)
        for node_id in (3, 2, 1):
            stores[node_id] = await owner.open(node_id)
        for node_id in (3, 2, 1):
            lacking = all_of(stores[node_id], node_id, Returned(LogEnd(0, 0)))
            await stores[node_id].register_broker(broker(node_id), lacking=lacking)
            if node_id == 1:
                await stores[1].advance_leader_epochs()
        partitions = stores[1].image.topics["t"].partitions
        assert [each.isr for each in partitions] == [(1,), (1,)]
        assert [each.leader for each in partitions] == [1, 1]

    run(tmp_path, scenario)


def test_leaders_of_an_unclean_election(tmp_path: Path) -> None:
    async def scenario(owner: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        for name in ("careful", "careless"):
            topic = await stores[1].create_topic(name, [[1, 2]], {})
            wish = IsrRequest(0, 0, ((1, -1),))
            await stores[1].alter_isrs({PartitionId(topic.topic_id, 0): wish})
        await stores[1].close()
        await eventually(lambda: state(stores[2], "careless").leader == 2)
        assert state(stores[2], "careless").isr == (2,)
        assert state(stores[2], "careful").leader == NO_LEADER
        assert state(stores[2], "careful").isr == (1,)
        counts = owner.authority.controller.elections
        assert (counts.elections, counts.unclean) == (1, 1)
        assert counts.seconds > 0

    run(tmp_path, scenario, unclean=["careless"])


def test_fewer_replicas_may_be_asked_for_while_a_partition_has_no_leader(tmp_path: Path) -> None:
    """Two of three have come back from an unclean stop, and three had to have each record."""

    async def scenario(owner: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        needed = "min.insync.replicas"
        topic = await stores[1].create_topic("t", [[1, 2, 3]], {needed: "3"})
        for store in list(stores.values()):
            await store.close()
        await eventually(lambda: state(owner.authority.store, "t").leader == NO_LEADER)
        del stores[1]
        lacking = {PartitionId(topic.topic_id, 0): Returned(LogEnd(0, 10))}
        for node_id in stores:
            stores[node_id] = await owner.open(node_id)
            await stores[node_id].register_broker(broker(node_id), lacking=lacking)
        assert state(owner.authority.store, "t").leader == NO_LEADER
        resource = Resource(ResourceType.TOPIC, "t")
        await stores[2].alter_configs(resource, lambda _: {needed: "2"})
        assert state(stores[2], "t").leader == 3, "the last leader, as both logs end alike"

    run(tmp_path, scenario)


def test_a_broker_hands_over_before_it_stops(tmp_path: Path) -> None:
    async def scenario(_: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        topic = await stores[1].create_topic("t", [[1, 2], [1]], {})
        epoch = stores[2].image.brokers[1].epoch
        await stores[1].hand_over()
        assert state(stores[1], "t") == PartitionState(0, 2, 1, (1, 2), (2,), 1)
        assert state(stores[1], "t", 1).leader == 1
        # Nobody takes it in again, though it still fetches.
        wish = IsrRequest(1, 1, ((2, -1), (1, epoch)))
        partition = PartitionId(topic.topic_id, 0)
        refused = (await stores[2].alter_isrs({partition: wish}))[partition]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.ineligible_replica

    run(tmp_path, scenario)


def test_all_that_stop_together_stay_in_sync(tmp_path: Path) -> None:
    async def stop(owner: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        await stores[1].create_topic("t", [[1, 2, 3], [2, 3, 1]], {})
        owner.authority.stop()
        await asyncio.gather(*(each.hand_over() for each in stores.values()))

    async def check(_: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        assert stores[3].image.topics["t"].partitions == (
            PartitionState(0, 1, 0, (1, 2, 3), (1, 2, 3)),
            PartitionState(1, 2, 0, (2, 3, 1), (2, 3, 1)),
        )

    run(tmp_path, stop)
    run(tmp_path, check)


def test_a_topic_that_comes_while_its_leader_goes_gets_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(owner: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        store = owner.authority.store
        commit, is_written, may_go_on = store.commit, asyncio.Event(), asyncio.Event()

        async def commit_slowly(statements: Iterable[Any]) -> None:
            await commit(statements)
            is_written.set()
            await may_go_on.wait()

        monkeypatch.setattr(store, "commit", commit_slowly)
        creating = asyncio.ensure_future(stores[2].create_topic("t", [[1, 2]], {}))
        await is_written.wait()
        await stores[1].close()
        may_go_on.set()
        await creating
        await eventually(lambda: state(stores[2], "t").leader == 2)

    run(tmp_path, scenario)


def test_new_epochs_are_told_to_others_only(tmp_path: Path) -> None:
    async def scenario(_: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        topic = await stores[1].create_topic("t", [[1, 2]], {})
        changes: dict[int, list[Change]] = {1: [], 2: []}
        for node_id, seen in changes.items():
            stores[node_id].on_change(seen.append)
        await stores[1].advance_leader_epochs([PartitionId(topic.topic_id, 0)])
        assert state(stores[1], "t").leader_epoch == 1
        await eventually(lambda: [*map(type, changes[2])] == [PartitionsChanged])
        assert changes[1] == []

    run(tmp_path, scenario)


def test_a_listener_may_begin_epochs(tmp_path: Path) -> None:
    """As a broker does that has found a log missing."""

    async def scenario(_: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        async def follow(change: Change) -> None:
            if isinstance(change, TopicCreated):
                await stores[1].advance_leader_epochs([PartitionId(change.topic.topic_id, 0)])

        stores[1].on_change(follow)
        async with asyncio.timeout(20):
            await stores[1].create_topic("t", [[1]], {})
        assert state(stores[1], "t").leader_epoch == 1

    run(tmp_path, scenario)


def test_old_logs_are_taken_over_before_others_are_served(tmp_path: Path) -> None:
    async def with_brokers() -> None:
        owner = SharedOwner(tmp_path, [1, 2])
        stores = {each: await owner.open(each) for each in (1, 2)}
        second = asyncio.ensure_future(stores[2].register_broker(broker(2)))
        await stores[1].register_broker(broker(1))
        assert stores[2].adoption is None
        assert stores[1].adoption is not None
        assert not second.done()
        await stores[1].adoption.note_adopted(5000)
        await second
        assert (await stores[2].next_producer_id_block()).first == 5000
        for store in stores.values():
            await store.close()
        await owner.authority.store.close()

    asyncio.run(with_brokers())


def test_a_broker_that_is_not_listening_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(owner: SharedOwner, stores: dict[int, SharedMetadata]) -> None:
        monkeypatch.setattr("drumlin.metadata.shared.authority._WAITING_BYTES_MAX", 1 << 16)
        stores[2]._channel._reader._transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(400):
            await stores[1].create_topic(f"{number}", [[1]], {"x" * 10: "y" * 10_000})
            if owner.dropped:
                break
        assert owner.dropped == [2]

    run(tmp_path, scenario)


def test_without_the_owner_nothing_is_changed(tmp_path: Path) -> None:
    async def with_brokers() -> None:
        owner = SharedOwner(tmp_path, [1])
        has_ended = asyncio.Event()
        store = await owner.open(1, on_end=has_ended.set)
        await store.register_broker(broker(1))
        await owner.authority.disconnect(1)
        await has_ended.wait()
        with pytest.raises(KafkaError) as caught:
            await store.create_topic("t", [[1]], {})
        assert caught.value.code is ErrorCode.kafka_storage_error
        await owner.authority.store.close()
        await store.close()

    asyncio.run(with_brokers())


# -- folders of deleted topics ---------------------------------------------------------------

_ID = UUID(int=1)
_LOG_DIRS = {1: ["/a", "/b"], 2: ["/a/2", "/b/2"]}


def test_each_broker_says_what_is_left_with_it() -> None:
    assert folders_of(1, {_ID: None}, _LOG_DIRS) == {_ID: None}
    known = with_folders(1, None, [], _LOG_DIRS)
    assert set(known) == {"/a/2", "/b/2"}
    assert folders_of(1, {_ID: known}, _LOG_DIRS) == {}
    assert folders_of(2, {_ID: known}, _LOG_DIRS) == {_ID: ("/a/2", "/b/2")}
    assert with_folders(2, known, ["/b/2"], _LOG_DIRS) == ("/b/2",)
    assert with_folders(2, ("/b/2",), [], _LOG_DIRS) == ()


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.sets(st.integers(0, 1)))))
def test_nothing_is_forgotten_that_is_left(said: list[tuple[int, set[int]]]) -> None:
    known: tuple[str, ...] | None = None
    left = {node_id: set(paths) for node_id, paths in _LOG_DIRS.items()}
    for node_id, indexes in said:
        left[node_id] &= {_LOG_DIRS[node_id][each] for each in indexes}
        known = with_folders(node_id, known, sorted(left[node_id]), _LOG_DIRS)
        assert set(known) == left[1] | left[2]
