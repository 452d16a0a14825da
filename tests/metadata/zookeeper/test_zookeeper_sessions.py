"""Sessions with a real ZooKeeper: registered, elected, fenced, expired, refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

from drumlin.metadata.image import BrokerState, PartitionId, PartitionState, Resource, ResourceType
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.store.changes import BrokersChanged, Change
from drumlin.metadata.store.store import MetadataStore, UnusableMetadata
from drumlin.metadata.zookeeper.brokers import registration
from drumlin.metadata.zookeeper.znodes import layout, own_layout
from drumlin.storage.directory.partition_metadata import encode_uuid
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.zookeeper.connection import ZooKeeperFailure, close_client
from metadata.several_brokers import Brokers
from metadata.stores import Stores, stores_at
from rig.servers.zookeeper_operator import Operator
from rig.waiting import eventually

pytestmark = pytest.mark.zookeeper

DEFAULTS = Resource(ResourceType.BROKER, "")
ADDRESS_OF_NOTHING = "127.0.0.1:1"


# -- sessions ----------------------------------------------------------------------------------


def epoch_of(operator: Operator) -> int:
    return layout.decode_controller_epoch(operator.get(layout.CONTROLLER_EPOCH))


def test_a_session_that_has_expired(
    run: Callable[..., None], operator: Operator, chroot: str
) -> None:
    async def scenario(store: Any, changes: list[Change]) -> None:
        await store.create_topic("before", [[1]], {})
        first = operator.client.exists("/brokers/ids/1").ephemeralOwner
        assert first == store._commits.session.session_id
        await asyncio.to_thread(expire, store._commits.session._client, chroot)
        operator.put_topic("meanwhile", (1,))
        operator.put_configs(DEFAULTS, {"log.retention.ms": "6"})

        def is_registered_again() -> bool:
            stats = [operator.client.exists(path) for path in ("/brokers/ids/1", "/controller")]
            owners = {each and each.ephemeralOwner for each in stats}
            return len(owners) == 1 and owners.isdisjoint({first, None})

        await eventually(is_registered_again)
        assert epoch_of(operator) == 2
        await eventually(lambda: "meanwhile" in store.image.topics)
        await eventually(lambda: store.image.broker_configs("") == {"log.retention.ms": "6"})
        await store.create_topic("after", [[1]], {})
        state = layout.decode_state("", operator.get(layout.state_path("after", 0)))
        assert state.leader == 1
        await eventually(lambda: len(changes) >= 5)
        assert len(changes) == len(set(map(str, changes))) == 5
        assert BrokersChanged() in changes  # it is in another epoch
        assert store.image.brokers[1].epoch == 1

    run(scenario)


def test_an_epoch_that_has_only_begun_is_no_epoch_to_be_told(
    run: Callable[..., None], operator: Operator, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should the broker stop now, its log dirs are not to look like copies of an earlier stop."""

    def register(*_: object) -> bool:
        raise ZooKeeperFailure("it is away again")

    async def scenario(store: Any, _: list[Change]) -> None:
        path = own_layout.broker_epoch_path(1)
        before = store.broker_epoch
        assert before == operator.client.exists(path).version
        monkeypatch.setattr(registration, "register", register)
        await asyncio.to_thread(expire, store._commits.session._client, chroot)
        await eventually(lambda: operator.client.exists(path).version > before)
        assert store.broker_epoch == -1
        monkeypatch.undo()
        await eventually(lambda: store.broker_epoch > before)

    run(scenario)


def test_who_was_forgotten_comes_back_with_the_epoch_that_it_had(chroot: str) -> None:
    async def scenario() -> None:
        brokers = Brokers(chroot)
        first, second = await brokers.start_all(1, 2)
        last = second.broker_epoch
        await brokers.end(2)
        await eventually(lambda: 2 not in first.image.brokers)
        await first.unregister_broker(2)
        second = await brokers.start(2)
        assert second.last_broker_epoch == last
        assert second.broker_epoch > last
        await brokers.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [ValueError("no such watch"), MemoryError(), OSError(28, "x")])
def test_a_connection_that_fails_for_what_nobody_has_thought_of(
    run: Callable[..., None], operator: Operator, error: Exception
) -> None:
    """It begins anew, in the same session, and what is asked for meanwhile is answered."""

    async def scenario(store: Any, _: list[Change]) -> None:
        first = operator.client.exists("/brokers/ids/1").ephemeralOwner
        handler = store._commits.session._client.handler
        select, failures = handler.select, []

        def fail_once(*arguments: Any) -> Any:
            if not failures:
                failures.append(error)
                raise error
            return select(*arguments)

        handler.select = fail_once
        tries = 0

        async def is_created() -> bool:
            nonlocal tries
            tries += 1
            try:
                await store.create_topic(f"t{tries}", [[1]], {})
            except KafkaError:
                return False
            return bool(failures)

        await eventually(is_created)
        assert operator.client.exists("/brokers/ids/1").ephemeralOwner == first

    run(scenario)


@pytest.mark.parametrize("is_closed", [True, False])
def test_what_is_asked_of_a_store_that_closes(chroot: str, *, is_closed: bool) -> None:
    """It is done, or refused with an error that a client can be told."""

    async def scenario() -> None:
        store = await Brokers(chroot).start(1)
        topic = await store.create_topic("t", [[1]], {})
        partition = PartitionId(topic.topic_id, 0)
        asked = [
            lambda: store.create_topic("new", [[1]], {}),
            lambda: store.add_partitions("t", 1, [[1]]),
            lambda: store.alter_configs(DEFAULTS, lambda _: {"log.retention.ms": "6"}),
            lambda: store.next_producer_id_block(),
            lambda: store.note_folders_left({topic.topic_id: ["/data"]}),
            lambda: store.alter_isrs({partition: IsrRequest(0, 0, ((1, 0),))}),
            lambda: store.reassign({partition: (1,)}),
            lambda: store.elect_leaders([partition], is_unclean=False),
            lambda: store.advance_leader_epochs([partition]),
            lambda: store.leave_isrs([partition]),
            lambda: store.unregister_broker(5),
            lambda: store.delete_topic(topic.topic_id),
            lambda: store.hand_over(),
        ]
        if is_closed:
            await store.close()
        tasks = [asyncio.ensure_future(ask()) for ask in asked]
        await asyncio.sleep(0)
        if not is_closed:
            await store.close()
        done, waiting = await asyncio.wait(tasks, timeout=20)
        assert not waiting
        failures = [each.exception() for each in done if not each.cancelled()]
        assert {type(each) for each in failures} <= {type(None), KafkaError}, failures

    asyncio.run(scenario())


def test_an_epoch_that_may_have_begun_is_not_known(
    run: Callable[..., None], operator: Operator, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop that named the one before would have all logs taken for older copies."""

    async def scenario(store: Any, _: list[Change]) -> None:
        def epoch() -> int:
            return operator.client.exists(own_layout.broker_epoch_path(1)).version

        before = store.broker_epoch
        assert before == epoch()
        with monkeypatch.context() as refusing:
            refusing.setattr(registration, "register", lambda *_: False)
            await asyncio.to_thread(expire, store._commits.session._client, chroot)
            await eventually(lambda: epoch() > before)
            assert store.broker_epoch == -1
        await eventually(lambda: store.broker_epoch == epoch())

    run(scenario)


def test_who_stops_begins_no_epoch(
    run: Callable[..., None], operator: Operator, chroot: str
) -> None:
    async def scenario(store: Any, _: list[Change]) -> None:
        store.register_no_more()
        before = store.broker_epoch
        await asyncio.to_thread(expire, store._commits.session._client, chroot)
        await eventually(lambda: store._registration.fence is None)
        assert not await store._registration.keep()
        assert store.broker_epoch == before
        assert operator.client.exists(own_layout.broker_epoch_path(1)).version == before
        assert not operator.has("/brokers/ids/1")

    run(scenario)


def expire(client: KazooClient, hosts: str) -> None:
    """End a session from outside: another client takes it over, and closes it."""
    thief = KazooClient(hosts, client_id=client.client_id)
    thief.start()
    close_client(thief)


def test_an_office_that_another_takes_is_taken_back(
    run: Callable[..., None], operator: Operator
) -> None:
    async def scenario(store: Any, changes: list[Change]) -> None:
        stale = store._parts.controllership.fence
        operator.client.delete(layout.CONTROLLER)  # by which operators have another one elected
        await eventually(lambda: operator.has(layout.CONTROLLER) and epoch_of(operator) == 2)
        operator.put(layout.CONTROLLER_EPOCH, b"50")
        await eventually(lambda: epoch_of(operator) == 51)
        await eventually(lambda: store._parts.controllership.epoch == 51)
        await store.create_topic("t", [[1]], {})
        state = operator.get(layout.state_path("t", 0))
        assert b'"controller_epoch":51' in state
        with pytest.raises(KafkaError) as caught:  # what a zombie would write
            await store._commits.commit([layout_of_a_zombie()], stale)
        assert caught.value.code is ErrorCode.not_controller
        assert operator.get(layout.state_path("t", 0)) == state

    run(scenario)


def layout_of_a_zombie() -> Any:
    from drumlin.metadata.zookeeper.znodes.operations import Replace

    return Replace(layout.state_path("t", 0), b"stale")


def test_who_cannot_be_a_broker(
    run: Callable[..., None],
    operator: Operator,
    chroot: str,
    caplog: pytest.LogCaptureFixture,
    nobody_is_waited_for: None,
) -> None:
    """One whose id another process has; and one beside brokers of another program."""

    async def refused(node_id: int, complaint: str) -> None:
        def start() -> None:
            with pytest.raises(UnusableMetadata, match=complaint):
                stores_at(chroot, node_id).run(nothing)

        await asyncio.to_thread(start)

    async def nothing(store: MetadataStore) -> None:
        pytest.fail("it has started")

    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        await refused(1, "broker 1 is registered .* another broker with this id runs")
        assert operator.client.get_children(layout.BROKERS) == ["1"]
        assert epoch_of(operator) == 1
        operator.client.create(layout.broker_path(7), b"", ephemeral=True)
        await eventually(lambda: "broker 7 has registered in ZooKeeper" in caplog.text)
        await refused(2, "broker 7 is registered in ZooKeeper .* is not a Drumlin broker")
        assert list(store.image.brokers) == [1]
        await store.create_topic("t", [[1]], {})

    run(scenario)


def test_who_waits_for_a_predecessor_can_be_stopped(
    run: Callable[..., None], chroot: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        with caplog.at_level(logging.INFO):
            async with asyncio.timeout(20):
                await asyncio.to_thread(begin_and_give_up)
        assert "/brokers/ids/1 is another session's: waiting until that ends" in caplog.text

    def begin_and_give_up() -> None:
        async def second() -> None:
            store = await stores_at(chroot, session_timeout_ms=60_000).open()
            taking = asyncio.ensure_future(store.register_broker(BrokerState(1, None, ())))
            await eventually(lambda: "waiting until that ends" in caplog.text)
            taking.cancel()
            await store.close()

        asyncio.run(second())

    run(scenario)


def test_a_zookeeper_that_has_lost_everything(
    run: Callable[..., None], operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(store: Any, changes: list[Change]) -> None:
        topic = await store.create_topic("t", [[1]], {})
        await store.create_topic("u", [[1]], {})
        for name in operator.client.get_children("/"):
            operator.client.delete(f"/{name}", recursive=True)
        await eventually(lambda: "has no cluster any more" in caplog.text)
        with pytest.raises(KafkaError):
            await store.create_topic("v", [[1]], {})
        await asyncio.sleep(0)
        assert sorted(store.image.topics) == ["t", "u"]
        assert store.image.topics["t"] == topic
        assert not store.was_any_deleted()
        assert "brokers" not in operator.client.get_children("/")
        operator.put(layout.CLUSTER_ID, layout.encode_cluster_id("another"))
        await eventually(lambda: "has cluster another now, in place of cluster" in caplog.text)

    run(scenario)


def test_brokers_that_are_gone_lead_no_more(in_zookeeper: Stores, operator: Operator) -> None:
    topic_id = operator.put_topic("t", (2, 1), (1, 2), (2,))
    for index, state in enumerate(
        [
            layout.StateNode(2, 4, (2, 1)),
            layout.StateNode(1, 4, (1, 2)),
            layout.StateNode(2, 4, (2,)),
        ]
    ):
        operator.put(
            layout.state_path("t", index), layout.encode_state(state._replace(controller_epoch=9))
        )
    operator.put(layout.CONTROLLER_EPOCH, b"9")

    async def scenario(store: MetadataStore) -> None:
        partitions = store.image.topics_by_id[topic_id].partitions
        assert partitions == (
            PartitionState(0, 1, 5, (2, 1), (1,), 1),
            PartitionState(1, 1, 4, (1, 2), (1,), 1),
            PartitionState(
                2, -1, 5, (2,), (2,), 1, last_leader=2
            ),  # only the other one has its records
        )
        stored = layout.decode_state("", operator.get(layout.state_path("t", 0)))
        assert stored == layout.StateNode(1, 5, (1,), 10)

    in_zookeeper.run(scenario)


def test_epochs_go_on_where_states_are_missing_or_changed(
    run: Callable[..., None], operator: Operator
) -> None:
    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        topic = await store.create_topic("t", [[1]] * 4, {}, first_leader_epoch=5)
        operator.client.delete(layout.state_path("t", 1))
        operator.client.delete(layout.partition_path("t", 2), recursive=True)
        ahead = layout.encode_state(layout.StateNode(1, 9, (1,), 1))
        operator.put(layout.state_path("t", 3), ahead)
        await store.advance_leader_epochs()
        partitions = store.image.topics["t"].partitions
        assert [each.leader_epoch for each in partitions] == [6, 6, 6, 10]
        assert [each.leader for each in partitions] == [1] * 4
        for index, epoch in enumerate([6, 6, 6, 10]):
            state = layout.decode_state("", operator.get(layout.state_path("t", index)))
            assert state == layout.StateNode(1, epoch, (1,), 1)
        operator.client.delete(layout.topic_path("t"), recursive=True)
        await store.advance_leader_epochs({PartitionId(topic.topic_id, 0)})
        assert not operator.has(layout.topic_path("t"))  # it is not made again, empty

    run(scenario)


def test_the_data_of_another_cluster_is_refused(chroot: str) -> None:
    from drumlin.clock import SystemClock
    from drumlin.config.broker import BrokerConfig
    from drumlin.metadata.zookeeper.metadata import ZooKeeperMetadata

    async def open_with(cluster_id: str | None) -> str:
        config = BrokerConfig({"zookeeper.connect": chroot})
        store = await ZooKeeperMetadata.open(config, SystemClock(), cluster_id)
        await store.close()
        return store.image.cluster_id

    with pytest.raises(UnusableMetadata, match=r"belong to cluster AAAA.* no cluster yet"):
        asyncio.run(open_with("AAAA"))
    known = asyncio.run(open_with(None))
    assert len(known) == 22
    assert asyncio.run(open_with(known)) == known
    with pytest.raises(UnusableMetadata, match=f"belong to cluster AAAA.* cluster {known}"):
        asyncio.run(open_with("AAAA"))


def test_no_zookeeper_answers() -> None:
    async def nothing(store: MetadataStore) -> None:
        pytest.fail("it has started")

    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    with pytest.raises(UnusableMetadata, match=r"no ZooKeeper answers on 127\.0\.0\.1:1"):
        stores_at(ADDRESS_OF_NOTHING, zookeeper_connection_timeout_ms="500").run(nothing)
    with pytest.raises(UnusableMetadata, match="is no ZooKeeper address"):
        stores_at("one,,two/x").run(nothing)


def test_names_of_deleted_topics_are_their_ids(operator: Operator, in_zookeeper: Stores) -> None:
    operator.put(f"{layout.DELETED}/no-id", layout.encode_folders({1: None}))
    topic_id = uuid4()
    operator.put(layout.deleted_path(topic_id), b"garbage")
    elsewhere = uuid4()
    operator.put(layout.deleted_path(elsewhere), layout.encode_folders({7: None}))
    assert layout.deleted_path(topic_id).endswith(encode_uuid(topic_id))

    async def scenario(store: MetadataStore) -> None:
        assert store.was_deleted(elsewhere)
        assert not store.was_deleted(topic_id)
        assert store.deleted_topics == {}

    in_zookeeper.run(scenario)
    assert operator.has(layout.deleted_path(elsewhere))
